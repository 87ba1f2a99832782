// SPDX-License-Identifier: Apache-2.0
// The table of byte groups. See byte_groups.h.
#include "runtime/grammar/byte_groups.h"

const uint16_t BYTE_GROUP_FIRST[BYTE_GROUPS + 1] = {
    0x00, '\t', '\n', 0x0B, '\r', 0x0E, ' ',  '!',  '"',  '#',  '$',  '%',  '&',  '\'', '(',
    ')',  '*',  '+',  ',',  '-',  '.',  '/',  '0',  ':',  ';',  '<',  '=',  '>',  '?',  '@',
    'A',  '[',  '\\', ']',  '^',  '_',  '`',  'a',  '{',  '|',  '}',  '~',  0x7F, 0x80, 0x90,
    0xA0, 0xC0, 0xC2, 0xE0, 0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF, 256,
};

void byte_groups_fill(uint8_t group_of[256])
{
    for (uint8_t group = 0; group < BYTE_GROUPS; group++)
        for (uint32_t byte = BYTE_GROUP_FIRST[group]; byte < BYTE_GROUP_FIRST[group + 1]; byte++)
            group_of[byte] = group;
}

uint64_t byte_groups_cut(const uint32_t set[8])
{
    uint64_t cut = 0;
    for (uint32_t group = 0; group < BYTE_GROUPS; group++) {
        uint32_t has = 0, first = BYTE_GROUP_FIRST[group], end = BYTE_GROUP_FIRST[group + 1];
        for (uint32_t byte = first; byte < end && end - first > 1; byte++)
            has += set[byte / 32] >> (byte % 32) & 1;
        cut |= (uint64_t)(has > 0 && has < end - first) << group;
    }
    return cut;
}
