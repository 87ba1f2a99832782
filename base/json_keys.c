// SPDX-License-Identifier: Apache-2.0
// See json_keys.h. The order of keys is kept: an object with such a key is cleared and filled
// again.
#include "base/json_keys.h"

#include "base/status.h"
#include "base/arena.h"

#include <stdbool.h>
#include <string.h>

struct key_search {
    char bytes[4];
};

static bool keys_have(json_t *object, const struct key_search *search)
{
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
        if (memmem(json_object_iter_key(at), json_object_iter_key_len(at), search->bytes, 3))
            return true;
    return false;
}

static size_t key_repair(char *out, const char *key, size_t bytes, const struct key_search *search)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes;) {
        bool found = bytes - i >= 3 && memcmp(key + i, search->bytes, 3) == 0;
        out[n++] = found ? '\0' : key[i];
        i += found ? 3 : 1;
    }
    return n;
}

static void object_put(json_t *object, const char *key, size_t bytes, json_t *value)
{
    check(json_object_setn_nocheck(object, key, bytes, value) == 0, "no memory for an object");
}

json_t *json_object_copied(const json_t *object)
{
    json_t *from = (json_t *)(uintptr_t)object, *copy = json_object(); // `from` is only read
    check(copy, "no memory for an object");
    for (void *at = json_object_iter(from); at; at = json_object_iter_next(from, at))
        object_put(copy, json_object_iter_key(at), json_object_iter_key_len(at),
                   json_object_iter_value(at));
    return copy;
}

static void object_refill(json_t *object, const struct key_search *search)
{
    json_t *copy = json_object_copied(object);
    json_object_clear(object);
    for (void *at = json_object_iter(copy); at; at = json_object_iter_next(copy, at)) {
        size_t bytes = json_object_iter_key_len(at);
        char *key = heap_alloc(bytes + 1);
        bytes = key_repair(key, json_object_iter_key(at), bytes, search);
        object_put(object, key, bytes, json_object_iter_value(at));
        heap_free(key);
    }
    json_decref(copy);
}

static void value_repair(json_t *value, const struct key_search *search)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        value_repair(json_array_get(value, i), search);
    if (!json_is_object(value))
        return;
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at))
        value_repair(json_object_iter_value(at), search);
    if (keys_have(value, search))
        object_refill(value, search);
}

void json_keys_repair(json_t *value, uint32_t stand_in)
{
    struct key_search search = {{(char)(0xE0 | stand_in >> 12),
                                 (char)(0x80 | (stand_in >> 6 & 0x3F)),
                                 (char)(0x80 | (stand_in & 0x3F))}};
    value_repair(value, &search);
}
