// SPDX-License-Identifier: Apache-2.0
// The character classes that tokenizers need. Pure functions over constant tables.
#pragma once

#include "base/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool char_is_letter(uint32_t c);          // \p{L}
bool char_is_number(uint32_t c);          // \p{N}
bool char_is_space(uint32_t c);           // White_Space
bool char_is_word(uint32_t c);            // \w
bool char_is_mark(uint32_t c);            // combining mark, as in the StripAccents normalizer
bool char_is_mark_nonspacing(uint32_t c); // nonspacing mark, as in the BERT normalizer
bool char_is_punctuation(uint32_t c);     // ASCII punctuation and \p{P}, as in BERT's pre-tokenizer
bool char_is_control(uint32_t c);         // control character, as in the BERT normalizer
bool char_is_cjk(uint32_t c);             // CJK ideograph, as in the BERT normalizer
// True if the character is newer than the Unicode version of the reference library's NFC to NFKD,
// which leave it unchanged.
bool char_is_inert(uint32_t c);
int32_t char_script(uint32_t c); // script number, as in the UnicodeScripts pre-tokenizer; -1: none
// Writes the lower case of c; U+0130 gives two characters. Returns the number written.
int char_lower(uint32_t c, uint32_t out[2]);

// Returns the character that represents a byte in byte-level vocabularies, and the byte of such a
// character (-1: none).
uint32_t byte_char(unsigned char byte);
int char_byte(uint32_t c);
