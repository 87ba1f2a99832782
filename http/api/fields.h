// Reading the fields of one request body: types, ranges, defaults, and the exact JSON path of what
// is wrong. The first failure stays; readers after it return their fallback, so that an endpoint
// reads all its fields in a row and asks once. Runs on an h2o thread or a text worker; what fields
// return points into the parsed body, texts of failures into the arena.
#pragma once

#include "http/errors.h"
#include "runtime/base/arena.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { FIELD_PATH_MAX = 128 };

struct fields {
    const json_t *root; // the body, an object
    struct arena *arena;
    enum shape shape;
    bool failed;
    struct http_failure failure;   // valid where failed
    char paths[8][FIELD_PATH_MAX]; // of fields_path, used in turn
    uint32_t path_next;
};

enum field_use {
    FIELD_READ,    // the endpoint reads it
    FIELD_IGNORED, // known and harmless
    FIELD_REFUSED, // known, changes the meaning, not offered
};

struct field_rule {
    const char *name;
    enum field_use use;
    // FIELD_REFUSED: JSON array of values that change nothing and pass; NULL: only null passes.
    // FIELD_IGNORED: "string" or "object" where the type is checked all the same.
    const char *passes;
    const char *hint; // FIELD_REFUSED: a further sentence, or NULL
};

// root NULL or not an object is a failure.
void fields_init(struct fields *f, struct arena *arena, enum shape shape, const json_t *root);

// The text is a predicate ("must be a string"): the path is put in front of it in the way of the
// shape. path: "messages[2].content", or NULL for none.
void fields_fail(struct fields *f, enum http_error error, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// The same with the whole sentence given.
void fields_fail_plain(struct fields *f, enum http_error error, const char *path,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

// Refuses what the table refuses; returns the names it does not know, joined by ", " (empty:
// none), for the log.
struct text fields_check_known(struct fields *f, const struct field_rule *rules, uint32_t count);

// NULL where the field is absent or null.
const json_t *fields_get(const struct fields *f, const char *name);
const json_t *fields_get_required(struct fields *f, const char *name);

struct number_range {
    double min, max, fallback;
};
struct integer_range {
    int64_t min, max, fallback;
};
bool fields_bool(struct fields *f, const char *name, bool fallback);
double fields_number(struct fields *f, const char *name, struct number_range range);
int64_t fields_integer(struct fields *f, const char *name, struct integer_range range);
// at == NULL where absent.
struct text fields_string(struct fields *f, const char *name);

// Valid for the next seven calls: who makes paths in a loop keeps the one they begin with.
const char *fields_path(struct fields *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// A path of one's own.
struct field_path {
    char at[FIELD_PATH_MAX];
};
struct field_path fields_path_keep(const char *path);
struct text json_text(const json_t *string); // at == NULL if it is not a string

// At most bytes_max bytes of a text, cut before a character.
static inline struct text text_head(struct text t, size_t bytes_max)
{
    if (t.bytes > bytes_max) {
        t.bytes = bytes_max;
        while (t.bytes > 0 && ((unsigned char)t.at[t.bytes] & 0xC0) == 0x80) {
            t.bytes--;
        }
    }
    return t;
}
