// SPDX-License-Identifier: Apache-2.0
// Dicts, in order of insertion. Few pairs are searched linearly, many by hash. Equal numbers are
// one key regardless of type, as in Python.
#include "runtime/text/jinja/string.h"

#include <math.h>

enum { DICT_SCAN_MAX = 8 };

static bool hash_of(struct jinja_run *run, struct jinja_value key, uint64_t *hash)
{
    *hash = 0x9e3779b97f4a7c15u;
    switch (key.kind) {
    case JINJA_STRING:
        *hash = 0xcbf29ce484222325u;
        for (size_t i = 0; i < key.as.string->bytes; i++)
            *hash = (*hash ^ (unsigned char)key.as.string->at[i]) * 0x100000001b3u;
        break;
    case JINJA_BOOL:
    case JINJA_INT:
        *hash += (uint64_t)jinja_as_int(key) * 0xbf58476d1ce4e5b9u;
        break;
    case JINJA_FLOAT:
        if (key.as.real == floor(key.as.real) && fabs(key.as.real) < 9e18)
            *hash += (uint64_t)(int64_t)key.as.real * 0xbf58476d1ce4e5b9u;
        break;
    case JINJA_LIST:
        if (key.flavour == JINJA_IS_RANGE || key.flavour == JINJA_IS_ITERATOR)
            break;
        if (key.flavour != JINJA_IS_TUPLE)
            return jinja_fail(run, STATUS_INVALID, "a list cannot be a key");
        for (size_t i = 0; i < key.as.list->count; i++) {
            uint64_t one;
            if (!jinja_spend(run, 1) || key.as.list->items[i].kind == JINJA_LIST)
                return jinja_fail(run, STATUS_INVALID, "a nested list cannot be a key");
            if (!hash_of(run, key.as.list->items[i], &one))
                return false;
            *hash = (*hash ^ one) * 0x100000001b3u;
        }
        break;
    case JINJA_DICT:
        return jinja_fail(run, STATUS_INVALID, "a dict cannot be a key");
    default:
        break;
    }
    *hash ^= *hash >> 29;
    return true;
}

// Finds the slot of the key, or the free slot for it.
static bool index_place(struct jinja_run *run, const struct jinja_dict *dict,
                        struct jinja_value key, size_t *place)
{
    uint64_t hash;
    if (!hash_of(run, key, &hash))
        return false;
    size_t mask = dict->index_count - 1;
    for (*place = hash & mask; dict->index[*place] != 0; *place = (*place + 1) & mask) {
        bool equal;
        if (!jinja_spend(run, 1) ||
            !jinja_equal(run, dict->pairs[dict->index[*place] - 1].key, key, &equal))
            return false;
        if (equal)
            break;
    }
    return true;
}

bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key,
                     const struct jinja_value **found)
{
    *found = NULL;
    if (dict->index) {
        size_t place;
        if (!index_place(run, dict, key, &place))
            return false;
        if (dict->index[place] != 0)
            *found = &dict->pairs[dict->index[place] - 1].value;
        return true;
    }
    uint64_t ignored;
    // fails for lists, which have no hash
    if (key.kind != JINJA_STRING && !hash_of(run, key, &ignored))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        bool equal;
        if (!jinja_equal(run, dict->pairs[i].key, key, &equal))
            return false;
        if (equal) {
            *found = &dict->pairs[i].value;
            return true;
        }
    }
    return true;
}

bool jinja_dict_make(struct jinja_run *run, struct jinja_pair *pairs, size_t count,
                     struct jinja_value *out)
{
    struct jinja_dict *dict = jinja_alloc(run, 1, sizeof *dict);
    if (!dict || !jinja_spend(run, 1 + count))
        return false;
    *dict = (struct jinja_dict){.pairs = pairs};
    uint32_t *index = NULL;
    if (count > DICT_SCAN_MAX) {
        dict->index_count = 32;
        while (dict->index_count < count * 2)
            dict->index_count *= 2;
        index = jinja_alloc(run, dict->index_count, sizeof *index);
        if (!index)
            return false;
        memset(index, 0, dict->index_count * sizeof *index);
        dict->index = index;
    }
    for (size_t i = 0; i < count; i++) {
        const struct jinja_value *found;
        if (!jinja_dict_find(run, dict, pairs[i].key, &found))
            return false;
        if (found) {
            size_t offset = (size_t)((const char *)found - (const char *)&pairs[0].value);
            pairs[offset / sizeof *pairs].value = pairs[i].value;
            continue;
        }
        size_t place = 0;
        if (index && !index_place(run, dict, pairs[i].key, &place))
            return false;
        pairs[dict->count++] = pairs[i];
        if (index)
            index[place] = (uint32_t)dict->count;
    }
    *out = (struct jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return true;
}
