// Options as tables: each row names an option, where its value goes, its range, unit and default,
// and its help line. Parsing, `--help` and the errors come from the table alone.
#pragma once

#include "base/status.h"
#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_FLAG,    // bool: --name, --no-name, or name=true|false after a folder
    OPTION_SWITCH,  // int: written like a flag, 0 or 1; the caller's default may be -1 (unset)
    OPTION_COUNT,   // uint32_t
    OPTION_BYTES,   // uint64_t, with an optional suffix K, M, G or T (powers of 1024)
    OPTION_INTEGER, // int64_t, any value
    OPTION_REAL,    // double
    OPTION_TEXT,    // const char *
    OPTION_TEXTS,   // struct texts: may be repeated
    OPTION_CHOICE,  // int: index into `choices`
    OPTION_DEVICES, // struct option_devices: a choice; from number `low` on with numbers up to
                    // `high`
};

struct texts {
    const char **at;
    uint32_t count;
};

enum { OPTION_DEVICES_MAX = 16 };
struct option_devices { // "cuda:0,3" is the choice cuda with the numbers 0 and 3
    int kind;           // index into `choices`
    uint32_t count;     // of numbers; 0: none was given
    uint32_t at[OPTION_DEVICES_MAX];
};

struct option_row {
    const char *name; // without dashes
    enum option_kind kind;
    size_t offset;          // of the field in the struct that the table fills
    double low, high;       // allowed range of numbers
    const char *choices[6]; // OPTION_CHOICE: names, NULL-terminated
    const char *fallback;   // default, as the help prints it; or "required"
    const char *help;       // with the unit
};

// Rows: neither a number nor a choice, a number, one of some words.
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

// Splits the arguments into options (written into fields) and the rest (positional, in order).
// tables: [table_count], fields[i] is the struct that table i fills.
struct options_parse_args {
    int argc; // without the command's name
    char **argv;
    const struct option_table *tables;
    void *const *fields;
    uint32_t table_count;
    struct arena *arena;
    struct texts *positional;
    bool *help;          // set when --help or -h was seen
    struct texts *given; // names of the options that were set, in order; NULL: not told
};

enum status options_parse(const struct options_parse_args *args, struct error *err) MUST_USE;

// Sets one option as it is written after a model folder: `name=value`, or `name` of a flag.
enum status option_assign(const struct option_table *table, void *fields, const char *name,
                          const char *value, struct arena *arena, struct error *err) MUST_USE;

bool option_known(const struct option_table *table, const char *name);
struct near;
void option_near(struct near *near, const struct option_table *table); // cli/near.h

// "  --name VALUE   help (default: ...)" for each row.
void options_help(FILE *out, const struct option_table *table, const char *title);

// Nothing else in weft reads the environment. WEFT_API_KEY; NULL where unset or empty.
const char *options_environment_key(void);
// OPENAI_API_KEY likewise: the key of a server that `weft chat` speaks to.
const char *options_environment_openai_key(void);
// Whether text on this descriptor may be coloured: a terminal that can, and NO_COLOR unset or
// empty.
bool options_colour(int descriptor);
