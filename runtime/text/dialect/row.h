// SPDX-License-Identifier: Apache-2.0
// Rows of the table of dialects, defined in table.c and used by the reader (reply.c) and grammar.c.
#pragma once

#include "runtime/text/dialect/dialect.h"

// Meaning of a marker. The reader only searches for the roles that its state allows.
enum marker_role {
    ROLE_NONE,
    ROLE_REASONING_OPEN,
    ROLE_REASONING_CLOSE,
    ROLE_DROP,    // dropped anywhere
    ROLE_MESSAGE, // dropped; a new part of the answer begins after it
    // begins a header, which is dropped up to ROLE_NAME_CLOSE if no other marker matches
    ROLE_HEADER,
    ROLE_SECTION_OPEN,  // before all calls, or before each
    ROLE_SECTION_CLOSE, // after all calls, or after each
    ROLE_CALL_OPEN,     // before the head of a call
    ROLE_CALL_FIRST,    // as CALL_OPEN, but only at the beginning of a part of the answer
    ROLE_CALL_CLOSE,    // after the arguments
    ROLE_ID_OPEN,       // before the id
    ROLE_NAME_OPEN,     // after the id, before the name
    ROLE_NAME_CLOSE,    // after the name, before the arguments
    ROLE_KEY_OPEN,      // before the key of a parameter
    ROLE_KEY_CLOSE,     // before its value, or before VALUE_OPEN
    ROLE_KEY_STRING,    // before a value that is a string
    ROLE_KEY_OTHER,     // before a value that is not a string
    ROLE_VALUE_OPEN,
    ROLE_VALUE_CLOSE,
    ROLE_RAW_OPEN,  // before a value that only ROLE_RAW_CLOSE ends
    ROLE_RAW_CLOSE, // after such a value
    ROLE_QUOTE,     // before and after a string
    ROLE_TAG,       // before the tag of an element: a name and '>'
    ROLE_COUNT
};

#define ROLE_BIT(role) (1u << (role))

// What follows ROLE_CALL_OPEN.
enum dialect_form {
    FORM_NONE,
    FORM_OBJECT,     // an object, or a list of objects, that contain the name and the arguments
    FORM_NAMED,      // the name, then the arguments as JSON
    FORM_PARAMETERS, // the name, then elements
    FORM_ELEMENTS,   // the name, then nested elements
    FORM_PYTHON,     // name(key=value, ...), or a list of these
    FORM_BARE_KEYS,  // name{key:value,...}
};

enum row_flag {
    ROW_BARE_OBJECT = 1, // a part of the answer that begins with { or [ can be a call
    // a part of the answer that begins with [ can be a list of calls; with { it can be one as JSON
    ROW_BARE_LIST = 2,
    ROW_KEYED = 4,         // the only key of the object is the name of the function
    ROW_BRACE_ENDS = 8,    // { also ends the name
    ROW_OBJECT_TOO = 16,   // an object or list in place of the name is read as FORM_OBJECT
    ROW_NAME_IS_ID = 32,   // functions.NAME:INDEX is both the id and the name
    ROW_WORDS_AFTER = 64,  // other words may follow the name, before its end
    ROW_NAME_ALL = 128,    // the name "all" means that text follows
    ROW_LINE_VALUES = 256, // one line end after ROLE_KEY_CLOSE does not belong to the value
    ROW_PYTHON_TOO = 512,  // NAME.call(key=value) is allowed in place of the object
};

#define ROW_ALL_LINE ">>>all\n" // with ROW_NAME_ALL: text begins

enum { ROW_SIGNS = 2, ROW_MARKERS = 20 };

struct row_marker {
    enum marker_role role;
    const char *text;
};

struct dialect_row {
    const char *name;
    const char *signs[ROW_SIGNS]; // strings that the template contains, all of them; NULL: unused
    const char *also;             // a string that is enough without the signs, or NULL
    enum dialect_form form;
    unsigned flags; // enum row_flag
    struct row_marker markers[ROW_MARKERS];
    struct dialect_syntax syntax;
};

// Returns the text of the first marker with this role, or NULL.
static inline const char *row_marker_text(const struct dialect_row *row, enum marker_role role)
{
    for (uint32_t i = 0; i < ROW_MARKERS && row->markers[i].text; i++)
        if (row->markers[i].role == role)
            return row->markers[i].text;
    return NULL;
}

struct dialect_reasoning {
    const char *name;
    const char *sign; // string that the template contains
    struct dialect_reasoning_syntax syntax;
};

extern const struct dialect_row dialect_rows[];
extern const uint32_t dialect_row_count;
extern const struct dialect_reasoning dialect_reasonings[];
extern const uint32_t dialect_reasoning_count;
