// Sorts of bytes: ranges that grammars mostly treat alike, such as the letters of one case.
//
// A byte is of one sort. No sort has bytes that UTF-8 tells apart, nor such that a JSON string
// holds as they are beside others. Immutable, any thread.
#pragma once

#include <stdint.h>

enum { BYTE_SORTS = 57 };
// The first byte of each sort, in order; the one after the last is 256.
extern const uint16_t BYTE_SORT_FIRST[BYTE_SORTS + 1];

void byte_sorts_fill(uint8_t sort_of[256]);
// The sorts of which the set has some bytes and not all: bit i is sort i.
uint64_t byte_sorts_cut(const uint32_t set[8]);
