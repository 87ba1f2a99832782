// SPDX-License-Identifier: Apache-2.0
// Reads the fields of one request body: types, ranges, defaults, and the exact JSON path of an
// error. Only the first failure is kept. The reader of a wrong field returns its fallback, and the
// readers after it still read their fields, so an endpoint reads all fields in a row and checks
// `failed` once. Runs on an h2o thread or a text worker.
// Returned strings point into the parsed body, the texts of failures into the arena.
#pragma once

#include "http/errors.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/utf8.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum { FIELD_PATH_MAX = 128, FIELD_NAMES_MAX = 512 };

struct fields {
    const json_t *root; // the parsed body, an object
    struct arena *arena;
    enum shape shape;
    struct slice *slice; // counts the work of reading, or NULL
    bool failed;
    struct http_failure failure; // valid if `failed`
    uint32_t ignored_count;      // number of fields that are in no table
    uint32_t ignored_bytes;
    char ignored[FIELD_NAMES_MAX]; // the names of the first of them, joined by ", ", for the log
    char paths[8][FIELD_PATH_MAX]; // ring of buffers for fields_path
    uint32_t path_next;
};

enum field_use {
    FIELD_READ,    // the endpoint reads it
    FIELD_IGNORED, // known, accepted, has no effect
    FIELD_REFUSED, // known, would change the answer, not supported
};

struct field_rules;

struct field_rule {
    const char *name; // "*": every name without a rule of its own
    enum field_use use;
    // Types that are allowed in addition to null, one letter each: b bool, i integer, n number, s
    // string, a array, o object. NULL: the code that reads the field checks its type.
    const char *types;
    // FIELD_REFUSED: JSON array of the values that are accepted because they change nothing; NULL:
    // only null is accepted.
    const char *passes;
    const char *hint;                  // FIELD_REFUSED: advice appended to the message, or NULL
    const struct field_rules *members; // rules for the members of an object, or NULL
};

struct field_rules {
    const struct field_rule *rows;
    uint32_t count;
    const struct field_rules *more; // table for names that are not in `rows`, or NULL
};

// Rows of a table. `passes` and `hint` as in struct field_rule.
#define FIELD_READ_BY(name) {name, FIELD_READ, NULL, NULL, NULL, NULL}
#define FIELD_TYPED(name, types) {name, FIELD_READ, types, NULL, NULL, NULL}
#define FIELD_HARMLESS(name, types) {name, FIELD_IGNORED, types, NULL, NULL, NULL}
#define FIELD_NOT_SERVED(name, types, passes) {name, FIELD_REFUSED, types, passes, NULL, NULL}
#define FIELD_NOT_SERVED_BUT(name, types, passes, hint)                                            \
    {name, FIELD_REFUSED, types, passes, hint, NULL}
#define FIELD_OBJECT(name, members) {name, FIELD_READ, "o", NULL, NULL, &(members)}
#define FIELD_RULES(table, next)                                                                   \
    {.rows = (table), .count = sizeof table / sizeof((table)[0]), .more = (next)}

// Initializes f; fails it if root is NULL or not an object.
void fields_init(struct fields *f, struct arena *arena, enum shape shape, const json_t *root);

// Fails f, unless it has failed before. The message is a predicate ("must be a string"); the path
// is put before it in the notation of the shape. path: "messages[2].content"; not NULL.
void fields_fail(struct fields *f, enum http_error error, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Fails f with a message that is a complete sentence. path: as in fields_fail, or NULL for none.
void fields_fail_plain(struct fields *f, enum http_error error, const char *path,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

// A prompt or input that is longer than the context window, in tokens.
struct field_length {
    uint32_t window, tokens;
    bool more; // true if counting stopped there: `tokens` is a lower bound
};
// Fails f with HTTP_CONTEXT_LENGTH. noun: the name of the prompt or input in the message.
void fields_fail_length(struct fields *f, const char *path, const char *noun,
                        const struct field_length *length);

// fields_check_known checks every field of the body against the tables, fields_check_object those
// of an object inside it, which is at `path`: types, unsupported fields, members. Counts names that
// are in no table in `ignored_count`.
void fields_check_known(struct fields *f, const struct field_rules *rules);
void fields_check_object(struct fields *f, const struct field_rules *rules, const json_t *object,
                         const char *path);

// Counts work (slice.h). Returns false if f has failed; it fails if the client no longer waits.
bool fields_spend(struct fields *f, uint64_t work);

// Returns a field of the body (borrowed); NULL if it is absent or null. fields_get_required fails f
// in that case.
const json_t *fields_get(const struct fields *f, const char *name);
const json_t *fields_get_required(struct fields *f, const char *name);

// Returns a required member of an object (borrowed). `object` is the value at `path`; type:
// JSON_STRING, JSON_OBJECT or JSON_ARRAY. If `object` is no object, or the member is absent, null
// or of another type, fails f and returns NULL (fields_member_string: a text whose at is NULL).
const json_t *fields_member(struct fields *f, const json_t *object, const char *path,
                            const char *name, json_type type);
struct text fields_member_string(struct fields *f, const json_t *object, const char *path,
                                 const char *name);

// Fails f if the object field is present but its member `type` is absent.
void fields_require_type(struct fields *f, const char *name);

// Inclusive ranges. fallback: the value of an absent or wrong field, which may be out of range.
struct number_range {
    double min, max, fallback;
};
struct integer_range {
    int64_t min, max, fallback;
};
// Return the value of an optional field, or the fallback if it is absent or wrong.
bool fields_bool(struct fields *f, const char *name, bool fallback);
double fields_number(struct fields *f, const char *name, struct number_range range);
int64_t fields_integer(struct fields *f, const char *name, struct integer_range range);
// Returns an integer of at least 1; values above UINT32_MAX become UINT32_MAX.
uint32_t fields_count(struct fields *f, const char *name, uint32_t fallback);
// Ends of the error messages of fields_token_ids.
struct id_hints {
    const char *other;  // for an element that is not an integer
    const char *beyond; // for an integer that is negative or too large
};
// Copies the token ids of an array into out, [size of the array] i32; each must be below vocab.
// path: where the array is. Counts its work (fields_spend). Returns false if f has failed; `out` is
// then incomplete.
bool fields_token_ids(struct fields *f, const json_t *ids, const char *path, uint32_t vocab,
                      struct id_hints hints, int32_t *out);
// Returns an optional string; at is NULL if it is absent or, after failing f, if it is no string.
struct text fields_string(struct fields *f, const char *name);

// Returns a formatted path, valid for the next seven calls. In a loop, keep the common prefix with
// fields_path_keep.
const char *fields_path(struct fields *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// A path that outlives fields_path's buffers.
struct field_path {
    char at[FIELD_PATH_MAX];
};
struct field_path fields_path_keep(const char *path);
struct text json_text(const json_t *string); // at is NULL if it is not a string
const json_t *json_member(const json_t *object, const char *name); // NULL if absent or null

// Formats a C string into out, [out_bytes]. A text that is too long is cut at a character boundary.
void message_format(char *out, size_t out_bytes, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

// Returns the first bytes_max bytes of a text at most, cut at a character boundary.
static inline struct text text_head(struct text t, size_t bytes_max)
{
    return t.bytes > bytes_max ? text_span(t.at, utf8_complete(t.at, bytes_max)) : t;
}

// The content of a message of chat completions or Responses: a string, or an array of parts that
// contain text (parts.c).

// A type of part, and the member that contains its text.
struct part_kind {
    const char *type, *key;
};

// End of the message about a part with an image, audio or a document.
#define TEXT_ONLY "which is not served: this server reads text only, also with multimodal models"

// Appends the texts of all parts without a separator. kinds: the accepted types, ended by a row
// whose type is NULL; error messages about other types name the first one.
void parts_read(struct json_buffer *out, struct fields *f, const json_t *content, const char *path,
                const struct part_kind *kinds);

// Fields that would change the answer and that no endpoint supports (not_served.c). They are
// rejected by name, so that no client mistakes the answer for what it requested. When a field
// becomes supported, its row moves to the table of its endpoint or to decoding.c.

extern const struct field_rules generation_not_served;
