// The character classes that tokenizers ask for. Pure functions over constant tables.
#pragma once

#include "base/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool char_is_letter(uint32_t c); // \p{L}
bool char_is_number(uint32_t c); // \p{N}
bool char_is_space(uint32_t c);  // White_Space
bool char_is_word(uint32_t c);   // \w
bool char_is_mark(uint32_t c);   // a combining mark, as the StripAccents normalizer sees it
bool char_is_mark_nonspacing(uint32_t c); // as the BERT normalizer sees it
bool char_is_punctuation(uint32_t c); // ASCII punctuation and \p{P}, as BERT pre-tokenizers see it
bool char_is_control(uint32_t c);     // as the BERT normalizer sees it
bool char_is_cjk(uint32_t c);         // as the BERT normalizer sees it
// Newer than the Unicode version of the forms NFC to NFKD, which leave it unchanged.
bool char_is_inert(uint32_t c);
int32_t char_script(uint32_t c); // as the UnicodeScripts pre-tokenizer sees it; -1: none
// Lower case; U+0130 gives two characters. Returns how many.
int char_lower(uint32_t c, uint32_t out[2]);

// The character that stands for a byte in byte-level vocabularies, and back (-1: none).
uint32_t byte_char(unsigned char byte);
int char_byte(uint32_t c);
