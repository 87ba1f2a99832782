// SPDX-License-Identifier: Apache-2.0
// Options as tables: each row has an option's name, the field for its value, its range, unit and
// default, and its help line. Parsing, `--help` and the errors are derived from the table.
#pragma once

#include "base/status.h"
#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_FLAG,    // bool: --name or --no-name; after a folder name=true|false
    OPTION_SWITCH,  // int, 0 or 1, written like a flag; the initial value may be -1 (unset)
    OPTION_COUNT,   // uint32_t
    OPTION_BYTES,   // uint64_t, with an optional suffix K, M, G or T (powers of 1024)
    OPTION_INTEGER, // int64_t, any value
    OPTION_REAL,    // double
    OPTION_TEXT,    // const char *
    OPTION_TEXTS,   // struct texts: the option may be repeated
    OPTION_CHOICE,  // int: index into `choices`
    // struct option_devices: one of `choices`; from choice number `low` on with device numbers,
    // each at most `high`
    OPTION_DEVICES,
};

struct texts {
    const char **at;
    uint32_t count;
};

enum { OPTION_DEVICES_MAX = 16 };
struct option_devices { // "cuda:0,3" is the choice cuda with the numbers 0 and 3
    int kind;           // index into `choices`
    uint32_t count;     // number of device numbers; 0: none was given
    uint32_t at[OPTION_DEVICES_MAX];
};

struct option_row {
    const char *name; // name without dashes
    enum option_kind kind;
    size_t offset;          // offset of the field in the struct that the table fills
    double low, high;       // allowed range of numbers
    const char *choices[8]; // OPTION_CHOICE, OPTION_DEVICES: NULL-terminated
    const char *fallback;   // text of the default for the help; or "required"
    const char *help;       // help line, with the unit
};

// Rows for: an option that is neither a number nor a choice; a number; one of several words.
#define OPTION_ROW(name, kind, offset, fallback, help)                                             \
    {name, kind, offset, 0, 0, {0}, fallback, help}
#define OPTION_NUMBER(name, kind, offset, low, high, fallback, help)                               \
    {name, kind, offset, low, high, {0}, fallback, help}
#define OPTION_CHOICES(name, offset, fallback, help, ...)                                          \
    {name, OPTION_CHOICE, offset, 0, 0, {__VA_ARGS__}, fallback, help}

struct option_table {
    const struct option_row *rows;
    uint32_t count;
};

// Splits the arguments into options (stored in the fields) and positional arguments, in order.
// tables: [table_count]; fields[i] is the struct that table i fills.
struct options_parse_args {
    int argc; // without the name of the command
    char **argv;
    const struct option_table *tables;
    void *const *fields;
    uint32_t table_count;
    struct arena *arena;
    struct texts *positional;
    bool *help;          // set to true if --help or -h is among the arguments
    struct texts *given; // receives the names of the options that were set, in order; may be NULL
};

// Texts point into argv or the arena. After --help parsing continues. INVALID for an unknown option
// or a wrong value.
enum status options_parse(const struct options_parse_args *args, struct error *err) MUST_USE;

// Sets one option given after a model folder: `name=value`, or only `name` for a flag (value NULL).
// A text field points at `value`, which must live as long as the fields.
enum status option_assign(const struct option_table *table, void *fields, const char *name,
                          const char *value, struct arena *arena, struct error *err) MUST_USE;

bool option_known(const struct option_table *table, const char *name);
struct near;
// Compares all names of the table with the given one; see near.h.
void option_near(struct near *near, const struct option_table *table);

// Prints "  --name VALUE   help (default: ...)" for each row.
void options_help(FILE *out, const struct option_table *table, const char *title);

// Only the functions below read the environment. Returns a variable; NULL if unset or empty.
const char *options_environment(const char *name);
// Returns WEFT_API_KEY; NULL if unset or empty.
const char *options_environment_key(void);
// Returns OPENAI_API_KEY, the key of the server that `weft chat` uses; NULL if unset or empty.
const char *options_environment_openai_key(void);
// Returns true if text on this descriptor may be coloured: a terminal with colours, and NO_COLOR is
// unset or empty.
bool options_colour(int descriptor);
