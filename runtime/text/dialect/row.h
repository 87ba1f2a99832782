// The rows of the table of dialects, as table.c has them and the reader (reply.c) uses them.
#pragma once

#include "runtime/text/dialect/dialect.h"

// What a marker means. The reader looks only for the roles that its state allows.
enum marker_role {
    ROLE_NONE,
    ROLE_REASONING_OPEN,
    ROLE_REASONING_CLOSE,
    ROLE_DROP,          // left out, wherever it stands
    ROLE_MESSAGE,       // left out; a new part of the answer begins after it
    ROLE_HEADER,        // a header that no other marker fits, up to ROLE_NAME_CLOSE, is left out
    ROLE_SECTION_OPEN,  // around all calls, or around each
    ROLE_SECTION_CLOSE, //
    ROLE_CALL_OPEN,     // before the head of a call
    ROLE_CALL_FIRST,    // the same, only where a part of the answer begins
    ROLE_CALL_CLOSE,    // after the arguments
    ROLE_ID_OPEN,       // the id begins
    ROLE_NAME_OPEN,     // the name begins, after the id
    ROLE_NAME_CLOSE,    // the arguments begin
    ROLE_KEY_OPEN,      // a parameter
    ROLE_KEY_CLOSE,     // its value comes next, or VALUE_OPEN
    ROLE_KEY_STRING,    // its value comes next and is a string
    ROLE_KEY_OTHER,     // its value comes next and is not a string
    ROLE_VALUE_OPEN,
    ROLE_VALUE_CLOSE,
    ROLE_RAW_OPEN,  // a value in which nothing but ROLE_RAW_CLOSE ends it
    ROLE_RAW_CLOSE, //
    ROLE_QUOTE,     // around a string
    ROLE_TAG,       // begins the tag of an element, its name and '>' come next
    ROLE_COUNT
};

#define ROLE_BIT(role) (1u << (role))

// What the reader does after ROLE_CALL_OPEN.
enum dialect_form {
    FORM_NONE,
    FORM_OBJECT,     // an object, or a list of them, with the name and the arguments in it
    FORM_NAMED,      // the name, then the arguments as JSON
    FORM_PARAMETERS, // the name, then elements
    FORM_ELEMENTS,   // the name, then elements inside of elements
    FORM_PYTHON,     // name(key=value, ...), or a list of these
    FORM_BARE_KEYS,  // name{key:value,...}
};

enum row_flag {
    ROW_BARE_OBJECT = 1,   // a part of the answer that begins with { or [ may be a call
    ROW_BARE_LIST = 2,     // one that begins with [ may be a list of calls
    ROW_KEYED = 4,         // the only key of the object is the name
    ROW_BRACE_ENDS = 8,    // { ends the name, too
    ROW_OBJECT_TOO = 16,   // an object or list in the place of the name is read as one
    ROW_NAME_IS_ID = 32,   // functions.NAME:INDEX is id and name
    ROW_WORDS_AFTER = 64,  // between the name and its end there may be other words
    ROW_NAME_ALL = 128,    // the name "all" means text
    ROW_LINE_VALUES = 256, // one line end after ROLE_KEY_CLOSE is no part of the value
    ROW_PYTHON_TOO = 512,  // NAME.call(key=value) may stand in the place of the object
};

#define ROW_ALL_LINE ">>>all\n" // text begins, of the dialect with ROW_NAME_ALL

enum { ROW_SIGNS = 2, ROW_MARKERS = 20 };

struct row_marker {
    enum marker_role role;
    const char *text;
};

struct dialect_row {
    const char *name;
    const char *signs[ROW_SIGNS]; // all of them stand in the template; NULL: not looked for
    const char *also;             // or this one does
    enum dialect_form form;
    unsigned flags; // enum row_flag
    struct row_marker markers[ROW_MARKERS];
    struct dialect_syntax syntax;
};

struct dialect_reasoning {
    const char *name;
    const char *sign; // in the template
    struct dialect_reasoning_syntax syntax;
};

extern const struct dialect_row dialect_rows[];
extern const uint32_t dialect_row_count;
extern const struct dialect_reasoning dialect_reasonings[];
extern const uint32_t dialect_reasoning_count;
