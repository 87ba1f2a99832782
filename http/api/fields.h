// Reading the fields of one request body: types, ranges, defaults, and the exact JSON path of what
// is wrong. The first failure stays; readers after it return their fallback, so that an endpoint
// reads all its fields in a row and checks once. Runs on an h2o thread or a text worker; what
// fields return points into the parsed body, texts of failures into the arena.
#pragma once

#include "http/errors.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/utf8.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { FIELD_PATH_MAX = 128, FIELD_NAMES_MAX = 512 };

struct fields {
    const json_t *root; // the body, an object
    struct arena *arena;
    enum shape shape;
    struct slice *slice; // that reading is counted in, or NULL
    bool failed;
    struct http_failure failure; // valid where failed
    uint32_t ignored_count;      // fields that no table has
    uint32_t ignored_bytes;
    char ignored[FIELD_NAMES_MAX]; // the first of them, joined by ", ", for the log
    char paths[8][FIELD_PATH_MAX]; // of fields_path, used in turn
    uint32_t path_next;
};

enum field_use {
    FIELD_READ,    // the endpoint reads it
    FIELD_IGNORED, // known and harmless
    FIELD_REFUSED, // known, changes the meaning, not offered
};

struct field_rules;

struct field_rule {
    const char *name; // "*": every name without a rule of its own
    enum field_use use;
    // What it may be besides null, a letter each: b bool, i integer, n number, s string, a array, o
    // object. NULL: its reader checks.
    const char *types;
    // FIELD_REFUSED: JSON array of values that change nothing and pass; NULL: only null passes.
    const char *passes;
    const char *hint;                  // FIELD_REFUSED: a further sentence, or NULL
    const struct field_rules *members; // of an object, or NULL
};

struct field_rules {
    const struct field_rule *rows;
    uint32_t count;
    const struct field_rules *more; // for names that the rows do not have, or NULL
};

// Rows of a table.
#define FIELD_READ_BY(name) {name, FIELD_READ, NULL, NULL, NULL, NULL}
#define FIELD_TYPED(name, types) {name, FIELD_READ, types, NULL, NULL, NULL}
#define FIELD_HARMLESS(name, types) {name, FIELD_IGNORED, types, NULL, NULL, NULL}
#define FIELD_NOT_SERVED(name, types, passes) {name, FIELD_REFUSED, types, passes, NULL, NULL}
#define FIELD_NOT_SERVED_BUT(name, types, passes, hint)                                            \
    {name, FIELD_REFUSED, types, passes, hint, NULL}
#define FIELD_OBJECT(name, members) {name, FIELD_READ, "o", NULL, NULL, &(members)}
#define FIELD_RULES(table, next)                                                                   \
    {.rows = (table), .count = sizeof table / sizeof((table)[0]), .more = (next)}

// root NULL or not an object is a failure.
void fields_init(struct fields *f, struct arena *arena, enum shape shape, const json_t *root);

// The text is a predicate ("must be a string"): the path is put in front of it as the shape writes
// it. path: "messages[2].content", or NULL for none.
void fields_fail(struct fields *f, enum http_error error, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// The same with the whole sentence given.
void fields_fail_plain(struct fields *f, enum http_error error, const char *path,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

// A prompt or input of so many tokens is too long for the window.
struct field_length {
    uint32_t window, tokens;
    bool more; // counting stopped there
};
void fields_fail_length(struct fields *f, const char *path, const char *noun,
                        const struct field_length *length);

// Checks every field of the body, or of an object inside it (path: where that stands), by the
// tables: types, what is refused, members. Names that no table has are counted in `ignored`.
void fields_check_known(struct fields *f, const struct field_rules *rules);
void fields_check_object(struct fields *f, const struct field_rules *rules, const json_t *object,
                         const char *path);

// Counts work (slice.h). False: nobody waits for the result, which counts as a failure.
bool fields_spend(struct fields *f, uint64_t work);

// NULL where the field is absent or null.
const json_t *fields_get(const struct fields *f, const char *name);
const json_t *fields_get_required(struct fields *f, const char *name);

// A member that must be there with this type, of what must be an object and stands at path; NULL:
// failed. The string's at == NULL: failed.
const json_t *fields_member(struct fields *f, const json_t *object, const char *path,
                            const char *name, json_type type);
struct text fields_member_string(struct fields *f, const json_t *object, const char *path,
                                 const char *name);

// Fails where an object field is present without its member `type`.
void fields_require_type(struct fields *f, const char *name);

struct number_range {
    double min, max, fallback;
};
struct integer_range {
    int64_t min, max, fallback;
};
bool fields_bool(struct fields *f, const char *name, bool fallback);
double fields_number(struct fields *f, const char *name, struct number_range range);
int64_t fields_integer(struct fields *f, const char *name, struct integer_range range);
// An integer from 1 on; above UINT32_MAX it becomes that.
uint32_t fields_count(struct fields *f, const char *name, uint32_t fallback);
// The ids of an array into out[its size]; each must be below vocab. hints are put after the
// sentences about an element that is no id, and about an id that is not below it. Counts its work.
struct id_hints {
    const char *other, *beyond;
};
bool fields_token_ids(struct fields *f, const json_t *ids, const char *path, uint32_t vocab,
                      struct id_hints hints, int32_t *out);
// at == NULL where absent.
struct text fields_string(struct fields *f, const char *name);

// Valid for the next seven calls: in a loop keep the common prefix (fields_path_keep).
const char *fields_path(struct fields *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// A path that outlives fields_path's buffers.
struct field_path {
    char at[FIELD_PATH_MAX];
};
struct field_path fields_path_keep(const char *path);
struct text json_text(const json_t *string); // at == NULL if it is not a string
const json_t *json_member(const json_t *object, const char *name); // NULL: absent, or null

// At most bytes_max bytes of a text, cut before a character.
static inline struct text text_head(struct text t, size_t bytes_max)
{
    return t.bytes > bytes_max ? text_span(t.at, utf8_whole(t.at, bytes_max)) : t;
}
