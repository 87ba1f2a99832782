// JSON byte by byte: is a text JSON so far, and what does a string say. Values, no memory of their
// own.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// What is nested deeper is broken: the next request has it inside of its body, which has at most
// JSON_DEPTH_MAX levels (base/json.h).
enum { JSON_SCAN_DEPTH_MAX = 120 };

enum json_scan_step {
    JSON_SCAN_MORE,
    JSON_SCAN_DONE,   // the value ended with this byte
    JSON_SCAN_BEFORE, // the value (a number) ended before this byte, which is not of it
    JSON_SCAN_BAD,
};

struct json_scan {
    uint8_t state, left;
    uint16_t depth;
    bool key;                                          // the string that is open is a key
    const char *word;                                  // rest of true, false, null
    uint64_t objects[(JSON_SCAN_DEPTH_MAX + 63) / 64]; // bit: this level is an object
};

void json_scan_begin(struct json_scan *s);        // blanks before the value are allowed
void json_scan_begin_object(struct json_scan *s); // the same, and the value is an object
enum json_scan_step json_scan_byte(struct json_scan *s, char byte);
bool json_scan_number_ends(const struct json_scan *s); // a whole number, if nothing follows

enum json_unescape_step { JSON_UNESCAPE_MORE, JSON_UNESCAPE_END, JSON_UNESCAPE_BAD };

// The bytes of a JSON string after its first quote mark.
struct json_unescape {
    uint8_t state;
    uint16_t high; // a surrogate that waits for its second half, or 0
    uint32_t value;
};

// out gets *bytes of at most 8.
enum json_unescape_step json_unescape_byte(struct json_unescape *u, char byte, char out[8],
                                           uint32_t *bytes);
