// Byte sorts: a fixed partition of the 256 byte values into ranges that grammars mostly treat
// alike, such as the lower-case letters.
//
// All bytes of a sort have the same role in UTF-8, and either all or none of them may appear
// unescaped in a JSON string. The table is constant; any thread.
#pragma once

#include <stdint.h>

enum { BYTE_SORTS = 57 };
// First byte of each sort, in order; the last entry is 256.
extern const uint16_t BYTE_SORT_FIRST[BYTE_SORTS + 1];

// Writes the sort of each byte.
void byte_sorts_fill(uint8_t sort_of[256]);
// Returns the sorts that the set splits: bit i is set if the set contains some but not all bytes of
// sort i.
uint64_t byte_sorts_cut(const uint32_t set[8]);
