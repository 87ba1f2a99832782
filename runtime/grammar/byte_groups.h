// SPDX-License-Identifier: Apache-2.0
// Byte groups: a fixed partition of the 256 byte values into ranges that grammars mostly treat
// alike, such as the lower-case letters.
//
// All bytes of a group have the same role in UTF-8, and either all or none of them may appear
// unescaped in a JSON string. The table is constant; any thread.
#pragma once

#include <stdint.h>

enum { BYTE_GROUPS = 57 };
// First byte of each group, in order; the last entry is 256.
extern const uint16_t BYTE_GROUP_FIRST[BYTE_GROUPS + 1];

// Writes the group of each byte.
void byte_groups_fill(uint8_t group_of[256]);
// Returns the groups that the set splits: bit i is set if the set contains some but not all bytes
// of group i.
uint64_t byte_groups_cut(const uint32_t set[8]);
