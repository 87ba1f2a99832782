// SPDX-License-Identifier: Apache-2.0
// A stack machine for the pickles of torch.save; see torch_pickle.h. Values are immutable except
// dictionaries. Nothing follows references between values, so a cycle does no harm. The stack and
// the memo are freed by pickle_read; all else lies in the caller's arena. Loading thread only.
#include "runtime/model/torch_pickle.h"

#include "base/safe.h"
#include "base/utf8.h"

#include <inttypes.h>

enum kind {
    KIND_MARK,
    KIND_NONE, // also true and false, which nothing here reads
    KIND_INTEGER,
    KIND_STRING,
    KIND_TUPLE,
    KIND_DICTIONARY,
    KIND_TYPE,    // a storage class
    KIND_REBUILD, // _rebuild_tensor_v2
    KIND_ORDERED, // the class OrderedDict
    KIND_STORAGE, // the tuple of a storage, checked
    KIND_TENSOR,
};

struct value {
    enum kind kind;
    uint32_t count; // values of a tuple or storage
    union {
        int64_t integer;
        const char *string; // `count` bytes
        const struct value *values;
        struct dictionary *dictionary;
        const struct pickled_type *type;
        const struct pickled_tensor *tensor; // without its name
    };
};

struct pickled_item {
    struct value key, value;
};

struct dictionary {
    struct pickled_item *items;
    size_t count, allocated;
};

struct machine {
    struct text in;
    size_t at; // offset of the next byte
    size_t op; // offset of the instruction
    struct value *stack, *memo;
    uint32_t depth, memo_count;
    size_t stack_bytes, memo_bytes;
    uint64_t kept; // values in memo, tuples and dictionaries
    uint32_t tensors;
    struct arena *arena;
    const char *name;
    struct error *err;
};

static const struct pickled_type types[] = {
    {"FloatStorage", "F32", 4, DTYPE_F32}, {"BFloat16Storage", "BF16", 2, DTYPE_BF16},
    {"HalfStorage", "F16", 2, DTYPE_F16},  {"DoubleStorage", "F64", 8, -1},
    {"LongStorage", "I64", 8, -1},         {"IntStorage", "I32", 4, -1},
    {"ShortStorage", "I16", 2, -1},        {"CharStorage", "I8", 1, -1},
    {"ByteStorage", "U8", 1, -1},          {"BoolStorage", "BOOL", 1, -1},
};

static enum status damaged(const struct machine *m, const char *what)
{
    return error_set(m->err, STATUS_INVALID,
                     "%s: %s at byte %zu of its pickle; the file is cut or damaged, download it "
                     "again",
                     m->name, what, m->op);
}

static enum status unsupported(const struct machine *m, const char *what)
{
    return error_set(m->err, STATUS_UNSUPPORTED,
                     "%s: %s at byte %zu of its pickle, which is more than a dictionary of "
                     "tensors; if you trust it, load it with torch and save it as safetensors",
                     m->name, what, m->op);
}

// Counts values that are kept until the end.
static enum status keep(struct machine *m, uint64_t count)
{
    m->kept += count;
    if (m->kept <= PICKLE_VALUES_MAX)
        return STATUS_OK;
    return error_set(m->err, STATUS_TOO_LARGE, "%s: the pickle has over %d values", m->name,
                     PICKLE_VALUES_MAX);
}

// Enlarges an array of the machine so that it has space for item `count`.
static struct value *values_grow(struct value *values, uint32_t count, size_t *bytes)
{
    size_t wanted = ((size_t)count + 1) * sizeof *values;
    if (wanted <= *bytes)
        return values;
    *bytes = wanted * 2;
    return heap_grow(values, *bytes);
}

static enum status push(struct machine *m, struct value value)
{
    if (m->depth == PICKLE_STACK_MAX)
        return error_set(m->err, STATUS_TOO_LARGE, "%s: the pickle has over %d values at once",
                         m->name, PICKLE_STACK_MAX);
    m->stack = values_grow(m->stack, m->depth, &m->stack_bytes);
    m->stack[m->depth++] = value;
    return STATUS_OK;
}

// Reads `bytes` bytes of the instruction's argument; NULL if the pickle ends before.
static const char *argument(struct machine *m, uint64_t bytes)
{
    const char *at = m->in.at + m->at;
    if (bytes > m->in.bytes - m->at)
        return NULL;
    m->at += bytes;
    return at;
}

// Reads a little-endian argument of at most 8 bytes, which is signed if is_signed is true.
static bool integer_read(struct machine *m, int64_t *out, uint32_t bytes, bool is_signed)
{
    const char *at = argument(m, bytes);
    if (!at)
        return false;
    uint64_t value = text_number(at, bytes);
    if (is_signed && bytes > 0 && bytes < 8 && (at[bytes - 1] & 0x80))
        value |= UINT64_MAX << (8 * bytes);
    *out = (int64_t)value;
    return true;
}

static enum status integer_push(struct machine *m, uint32_t bytes, bool is_signed)
{
    struct value value = {.kind = KIND_INTEGER};
    if (!integer_read(m, &value.integer, bytes, is_signed))
        return damaged(m, "an integer is cut");
    return push(m, value);
}

// Pushes an integer whose length is its first byte.
static enum status long_push(struct machine *m)
{
    int64_t bytes;
    if (!integer_read(m, &bytes, 1, false))
        return damaged(m, "an integer is cut");
    if (bytes > 8)
        return unsupported(m, "an integer of over 64 bits");
    return integer_push(m, (uint32_t)bytes, true);
}

static enum status string_push(struct machine *m)
{
    int64_t bytes = 0;
    const char *at = NULL;
    if (integer_read(m, &bytes, 4, false))
        at = argument(m, (uint64_t)bytes);
    if (!at)
        return damaged(m, "a string is cut");
    struct value value = {.kind = KIND_STRING, .count = (uint32_t)bytes, .string = at};
    return push(m, value);
}

// Reads a line without its end. Returns false if it has no end.
static bool line_read(struct machine *m, struct text *out)
{
    const char *at = m->in.at + m->at;
    const char *end = m->at < m->in.bytes ? memchr(at, '\n', m->in.bytes - m->at) : NULL;
    if (!end)
        return false;
    *out = text_span(at, (size_t)(end - at));
    m->at += out->bytes + 1;
    return true;
}

// Pushes the constant of a global name.
static enum status global_push(struct machine *m)
{
    struct text module, name;
    if (!line_read(m, &module) || !line_read(m, &name))
        return damaged(m, "a name is cut");
    if (text_is(module, "collections") && text_is(name, "OrderedDict"))
        return push(m, (struct value){.kind = KIND_ORDERED});
    if (text_is(module, "torch._utils") && text_is(name, "_rebuild_tensor_v2"))
        return push(m, (struct value){.kind = KIND_REBUILD});
    for (size_t i = 0; text_is(module, "torch") && i < sizeof types / sizeof types[0]; i++)
        if (text_is(name, types[i].name))
            return push(m, (struct value){.kind = KIND_TYPE, .type = &types[i]});
    char what[256];
    snprintf(what, sizeof what, "the name %.100s.%.100s", safe_of(module).at, safe_of(name).at);
    return unsupported(m, what);
}

// Sets *first to the index of the value after the topmost mark.
static bool mark_find(const struct machine *m, uint32_t *first)
{
    *first = m->depth;
    while (*first > 0 && m->stack[*first - 1].kind != KIND_MARK)
        --*first;
    return *first > 0;
}

// Replaces the values from `first` on, and the `marks` marks before them, by a tuple of the values.
static enum status tuple_make(struct machine *m, uint32_t first, uint32_t marks)
{
    uint32_t count = m->depth - first;
    enum status status = keep(m, count);
    if (status != STATUS_OK)
        return status;
    struct value *values = arena_alloc(m->arena, count * sizeof *values);
    for (uint32_t i = 0; i < count; i++) {
        values[i] = m->stack[first + i];
        if (values[i].kind == KIND_MARK)
            return damaged(m, "a tuple holds a mark");
    }
    m->depth = first - marks;
    return push(m, (struct value){.kind = KIND_TUPLE, .count = count, .values = values});
}

static enum status tuple_of(struct machine *m, uint32_t count)
{
    if (m->depth < count)
        return damaged(m, "the stack has too few values for a tuple");
    return tuple_make(m, m->depth - count, 0);
}

static enum status tuple_marked(struct machine *m)
{
    uint32_t first;
    if (!mark_find(m, &first))
        return damaged(m, "a tuple has no mark");
    return tuple_make(m, first, 1);
}

static enum status dictionary_push(struct machine *m)
{
    struct value value = {.kind = KIND_DICTIONARY};
    enum status status = keep(m, 2);
    if (status != STATUS_OK)
        return status;
    value.dictionary = arena_alloc_zeroed(m->arena, 1, sizeof *value.dictionary);
    return push(m, value);
}

// Moves the pairs of key and value from `first` on to the dictionary below them. `marks` marks lie
// between, and are removed.
static enum status items_set(struct machine *m, uint32_t first, uint32_t marks)
{
    if (first <= marks || (m->depth - first) % 2 != 0 ||
        m->stack[first - marks - 1].kind != KIND_DICTIONARY)
        return damaged(m, "items have no dictionary");
    struct dictionary *into = m->stack[first - marks - 1].dictionary;
    enum status status = keep(m, m->depth - first);
    for (uint32_t i = first; i < m->depth && status == STATUS_OK; i += 2) {
        if (m->stack[i].kind == KIND_MARK || m->stack[i + 1].kind == KIND_MARK)
            return damaged(m, "an item is a mark");
        into->items =
            arena_extend(m->arena, into->items, into->count, &into->allocated, sizeof *into->items);
        into->items[into->count++] = (struct pickled_item){m->stack[i], m->stack[i + 1]};
    }
    m->depth = first - marks;
    return status;
}

static enum status items_set_marked(struct machine *m)
{
    uint32_t first;
    if (!mark_find(m, &first))
        return damaged(m, "items have no mark");
    return items_set(m, first, 1);
}

static enum status item_set(struct machine *m)
{
    if (m->depth < 2)
        return damaged(m, "the stack has no item");
    return items_set(m, m->depth - 2, 0);
}

// Stores the topmost value. Python numbers the memo from 0 without gaps.
static enum status memo_put(struct machine *m, uint32_t bytes)
{
    int64_t index;
    if (!integer_read(m, &index, bytes, false))
        return damaged(m, "an index of the memo is cut");
    if (m->depth == 0 || m->stack[m->depth - 1].kind == KIND_MARK || index > m->memo_count)
        return damaged(m, "the memo is filled wrongly");
    if (index == m->memo_count) {
        enum status status = keep(m, 1);
        if (status != STATUS_OK)
            return status;
        m->memo = values_grow(m->memo, m->memo_count++, &m->memo_bytes);
    }
    m->memo[index] = m->stack[m->depth - 1];
    return STATUS_OK;
}

static enum status memo_get(struct machine *m, uint32_t bytes)
{
    int64_t index;
    if (!integer_read(m, &index, bytes, false))
        return damaged(m, "an index of the memo is cut");
    if (index >= m->memo_count)
        return damaged(m, "the memo lacks a value");
    return push(m, m->memo[index]);
}

// Replaces the tuple ("storage", class, key, location, elements) by a storage.
static enum status storage_make(struct machine *m)
{
    struct value *top = m->depth > 0 ? &m->stack[m->depth - 1] : NULL;
    if (!top || top->kind != KIND_TUPLE || top->count != 5 || top->values[0].kind != KIND_STRING ||
        !text_is(text_span(top->values[0].string, top->values[0].count), "storage") ||
        top->values[1].kind != KIND_TYPE || top->values[2].kind != KIND_STRING ||
        top->values[4].kind != KIND_INTEGER || top->values[4].integer < 0)
        return unsupported(m, "a reference that is no storage");
    top->kind = KIND_STORAGE;
    return STATUS_OK;
}

// Reads a tuple of sizes; returns the number of them, UINT32_MAX if it is something else.
static uint32_t sizes_read(uint64_t out[TENSOR_DIMS_MAX], const struct value *tuple)
{
    if (tuple->kind != KIND_TUPLE || tuple->count > TENSOR_DIMS_MAX)
        return UINT32_MAX;
    for (uint32_t i = 0; i < tuple->count; i++) {
        if (tuple->values[i].kind != KIND_INTEGER || tuple->values[i].integer < 0)
            return UINT32_MAX;
        out[i] = (uint64_t)tuple->values[i].integer;
    }
    return tuple->count;
}

// Replaces the callable by the tensor of the arguments (storage, first element, shape, strides,
// requires_grad, hooks).
static enum status tensor_make(struct machine *m, struct value *callable,
                               const struct value *arguments)
{
    const struct value *given = arguments->values;
    if (arguments->count != 6 || given[0].kind != KIND_STORAGE || given[1].kind != KIND_INTEGER ||
        given[1].integer < 0)
        return unsupported(m, "a tensor with other arguments than those of a plain one");
    if (m->tensors++ == TENSORS_MAX)
        return error_set(m->err, STATUS_TOO_LARGE, "%s has more than %d tensors", m->name,
                         TENSORS_MAX);
    struct pickled_tensor *tensor = arena_alloc_zeroed(m->arena, 1, sizeof *tensor);
    const struct value *storage = given[0].values;
    tensor->type = storage[1].type;
    tensor->key = text_span(storage[2].string, storage[2].count);
    tensor->elements = (uint64_t)storage[4].integer;
    tensor->first = (uint64_t)given[1].integer;
    tensor->dims = sizes_read(tensor->shape, &given[2]);
    if (tensor->dims == UINT32_MAX || sizes_read(tensor->strides, &given[3]) != tensor->dims)
        return unsupported(m, "a tensor whose shape and strides are not sizes of 8 dimensions");
    *callable = (struct value){.kind = KIND_TENSOR, .tensor = tensor};
    return STATUS_OK;
}

// Replaces a callable and its arguments by the result.
static enum status reduce(struct machine *m)
{
    if (m->depth < 2)
        return damaged(m, "the stack has no call");
    struct value *callable = &m->stack[m->depth - 2], arguments = m->stack[m->depth - 1];
    m->depth--;
    if (arguments.kind == KIND_TUPLE && callable->kind == KIND_REBUILD)
        return tensor_make(m, callable, &arguments);
    if (arguments.kind == KIND_TUPLE && callable->kind == KIND_ORDERED && arguments.count == 0) {
        m->depth--;
        return dictionary_push(m);
    }
    return unsupported(m, "a call of something else");
}

// Drops the attributes of a dictionary: torch keeps versions of modules there.
static enum status build(struct machine *m)
{
    if (m->depth < 2 || m->stack[m->depth - 2].kind != KIND_DICTIONARY ||
        m->stack[m->depth - 1].kind != KIND_DICTIONARY)
        return unsupported(m, "attributes of something else than a dictionary");
    m->depth--;
    return STATUS_OK;
}

static enum status protocol_read(struct machine *m)
{
    int64_t protocol;
    if (!integer_read(m, &protocol, 1, false))
        return damaged(m, "the protocol is cut");
    return protocol == 2 ? STATUS_OK : unsupported(m, "a protocol other than 2");
}

// Runs one instruction; the names are those of Python's module pickletools.
static enum status instruction(struct machine *m, unsigned char code)
{
    switch (code) {
    case 0x80: // PROTO
        return protocol_read(m);
    case 'c': // GLOBAL
        return global_push(m);
    case 'q': // BINPUT
    case 'r': // LONG_BINPUT
        return memo_put(m, code == 'q' ? 1 : 4);
    case 'h': // BINGET
    case 'j': // LONG_BINGET
        return memo_get(m, code == 'h' ? 1 : 4);
    case 'X': // BINUNICODE
        return string_push(m);
    case 'K': // BININT1
    case 'M': // BININT2
        return integer_push(m, code == 'K' ? 1 : 2, false);
    case 'J': // BININT
        return integer_push(m, 4, true);
    case 0x8a: // LONG1
        return long_push(m);
    case 'N':  // NONE
    case 0x88: // NEWTRUE
    case 0x89: // NEWFALSE
        return push(m, (struct value){.kind = KIND_NONE});
    case '(': // MARK
        return push(m, (struct value){.kind = KIND_MARK});
    case 't': // TUPLE
        return tuple_marked(m);
    case ')':  // EMPTY_TUPLE
    case 0x85: // TUPLE1
    case 0x86: // TUPLE2
    case 0x87: // TUPLE3
        return tuple_of(m, code == ')' ? 0 : code - 0x84u);
    case '}': // EMPTY_DICT
        return dictionary_push(m);
    case 's': // SETITEM
        return item_set(m);
    case 'u': // SETITEMS
        return items_set_marked(m);
    case 'Q': // BINPERSID
        return storage_make(m);
    case 'R': // REDUCE
        return reduce(m);
    case 'b': // BUILD
        return build(m);
    default: {
        char what[64];
        snprintf(what, sizeof what, "the instruction 0x%02x", code);
        return unsupported(m, what);
    }
    }
}

// Copies the tensors of the dictionary with their names.
static enum status tensors_name(struct pickled_tensor **out, uint32_t *count,
                                const struct machine *m, const struct dictionary *dictionary)
{
    if (dictionary->count > TENSORS_MAX)
        return error_set(m->err, STATUS_TOO_LARGE, "%s has more than %d tensors", m->name,
                         TENSORS_MAX);
    *out = arena_alloc(m->arena, (dictionary->count + 1) * sizeof **out);
    for (size_t i = 0; i < dictionary->count; i++) {
        const struct value *key = &dictionary->items[i].key;
        const struct value *value = &dictionary->items[i].value;
        struct text name =
            key->kind == KIND_STRING ? text_span(key->string, key->count) : text_of("(no string)");
        if (name.bytes > TENSOR_NAME_MAX || utf8_valid_prefix(name) != name.bytes ||
            memchr(name.at, '\0', name.bytes))
            return error_set(m->err, STATUS_INVALID,
                             "%s: a tensor name has over %d bytes, or bytes that are no text",
                             m->name, TENSOR_NAME_MAX);
        if (key->kind != KIND_STRING || value->kind != KIND_TENSOR)
            return error_set(m->err, STATUS_UNSUPPORTED,
                             "%s: the entry %s is no tensor: the file is a checkpoint of training, "
                             "not the weights of a model; load it with torch and save the "
                             "state_dict of its model as safetensors",
                             m->name, safe_of(name).at);
        (*out)[i] = *value->tensor;
        (*out)[i].name = arena_copy(m->arena, name);
    }
    *count = (uint32_t)dictionary->count;
    return STATUS_OK;
}

static enum status machine_run(struct machine *m)
{
    while (m->at < m->in.bytes) {
        m->op = m->at++;
        unsigned char code = (unsigned char)m->in.at[m->op];
        if (code == '.' && m->depth == 1) // STOP
            return STATUS_OK;
        enum status status =
            code == '.' ? damaged(m, "the stack has no result") : instruction(m, code);
        if (status != STATUS_OK)
            return status;
    }
    m->op = m->at;
    return damaged(m, "no end");
}

enum status pickle_read(struct pickled_tensor **out, uint32_t *count, struct arena *arena,
                        struct text pickle, const char *name, struct error *err)
{
    if (pickle.bytes > PICKLE_BYTES_MAX)
        return error_set(err, STATUS_TOO_LARGE, "%s: the pickle has %zu bytes; at most %d are read",
                         name, pickle.bytes, PICKLE_BYTES_MAX);
    struct machine m = {.in = pickle, .arena = arena, .name = name, .err = err};
    enum status status = machine_run(&m);
    if (status == STATUS_OK && m.stack[0].kind != KIND_DICTIONARY)
        status = unsupported(&m, "a result that is no dictionary");
    if (status == STATUS_OK)
        status = tensors_name(out, count, &m, m.stack[0].dictionary);
    heap_free(m.stack);
    heap_free(m.memo);
    return status;
}
