// SPDX-License-Identifier: Apache-2.0
// Operations on values: creating, comparing, looking up, iterating; also the limits of a rendering.
// Functions that can fail return false or NULL after jinja_fail.
#pragma once

#include "runtime/text/jinja/types.h"

// Fails the rendering; only the first failure is kept. Always returns false.
bool jinja_fail(struct jinja_run *run, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Charges steps to the rendering and its slice. Fails if none are left or the result is unwanted.
bool jinja_spend(struct jinja_run *run, uint64_t steps) MUST_USE;
// Allocates from the arena of the rendering. NULL after failing it.
void *jinja_alloc(struct jinja_run *run, size_t count, size_t bytes_each) MUST_USE;
// Makes space for one more item, like arena_extend. NULL after failing the rendering.
void *jinja_extend(struct jinja_run *run, void *items, size_t count, size_t *allocated,
                   size_t each) MUST_USE;
bool jinja_fail_memory(struct jinja_run *run); // fails because of the memory limit; returns false

struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool boolean);
struct jinja_value jinja_int(int64_t integer);
struct jinja_value jinja_float(double real);
// Creates an integer beyond int64; digits: borrowed.
bool jinja_wide_make(struct jinja_run *run, struct text digits, double nearest,
                     struct jinja_value *out);
// Sets *out to an integer beyond int64, with the other sign if `negate`.
bool jinja_wide_signed(struct jinja_run *run, struct jinja_value wide, bool negate,
                       struct jinja_value *out);
struct jinja_value jinja_undefined(const char *why); // why: message, not copied
struct jinja_value jinja_of_string(const struct jinja_string *string);
struct jinja_value jinja_of_list(struct jinja_list *list, enum jinja_flavour flavour);

// The name of a value's type in messages: "str", "dict", ...
const char *jinja_kind_name(struct jinja_value value);
bool jinja_is_number(struct jinja_value value); // true also for a bool
// Returns the truth value that Python's bool() gives.
bool jinja_truth(struct jinja_value value);
double jinja_as_double(struct jinja_value number); // the nearest, at most DBL_MAX in size
int64_t jinja_as_int(struct jinja_value number);   // for a bool or an int
// Fails with the error text of an undefined value; always returns false.
bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value value);

bool jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *equal);
// Sets *order to -1, 0 or 1, or to 2 if unordered (NaN). Fails for types without an order.
bool jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, int *order);

// A growing list; jinja_items_list turns its items into a list value without copying.
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
// Creates a list of the items of any iterable value.
bool jinja_list_of(struct jinja_run *run, struct jinja_value value, enum jinja_flavour flavour,
                   struct jinja_value *out);
// Creates the tuple (key, value).
bool jinja_pair_list(struct jinja_run *run, struct jinja_pair pair, struct jinja_value *out);

// Creates a dict from `pairs`, which it takes over. Of equal keys the last value is kept, at the
// first position.
bool jinja_dict_make(struct jinja_run *run, struct jinja_pair *pairs, size_t count,
                     struct jinja_value *out);
// Sets *found to the value of a key, or to NULL. Fails for unhashable keys.
bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key,
                     const struct jinja_value **found);

// Returns the innermost binding of a name, or NULL. jinja_frame_set binds a name in `frame` itself.
const struct jinja_value *jinja_frame_find(const struct jinja_frame *frame, uint32_t name);
bool jinja_frame_set(struct jinja_run *run, struct jinja_frame *frame, uint32_t name,
                     struct jinja_value value);

const struct jinja_value *jinja_namespace_find(const struct jinja_namespace *space,
                                               struct text name);
bool jinja_namespace_set(struct jinja_run *run, struct jinja_namespace *space, struct text name,
                         struct jinja_value value);

// Sets `out` to the items of a list, the keys of a dict, the characters of a string, or nothing for
// an undefined value; fails for other values. The items stay valid; an iterator is used up.
bool jinja_iterate(struct jinja_run *run, struct jinja_value value, struct jinja_list *out);
// Returns true if jinja_iterate accepts the value; an undefined value counts too.
bool jinja_iterable(struct jinja_value value);
