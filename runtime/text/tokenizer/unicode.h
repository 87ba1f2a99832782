// UTF-8 and the character classes that tokenizers ask for. Pure functions over constant tables.
#pragma once

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of the character at `at` by its first byte; the text must be valid UTF-8.
static inline size_t utf8_length(const char *at)
{
    unsigned char lead = (unsigned char)*at;
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The character at `at` in valid UTF-8; *bytes gets its length.
static inline uint32_t utf8_read(const char *at, size_t *bytes)
{
    const unsigned char *u = (const unsigned char *)at;
    if (u[0] < 0x80) {
        *bytes = 1;
        return u[0];
    }
    if (u[0] < 0xE0) {
        *bytes = 2;
        return (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
    }
    if (u[0] < 0xF0) {
        *bytes = 3;
        return (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
    }
    *bytes = 4;
    return (u[0] & 0x07u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
}

// Start of the character that ends before `end` (valid UTF-8, not at the beginning).
static inline size_t utf8_before(const char *at, size_t end)
{
    do
        end--;
    while (((unsigned char)at[end] & 0xC0) == 0x80);
    return end;
}

size_t utf8_write(uint32_t c, char *out); // out: 4 bytes; returns 1..4
// Length of the valid character at `at`, 0 if the bytes there are not one.
size_t utf8_valid(const char *at, size_t bytes);
// How many bytes from the start are valid UTF-8.
size_t utf8_valid_prefix(struct text text);
// The length of the bad piece that one U+FFFD stands for (a maximal subpart), 1..3.
size_t utf8_bad_length(const char *at, size_t bytes);
// The text itself if it is valid, else a copy with U+FFFD; at == NULL when the arena is full.
struct text utf8_lossy(struct arena *arena, struct text text);

bool char_is_letter(uint32_t c); // \p{L}
bool char_is_number(uint32_t c); // \p{N}
bool char_is_space(uint32_t c);  // White_Space
bool char_is_word(uint32_t c);   // \w
bool char_is_mark(uint32_t c);   // a combining mark, as the StripAccents normalizer sees it
bool char_is_mark_nonspacing(uint32_t c); // as the BERT normalizer sees it
bool char_is_punctuation(uint32_t c); // ASCII punctuation and \p{P}, as BERT pre-tokenizers see it
bool char_is_control(uint32_t c);     // as the BERT normalizer sees it
bool char_is_cjk(uint32_t c);         // as the BERT normalizer sees it
// Younger than the Unicode version of the forms NFC to NFKD: they leave it alone.
bool char_is_inert(uint32_t c);
int32_t char_script(uint32_t c); // as the UnicodeScripts pre-tokenizer sees it; -1: none
// Lower case; U+0130 gives two characters. Returns how many.
int char_lower(uint32_t c, uint32_t out[2]);

// The character that stands for a byte in byte-level vocabularies, and back (-1: none).
uint32_t byte_char(unsigned char byte);
int char_byte(uint32_t c);
