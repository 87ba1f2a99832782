// SPDX-License-Identifier: Apache-2.0
// Incremental scanners: whether bytes are JSON so far, and the contents of a JSON string. Plain
// values without allocated memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Deeper values are malformed: the next request contains the arguments in its body, which may have
// at most JSON_DEPTH_MAX levels (base/json.h).
enum { JSON_SCAN_DEPTH_MAX = 120 };

enum json_scan_step {
    JSON_SCAN_MORE,
    JSON_SCAN_DONE,   // the value ended with this byte
    JSON_SCAN_BEFORE, // the value (a number) ended before this byte
    JSON_SCAN_BAD,
};

struct json_scan {
    uint8_t state, left;
    uint16_t depth;
    bool key;                                          // true if the open string is a key
    const char *word;                                  // the rest of true, false or null
    uint64_t objects[(JSON_SCAN_DEPTH_MAX + 63) / 64]; // bitmap: level i is an object
};

void json_scan_begin(struct json_scan *s); // begins any value; blanks before it are allowed
// Begins an object; blanks before it are allowed.
void json_scan_begin_object(struct json_scan *s);
enum json_scan_step json_scan_byte(struct json_scan *s, char byte); // reads the next byte
bool json_scan_number_ends(const struct json_scan *s); // true if it is a complete number

bool json_scan_in_string(const struct json_scan *s); // true inside of a string

enum json_unescape_step { JSON_UNESCAPE_MORE, JSON_UNESCAPE_END, JSON_UNESCAPE_BAD };

// Decoder of a JSON string, after its opening quote mark.
struct json_unescape {
    uint8_t state;
    uint16_t high; // first half of a surrogate pair, or 0
    uint32_t value;
};

// Reads one byte and writes the decoded *bytes bytes, at most 8, to out.
enum json_unescape_step json_unescape_byte(struct json_unescape *u, char byte, char out[8],
                                           uint32_t *bytes);
