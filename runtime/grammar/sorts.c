// The table of byte sorts. See sorts.h.
#include "runtime/grammar/sorts.h"

const uint16_t BYTE_SORT_FIRST[BYTE_SORTS + 1] = {
    0x00, '\t', '\n', 0x0B, '\r', 0x0E, ' ',  '!',  '"',  '#',  '$',  '%',  '&',  '\'', '(',
    ')',  '*',  '+',  ',',  '-',  '.',  '/',  '0',  ':',  ';',  '<',  '=',  '>',  '?',  '@',
    'A',  '[',  '\\', ']',  '^',  '_',  '`',  'a',  '{',  '|',  '}',  '~',  0x7F, 0x80, 0x90,
    0xA0, 0xC0, 0xC2, 0xE0, 0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF, 256,
};

void byte_sorts_fill(uint8_t sort_of[256])
{
    for (uint8_t sort = 0; sort < BYTE_SORTS; sort++)
        for (uint32_t byte = BYTE_SORT_FIRST[sort]; byte < BYTE_SORT_FIRST[sort + 1]; byte++)
            sort_of[byte] = sort;
}

uint64_t byte_sorts_cut(const uint32_t set[8])
{
    uint64_t cut = 0;
    for (uint32_t sort = 0; sort < BYTE_SORTS; sort++) {
        uint32_t has = 0, first = BYTE_SORT_FIRST[sort], end = BYTE_SORT_FIRST[sort + 1];
        for (uint32_t byte = first; byte < end && end - first > 1; byte++)
            has += set[byte / 32] >> (byte % 32) & 1;
        cut |= (uint64_t)(has > 0 && has < end - first) << sort;
    }
    return cut;
}
