// Operations on values: making, comparing, looking up, walking, and the limits of a rendering.
// Functions that can fail return false or NULL after jinja_fail.
#pragma once

#include "runtime/text/jinja/types.h"

// Fails the rendering; the first failure stays. Always returns false.
bool jinja_fail(struct jinja_run *run, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool jinja_spend(struct jinja_run *run, uint64_t steps) MUST_USE;
// Memory of the rendering; NULL after failing it.
void *jinja_take(struct jinja_run *run, size_t count, size_t bytes_each) MUST_USE;
// An array with space for one item more, as arena_extend; NULL after failing the rendering.
void *jinja_extend(struct jinja_run *run, void *items, size_t count, size_t *allocated,
                   size_t each) MUST_USE;
bool jinja_full(struct jinja_run *run); // fails it for its memory; always false

struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool boolean);
struct jinja_value jinja_int(int64_t integer);
struct jinja_value jinja_float(double real);
struct jinja_value jinja_undefined(const char *why);
struct jinja_value jinja_of_string(const struct jinja_string *string);
struct jinja_value jinja_of_list(struct jinja_list *list, enum jinja_flavour flavour);

// The word for a value in messages: "str", "dict", ...
const char *jinja_kind_name(struct jinja_value value);
bool jinja_is_number(struct jinja_value value); // a bool is one too
bool jinja_truth(struct jinja_value value);
double jinja_as_double(struct jinja_value number);
int64_t jinja_as_int(struct jinja_value number); // of a bool or an int
// Fails with the message for the use of an undefined value; always returns false.
bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value value);

bool jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *equal);
// -1, 0 or 1; unordered (NaN) is 2.
bool jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, int *order);

// A growing list; count and items become the list's.
struct jinja_items {
    struct jinja_value *items;
    size_t count;
    size_t allocated;
};
bool jinja_items_add(struct jinja_run *run, struct jinja_items *items, struct jinja_value value);
bool jinja_items_add_all(struct jinja_run *run, struct jinja_items *items,
                         const struct jinja_value *values, size_t count);
bool jinja_items_list(struct jinja_run *run, const struct jinja_items *items,
                      enum jinja_flavour flavour, struct jinja_value *out);
// A list of the items of anything iterable.
bool jinja_list_of(struct jinja_run *run, struct jinja_value value, enum jinja_flavour flavour,
                   struct jinja_value *out);
bool jinja_pair_list(struct jinja_run *run, struct jinja_pair pair, struct jinja_value *out);

// Takes over the pairs; of equal keys the last value wins and the first place stays.
bool jinja_dict_make(struct jinja_run *run, struct jinja_pair *pairs, size_t count,
                     struct jinja_value *out);
// NULL if it is not there; unhashable keys fail.
bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key,
                     const struct jinja_value **found);

const struct jinja_value *jinja_frame_find(const struct jinja_frame *frame, uint32_t name);
bool jinja_frame_set(struct jinja_run *run, struct jinja_frame *frame, uint32_t name,
                     struct jinja_value value);

const struct jinja_value *jinja_namespace_find(const struct jinja_namespace *space,
                                               struct text name);
bool jinja_namespace_set(struct jinja_run *run, struct jinja_namespace *space, struct text name,
                         struct jinja_value value);

// The items of anything iterable, which stay valid; an iterator is used up.
bool jinja_iterate(struct jinja_run *run, struct jinja_value value, struct jinja_list *out);
// Whether a for loop accepts it.
bool jinja_iterable(struct jinja_value value);
