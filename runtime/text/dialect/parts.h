// SPDX-License-Identifier: Apache-2.0
// Private header of the reply reader (read.h): the states of the parts of a call.
#pragma once

#include "base/json.h"
#include "runtime/text/dialect/scan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum object_key { KEY_OTHER, KEY_NAME, KEY_ID, KEY_ARGUMENTS, KEY_FUNCTION };

// A call written as an object.
struct read_object {
    uint8_t state, depth, kind; // kind: enum object_key
    bool active;                // true if the call is an object
    bool list;                  // true if [ preceded it
    bool bare;                  // true if no marker preceded it: an unknown key makes it text
    bool tail;                  // true after the arguments were emitted: the rest is skipped
    bool has_name, has_arguments;
    size_t item; // index of its { in reply.held
    char key[24];
    uint8_t key_bytes;
    size_t arguments_from, arguments_to; // range in reply.held, of arguments before the name
    struct json_scan scan;
    struct json_unescape unescape;
};

// A value whose type is not decided yet.
struct read_value {
    unsigned types;  // enum schema_type; 0: unknown
    bool decided;    // true if it is a string, which is emitted as it arrives
    bool forced;     // true if the dialect marks it as not a string
    bool raw, begun; // raw: only ROLE_RAW_CLOSE ends it; begun: a symbol was read
    bool over, bad;  // over: it is one complete JSON value; bad: it is not JSON
    bool streams;    // true if it was too long to hold: it is JSON and is emitted as it arrives
    bool filled;     // true if it has a byte
    bool doubt;      // true if it contains a tag that could end it
    uint8_t tag, last_tag; // READ_VALUE_END: roles of the first and the last held tag
    uint8_t line, tag_end; // number of held symbols before and up to the end of the first
    uint8_t tag_text;      // number of symbols that follow and are not a tag
    struct json_scan scan;
    struct json_buffer held; // bytes that are not emitted yet
    size_t first, end;       // range of held without surrounding blanks
};

// A call of a list that is text because no tool has its name.
struct read_passed {
    enum { PASSED_INSIDE, PASSED_AFTER, PASSED_NEXT } state; // NEXT: after the comma
    uint32_t depth;                                          // number of open brackets
    char quote;   // quote mark of the open string; 0: there is none
    bool escaped; // true after a backslash in a string
};

// One level of nested arguments: an element (FORM_ELEMENTS), or a container in a Python literal.
struct read_level {
    char kind;            // '{', '[', '('; 0: unknown
    bool filled, more;    // true if it has a member; true if a comma follows one
    uint32_t name;        // hash of its tag
    const json_t *schema; // schema of its value, or NULL
};
