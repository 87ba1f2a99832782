// SPDX-License-Identifier: Apache-2.0
// Files of torch.save: those that torch wrote (tests/runtime/torch, by tools/torch_files.py) equal
// a safetensors file of the same weights and give the vectors of transformers, or are refused with
// their sentence; archives and pickles built here are hostile, and every cut and many damaged bytes
// of a real file do no harm (run under ASan).
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "runtime/model/torch.h"
#include "runtime/model/torch_pickle.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FILES WEFT_SOURCE_DIR "/tests/runtime/torch/"

static struct error err;
static struct tensor *list;
static uint32_t count;

static void bytes_equal(const struct tensor *a, const struct tensor *b)
{
    assert_true(text_equal(a->name, b->name));
    assert_int_equal(a->dims, b->dims);
    assert_memory_equal(a->shape, b->shape, a->dims * sizeof a->shape[0]);
    assert_string_equal(a->type, b->type);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->map, b->map, a->bytes);
}

static void test_the_tensors_are_those_of_the_twin(void **state)
{
    (void)state;
    static const char *const folders[] = {FILES "one", FILES "shards"};
    struct tensors *twin;
    assert_int_equal(tensors_open(&twin, FILES "twin", &err), STATUS_OK);
    assert_int_equal(tensors_count(twin), 22);
    for (size_t i = 0; i < 2; i++) {
        struct tensors *set;
        if (tensors_open(&set, folders[i], &err) != STATUS_OK)
            fail_msg("%s", err.text);
        assert_int_equal(tensors_count(set), tensors_count(twin));
        for (uint32_t k = 0; k < tensors_count(set); k++) {
            const struct tensor *tensor = tensors_at(set, k);
            bytes_equal(tensor, tensors_at(twin, k));
            assert_true(tensor->fd >= 0);
        }
        struct hash a = tensors_hash(set), b = tensors_hash(twin);
        assert_true(a.low == b.low && a.high == b.high);
        assert_int_equal(tensors_check(set, STATUS_OK, &err), STATUS_OK);
        tensors_close(set);
    }
    tensors_close(twin);
}

// Computes the vectors of both inputs, 16 floats each.
static void vectors_make(float *out, const char *folder, const json_t *inputs)
{
    struct model_options options = rig_options();
    struct rig rig;
    int32_t ids[2][16];
    rig_open(&rig, folder, &options);
    rig_begin(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        const json_t *input = json_array_get(inputs, i);
        struct rig_sequence s = {i, ids[i], (uint32_t)json_array_size(input), 0, STEP_NO_TYPE};
        for (uint32_t k = 0; k < s.count; k++)
            ids[i][k] = (int32_t)json_integer_value(json_array_get(input, k));
        rig_prefill(&rig, &s, 16, WANT_VECTOR);
    }
    struct model_output got = rig_step(&rig, NULL);
    memcpy(out, got.values, 32 * sizeof *out);
    rig_close(&rig);
}

static void test_the_vectors_are_those_of_transformers(void **state)
{
    (void)state;
    json_t *golden;
    assert_int_equal(json_file_parse(&golden, FILES "twin/expected.json", 1 << 16, &err),
                     STATUS_OK);
    const json_t *inputs = json_object_get(golden, "inputs");
    float twin[2][16], vectors[2][16];
    vectors_make(twin[0], FILES "twin", inputs);
    static const char *const folders[] = {FILES "one", FILES "shards"};
    for (size_t i = 0; i < 2; i++) {
        vectors_make(vectors[0], folders[i], inputs);
        assert_memory_equal(vectors, twin, sizeof twin);
    }
    for (size_t i = 0; i < 2; i++) {
        double dot = 0, got = 0, want = 0; // the vectors of an embedder may be normalised
        for (size_t k = 0; k < 16; k++) {
            double w = json_real_value(
                json_array_get(json_array_get(json_object_get(golden, "expected"), i), k));
            dot += w * (double)twin[i][k];
            got += (double)twin[i][k] * (double)twin[i][k];
            want += w * w;
        }
        assert_true(dot / sqrt(got * want) > 1 - 1e-9);
    }
    json_decref(golden);
}

static void test_safetensors_are_preferred(void **state)
{
    (void)state;
    char folder[64];
    folder_make(folder);
    file_write(folder, "pytorch_model.bin", "garbage", 7);
    struct tensors *set;
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "pytorch_model.bin has 7 bytes"));
    file_write(folder, "pytorch_model.bin", "garbage!", 8);
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "it does not begin as a zip archive"));
    file_write(folder, "pytorch_model.bin", "version https://git-lfs.github.com/spec/v1", 42);
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "pytorch_model.bin is a Git LFS pointer"));
    struct tensor_file file;
    tensor_file_begin(&file);
    tensor_file_write(&file, folder, "model.safetensors");
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_OK);
    tensors_close(set);
    folder_remove(folder);
}

static struct text odd_read(struct arena *arena, const char *name)
{
    struct text file;
    const char *path = arena_format(arena, FILES "odd/%s", name).at;
    assert_int_equal(file_read(&file, arena, path, 1 << 16, &err), STATUS_OK);
    return file;
}

static const struct tensor *named(const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (text_is(list[i].name, name))
            return &list[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void test_kinds_views_and_shared_storages(void **state)
{
    (void)state;
    static const struct {
        const char *name, *type;
        int dtype;
        uint64_t bytes;
    } kinds[] = {
        {"kind.float32", "F32", DTYPE_F32, 12},
        {"kind.bfloat16", "BF16", DTYPE_BF16, 6},
        {"kind.float16", "F16", DTYPE_F16, 6},
        {"kind.float64", "F64", -1, 24},
        {"kind.int64", "I64", -1, 24},
        {"kind.int32", "I32", -1, 12},
        {"kind.int16", "I16", -1, 6},
        {"kind.int8", "I8", -1, 3},
        {"kind.uint8", "U8", -1, 3},
        {"kind.bool", "BOOL", -1, 3},
    };
    struct arena *arena = arena_create(0, 0);
    struct text file = odd_read(arena, "kinds.bin");
    if (torch_parse(&list, &count, arena, file, "x", &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(count, 17);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct tensor *tensor = named(kinds[i].name);
        assert_string_equal(tensor->type, kinds[i].type);
        assert_int_equal(tensor->dtype, kinds[i].dtype);
        assert_int_equal(tensor->bytes, kinds[i].bytes);
        assert_ptr_equal(tensor->map, file.at + tensor->offset);
    }
    const struct tensor *all = named("all"), *part = named("part"), *column = named("column");
    float numbers[24];
    memcpy(numbers, all->map, sizeof numbers);
    assert_true(numbers[0] == 0 && numbers[23] == 23);
    assert_int_equal((const char *)part->map - (const char *)all->map, 24);
    assert_true(part->dims == 2 && part->shape[0] == 2 && part->shape[1] == 4);
    assert_int_equal((const char *)column->map - (const char *)all->map, 12);
    assert_ptr_equal(named("row")->map, all->map);
    assert_true(named("scalar")->dims == 0 && named("scalar")->bytes == 4);
    assert_true(named("none")->dims == 2 && named("none")->bytes == 0);
    assert_true(named("tall")->dims == 8 && named("tall")->bytes == 6);
    arena_destroy(arena);
}

static void test_other_contents_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *file, *words;
    } cases[] = {
        {"transposed.bin", "x: tensor w is a view whose elements do not follow each other; save"},
        {"every_second.bin", "tensor w is a view"},
        {"expanded.bin", "tensor w is a view"},
        {"legacy.bin",
         "x is in the format of torch before 1.6, a pickle without an archive: save "},
        {"protocol_4.bin", "x: a protocol other than 2 at byte 0 of its pickle"},
        {"training.bin", "x: the entry epoch is no tensor: the file is a checkpoint of training"},
        {"module.bin", "x: the name torch.nn.modules.linear.Linear at byte 2 of its pickle"},
        {"parameter.bin", "the name torch._utils._rebuild_parameter"},
        {"float8.bin", "the name torch._utils._rebuild_tensor_v3"},
        {"conjugate.bin", "the name torch.ComplexFloatStorage"},
        {"sparse.bin", "the name torch._utils._rebuild_sparse_tensor"},
        {"list.bin", "the instruction 0x5d at byte 2 of its pickle"},
        {"script.bin", "x is a TorchScript program, not a file of weights"},
    };
    struct arena *arena = arena_create(0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text file = odd_read(arena, cases[i].file);
        if (torch_parse(&list, &count, arena, file, "x", &err) != STATUS_UNSUPPORTED ||
            !strstr(err.text, cases[i].words) || strchr(err.text, '\n'))
            fail_msg("%s: %s", cases[i].file, err.text);
    }
    arena_destroy(arena);
}

// A file in memory.
struct made {
    char at[4096];
    size_t bytes;
};

static void put(struct made *m, const char *bytes, size_t more)
{
    assert_true(m->bytes + more <= sizeof m->at);
    memcpy(m->at + m->bytes, bytes, more);
    m->bytes += more;
}

static void put_number(struct made *m, uint64_t value, size_t bytes)
{
    char at[8];
    for (size_t i = 0; i < 8; i++)
        at[i] = (char)(value >> 8 * i);
    put(m, at, bytes);
}

static void put_string(struct made *m, const char *text)
{
    put(m, "X", 1);
    put_number(m, strlen(text), 4);
    put(m, text, strlen(text));
}

// Opcodes without NUL.
static void put_code(struct made *m, const char *code)
{
    put(m, code, strlen(code));
}

static void put_integer(struct made *m, int64_t value)
{
    put(m, "\x8a\x08", 2);
    put_number(m, (uint64_t)value, 8);
}

// The statements of a pickle about one tensor. The storage "0" has 4 floats.
struct stated {
    const char *name, *storage, *key;
    int64_t elements, first, rows, columns, row_stride;
};

static const struct stated usual = {"w", "FloatStorage", "0", 4, 0, 2, 2, 2};

static void put_tensor(struct made *m, const struct stated *of)
{
    put_string(m, of->name);
    put_code(m, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_string(m, "storage");
    put_code(m, "ctorch\n");
    put_code(m, of->storage);
    put_code(m, "\n");
    put_string(m, of->key);
    put_string(m, "cpu");
    put_integer(m, of->elements);
    put_code(m, "tQ");
    put_integer(m, of->first);
    put_integer(m, of->rows);
    put_integer(m, of->columns);
    put_code(m, "\x86");
    put_integer(m, of->row_stride);
    put_integer(m, 1);
    put_code(m, "\x86\x89"
                "ccollections\nOrderedDict\n)RtR");
}

// Writes the archive of a pickle and the storage "0": local headers, data, directory, end. The
// offsets of its parts serve the damages.
struct parts {
    size_t local[4], data[4], directory, end;
};

static struct parts archive_make(struct made *out, const struct made *pickle)
{
    static const float numbers[4] = {1, 2, 3, 4};
    const struct {
        const char *name;
        const void *data;
        size_t bytes;
    } entries[] = {{"a/data.pkl", pickle->at, pickle->bytes},
                   {"a/data/0", numbers, sizeof numbers},
                   {"a/byteorder", "little", 6},
                   {"a/data/1", "", 0}};
    struct parts parts;
    out->bytes = 0;
    for (size_t i = 0; i < 4; i++) {
        parts.local[i] = out->bytes;
        put(out, "PK\3\4\0\0\0\0\0\0\0\0\0\0", 14);
        put_number(out, 0, 8);
        put_number(out, 0, 4);
        put_number(out, strlen(entries[i].name), 2);
        put_number(out, 0, 2);
        put_code(out, entries[i].name);
        parts.data[i] = out->bytes;
        put(out, entries[i].data, entries[i].bytes);
    }
    parts.directory = out->bytes;
    for (size_t i = 0; i < 4; i++) {
        put(out, "PK\1\2\0\0\0\0\0\0\0\0\0\0\0\0", 16);
        put_number(out, 0, 4);
        put_number(out, entries[i].bytes, 4);
        put_number(out, entries[i].bytes, 4);
        put_number(out, strlen(entries[i].name), 2);
        put_number(out, 0, 6);
        put_number(out, 0, 6);
        put_number(out, parts.local[i], 4);
        put_code(out, entries[i].name);
    }
    parts.end = out->bytes;
    put(out, "PK\5\6\0\0\0\0\4\0\4\0", 12);
    put_number(out, parts.end - parts.directory, 4);
    put_number(out, parts.directory, 4);
    put_number(out, 0, 2);
    return parts;
}

static enum status made_parse(struct arena *arena, const struct made *file)
{
    char *copy = heap_alloc(file->bytes); // so that ASan finds a read past its end
    memcpy(copy, file->at, file->bytes);
    enum status status = torch_parse(&list, &count, arena, text_span(copy, file->bytes), "x", &err);
    heap_free(copy);
    return status;
}

static enum status pickle_parse(struct arena *arena, const struct made *pickle)
{
    struct made file;
    archive_make(&file, pickle);
    return made_parse(arena, &file);
}

// A pickle of one or two tensors.
static void pickle_make(struct made *m, const struct stated *one, const struct stated *two)
{
    m->bytes = 0;
    put_code(m, "\x80\x02}(");
    put_tensor(m, one);
    if (two)
        put_tensor(m, two);
    put_code(m, "u.");
}

static void test_stated_numbers_are_checked(void **state)
{
    (void)state;
    static const int64_t huge = INT64_MAX;
    const struct {
        struct stated stated;
        const char *words;
    } cases[] = {
        {usual, NULL},
        {{"w", "FloatStorage", "0", 4, 2, 1, 2, 2}, NULL},
        {{"w", "FloatStorage", "0", 4, 9, 0, 2, 2}, NULL},
        {{"w", "FloatStorage", "0", 4, 0, 0, huge, huge}, NULL},
        {{"w", "FloatStorage", "0", 4, 1, 2, 2, 2}, "elements 1 to 5 of a storage of 4"},
        {{"w", "FloatStorage", "0", 4, huge, 1, 2, 2}, "of a storage of 4; the file is damaged"},
        {{"w", "FloatStorage", "0", 4, -1, 2, 2, 2}, "a tensor with other arguments"},
        {{"w", "FloatStorage", "0", -4, 0, 2, 2, 2}, "a reference that is no storage"},
        {{"w", "FloatStorage", "0", 4, 0, -2, 2, 2}, "whose shape and strides are not sizes"},
        {{"w", "FloatStorage", "0", 4, 0, 2, 2, -2}, "whose shape and strides are not sizes"},
        {{"w", "FloatStorage", "0", 4, 0, huge, huge, huge}, "the shape of tensor w overflows"},
        {{"w", "FloatStorage", "0", 4, 0, huge, 2, 2},
         "elements 0 to 18446744073709551614 of a storage"},
        {{"w", "FloatStorage", "0", 4, 0, huge, 1, 1}, "of a storage of 4; the file is damaged"},
        {{"w", "FloatStorage", "0", 5, 0, 2, 2, 2}, "has 16 bytes, not 5 elements of F32"},
        {{"w", "FloatStorage", "0", huge, 0, 2, 2, 2}, "has 16 bytes, not 92233720368547758"},
        {{"w", "DoubleStorage", "0", 4, 0, 2, 2, 2}, "has 16 bytes, not 4 elements of F64"},
        {{"w", "HalfStorage", "0", 4, 0, 2, 2, 2}, "has 16 bytes, not 4 elements of F16"},
        {{"w", "FloatStorage", "2", 4, 0, 2, 2, 2}, "the storage data/2 of tensor w is not in"},
        {{"w", "FloatStorage", "../data.pkl", 4, 0, 2, 2, 2}, "is not in the archive"},
        {{"w", "FloatStorage", "", 4, 0, 2, 2, 2}, "is not in the archive"},
        {{"w", "QInt8Storage", "0", 4, 0, 2, 2, 2}, "the name torch.QInt8Storage at byte"},
        {{"w\xff", "FloatStorage", "0", 4, 0, 2, 2, 2}, "bytes that are no text"},
    };
    struct arena *arena = arena_create(0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct made pickle;
        pickle_make(&pickle, &cases[i].stated, NULL);
        enum status status = pickle_parse(arena, &pickle);
        if ((status == STATUS_OK) != !cases[i].words ||
            (cases[i].words && !strstr(err.text, cases[i].words)))
            fail_msg("%zu: %s, %s", i, status_name(status), err.text);
    }
    struct made pickle;
    struct stated other = usual;
    pickle_make(&pickle, &usual, &other);
    assert_int_equal(pickle_parse(arena, &pickle), STATUS_INVALID);
    assert_string_equal(err.text, "x: tensor w is there twice");
    other.name = "a";
    pickle_make(&pickle, &usual, &other);
    assert_int_equal(pickle_parse(arena, &pickle), STATUS_OK);
    assert_true(count == 2 && list[0].map == list[1].map && text_is(list[0].name, "a"));
    arena_destroy(arena);
}

#define CODE(text) text, sizeof(text) - 1

static void test_hostile_pickles(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        size_t bytes;
        const char *words; // NULL: an empty dictionary
    } cases[] = {
        {CODE("\x80\x02}."), NULL},
        {CODE("\x80\x02}q\0h\0h\0s."), "the entry (no string) is no tensor"},
        {CODE("}q\0h\0h\0\x86q\1h\0h\1s."), "items have no dictionary"},
        // a dictionary that contains itself, in its attributes and as an item
        {CODE("}q\0h\0b."), NULL},
        {CODE("}q\0X\1\0\0\0ah\0s."), "the entry a is no tensor"},
        {CODE("}q\0X\1\0\0\0ah\0\x85q\1s."), "the entry a is no tensor"},
        {CODE(""), "no end at byte 0"},
        {CODE("}"), "no end at byte 1"},
        {CODE("."), "the stack has no result"},
        {CODE("N."), "a result that is no dictionary"},
        {CODE("(."), "a result that is no dictionary"},
        {CODE("\x80"), "the protocol is cut"},
        {CODE("\x80\x03}."), "a protocol other than 2"},
        {CODE("t"), "a tuple has no mark"},
        {CODE("\x85"), "the stack has too few values for a tuple"},
        {CODE("NN\x87"), "the stack has too few values for a tuple"},
        {CODE("(\x85"), "a tuple holds a mark"},
        {CODE("u"), "items have no mark"},
        {CODE("(u"), "items have no dictionary"},
        {CODE("}(Nu"), "items have no dictionary"},
        {CODE("N(NNu"), "items have no dictionary"},
        {CODE("(}NNs"), "no end"},
        {CODE("}((Nu"), "items have no dictionary"},
        {CODE("s"), "the stack has no item"},
        {CODE("NNs"), "items have no dictionary"},
        {CODE("}(Ns"), "an item is a mark"},
        {CODE("q\0"), "the memo is filled wrongly"},
        {CODE("(q\0"), "the memo is filled wrongly"},
        {CODE("}q\1"), "the memo is filled wrongly"},
        {CODE("}r\xff\xff\xff\xff"), "the memo is filled wrongly"},
        {CODE("}r\0\0"), "an index of the memo is cut"},
        {CODE("h\0"), "the memo lacks a value"},
        {CODE("}q\0h\1"), "the memo lacks a value"},
        {CODE("j\xff\xff\xff\x7f"), "the memo lacks a value"},
        {CODE("h"), "an index of the memo is cut"},
        {CODE("X\xff\xff\xff\xff"
              "a"),
         "a string is cut"},
        {CODE("X\1"), "a string is cut"},
        {CODE("J\1\2"), "an integer is cut"},
        {CODE("\x8a\x09"), "an integer of over 64 bits"},
        {CODE("\x8a\x08\1"), "an integer is cut"},
        {CODE("\x8a"), "an integer is cut"},
        {CODE("ctorch"), "a name is cut"},
        {CODE("ctorch\nFloatStorage"), "a name is cut"},
        {CODE("cos\nsystem\n(X\1\0\0\0atR."), "the name os.system at byte 0 of its pickle"},
        {CODE("cbuiltins\neval\n"), "the name builtins.eval"},
        {CODE("c\x1b[2J\n\n\n"), "the name \\x1b[2J. at byte 0"},
        {CODE("Q"), "a reference that is no storage"},
        {CODE(")Q"), "a reference that is no storage"},
        {CODE("(NNNNNtQ"), "a reference that is no storage"},
        {CODE("R"), "the stack has no call"},
        {CODE("NR"), "the stack has no call"},
        {CODE("N)R"), "a call of something else"},
        {CODE("ccollections\nOrderedDict\nN\x85R"), "a call of something else"},
        {CODE("ctorch._utils\n_rebuild_tensor_v2\n)R"), "a tensor with other arguments"},
        {CODE("ctorch\nFloatStorage\n)R"), "a call of something else"},
        {CODE("b"), "attributes of something else"},
        {CODE("}Nb"), "attributes of something else"},
        {CODE("}NNs."), "the entry (no string) is no tensor"},
        {CODE("}I1\n"), "the instruction 0x49"},
        {CODE("}P0\n"), "the instruction 0x50"},
        {CODE("\x82\1"), "the instruction 0x82"},
        {CODE("}]e."), "the instruction 0x5d"},
    };
    struct arena *arena = arena_create(0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct made pickle = {.bytes = 0};
        put(&pickle, cases[i].code, cases[i].bytes);
        enum status status = pickle_parse(arena, &pickle);
        if ((status == STATUS_OK) != !cases[i].words || (status == STATUS_OK && count != 0) ||
            (cases[i].words && !strstr(err.text, cases[i].words)))
            fail_msg("%zu: %s, %s", i, status_name(status), err.text);
    }
    arena_destroy(arena);
}

// Parses a pickle of `repeat` times the same code.
static void repeated_refused(const char *code, size_t bytes, size_t repeat, const char *words)
{
    struct arena *arena = arena_create(0, 0);
    struct pickled_tensor *pickled;
    char *at = heap_alloc(bytes * repeat);
    for (size_t i = 0; i < repeat; i++)
        memcpy(at + i * bytes, code, bytes);
    enum status status =
        pickle_read(&pickled, &count, arena, text_span(at, bytes * repeat), "x", &err);
    assert_int_equal(status, STATUS_TOO_LARGE);
    if (!strstr(err.text, words))
        fail_msg("%s", err.text);
    heap_free(at);
    arena_destroy(arena);
}

static void test_limits_bound_the_memory(void **state)
{
    (void)state;
    repeated_refused(CODE("N"), PICKLE_STACK_MAX + 1, "over 65536 values at once");
    repeated_refused(CODE("((((((((NNNNNNNNNNNNNNNNtttttttt"), 1 << 18, "over 65536 values");
}

static void test_hostile_archives(void **state)
{
    (void)state;
    enum { LOCAL, DIRECTORY, END }; // whose record is damaged
    static const struct {
        int record;
        size_t entry, at; // offset in the record of that entry
        const char *bytes;
        size_t count;
        const char *words;
    } cases[] = {
        {LOCAL, 0, 0, CODE("PK\3\5"), "it does not begin as a zip archive"},
        {LOCAL, 1, 0, CODE("PK\3\5"), "an entry has no local header"},
        {LOCAL, 1, 26, CODE("\xff\xff"), "an entry lies outside the archive"},
        {LOCAL, 3, 28, CODE("\x01"), "an entry lies outside the archive"},
        {LOCAL, 1, 30, CODE("b"), "an entry has two names"},
        {DIRECTORY, 0, 0, CODE("PK\1\1"), "the zip directory has no entry"},
        {DIRECTORY, 0, 8, CODE("\1"), "the entry a/data.pkl is compressed or encrypted, which"},
        {DIRECTORY, 1, 10, CODE("\x08"), "the entry a/data/0 is compressed or encrypted, which"},
        {DIRECTORY, 1, 20, CODE("\x11"), "a stored entry has two sizes"},
        {DIRECTORY, 1, 20, CODE("\xff\xff\0\0\xff\xff\0\0"), "an entry lies outside the archive"},
        {DIRECTORY, 1, 20, CODE("\xff\xff\xff\xff"), "an entry lacks its zip64 sizes"},
        {DIRECTORY, 0, 20, CODE("\x20\1\0\0\x20\1\0\0"), "two entries overlap"},
        {DIRECTORY, 0, 28, CODE("\xff\xff"), "an entry of the zip directory is cut"},
        {DIRECTORY, 0, 42, CODE("\1"), "an entry has no local header"},
        {DIRECTORY, 1, 42, CODE("\xff\xff\xff\x7f"), "an entry has no local header"},
        {END, 0, 4, CODE("\1"), "the archive is one part of several"},
        {END, 0, 8, CODE("\5\0\5"), "the zip directory is too short for its entries"},
        {END, 0, 8, CODE("\xff\xff\xff\xff"), "the zip directory is too short for its entries"},
        {END, 0, 8, CODE("\2\0\2"), NULL}, // without the byte order, as before torch 2.1
        {END, 0, 8, CODE("\0\0\0\0"), "a zip archive, but no file of torch.save: it has no data"},
        {END, 0, 12, CODE("\xff\xff\xff\xff"), "the zip directory lies outside the file"},
        {END, 0, 16, CODE("\xff\xff\xff\xff"), "the zip directory lies outside the file"},
        {END, 0, 20, CODE("\1"), "no zip directory ends at byte"},
    };
    struct arena *arena = arena_create(0, 0);
    struct made pickle, file;
    pickle_make(&pickle, &usual, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct parts parts = archive_make(&file, &pickle);
        size_t entry = cases[i].entry;
        size_t record = cases[i].record == LOCAL       ? parts.local[entry]
                        : cases[i].record == DIRECTORY ? parts.directory + entry * (46 + 10)
                                                       : parts.end;
        memcpy(file.at + record + cases[i].at, cases[i].bytes, cases[i].count);
        enum status status = made_parse(arena, &file);
        if ((status == STATUS_OK) != !cases[i].words ||
            (cases[i].words && !strstr(err.text, cases[i].words)))
            fail_msg("%zu: %s, %s", i, status_name(status), err.text);
    }
    struct parts parts = archive_make(&file, &pickle);
    memcpy(file.at + parts.data[2], "big\0\0\0", 6);
    assert_int_equal(made_parse(arena, &file), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "was written by a machine with other byte order (big"));
    parts = archive_make(&file, &pickle);
    file.at[parts.local[3] + 30 + 7] = '0'; // both names of the storage 1
    file.at[parts.end - 1] = '0';
    assert_int_equal(made_parse(arena, &file), STATUS_INVALID);
    assert_string_equal(err.text, "x: the entry a/data/0 is there twice");
    arena_destroy(arena);
}

// Files over 4 GiB have sizes and offsets in zip64 records; here a small one has them.
static void test_zip64(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0, 0);
    struct made pickle, file, plain;
    pickle_make(&pickle, &usual, NULL);
    struct parts parts = archive_make(&plain, &pickle);
    file = plain;
    file.bytes = parts.directory;
    for (size_t i = 0, at = parts.directory; i < 2; i++) {
        size_t name = (unsigned char)plain.at[at + 28];
        put(&file, plain.at + at, 20);
        put_number(&file, UINT64_MAX, 8);
        put_number(&file, name, 2);
        put_number(&file, 6 + 28, 2); // an unknown field of 2 bytes before that of zip64
        put_number(&file, 0, 8);
        put_number(&file, 0, 2);
        put_number(&file, UINT32_MAX, 4);
        put(&file, plain.at + at + 46, name);
        put(&file, "\x42\x46\2\0zz\1\0\x18\0", 10);
        uint32_t size;
        memcpy(&size, plain.at + at + 24, 4);
        put_number(&file, size, 8);
        put_number(&file, size, 8);
        put_number(&file, parts.local[i], 8);
        at += 46 + name;
    }
    size_t end64 = file.bytes;
    put(&file, "PK\6\6\x2c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    put_number(&file, 2, 8);
    put_number(&file, 2, 8);
    put_number(&file, end64 - parts.directory, 8);
    put_number(&file, parts.directory, 8);
    put(&file, "PK\6\7\0\0\0\0", 8);
    put_number(&file, end64, 8);
    put_number(&file, 1, 4);
    put(&file, "PK\5\6\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0", 22);
    if (made_parse(arena, &file) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(count, 1);
    file.at[end64 + 56 + 8 + 4] = 1; // the record's offset
    assert_int_equal(made_parse(arena, &file), STATUS_INVALID);
    assert_non_null(strstr(err.text, "the zip64 locator names no record"));
    file.at[end64 + 56 + 8 + 4] = 0;
    file.at[end64 + 34] = 0x20; // 2^21 entries
    assert_int_equal(made_parse(arena, &file), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "the archive has 2097154 entries; at most 1048576 are read"));
    arena_destroy(arena);
}

// Reads all bytes of all tensors.
static uint64_t sum_bytes(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < list[i].bytes; k++)
            sum += ((const unsigned char *)list[i].map)[k];
    return sum;
}

static void test_cuts_and_damages_do_no_harm(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0, 0);
    struct text real = odd_read(arena, "training.bin");
    real = odd_read(arena, "kinds.bin");
    uint64_t read = 0, refused = 0;
    for (size_t bytes = 0; bytes < real.bytes; bytes++) {
        struct arena *scratch = arena_create(0, 0);
        char *file = heap_alloc(bytes + 1);
        memcpy(file, real.at, bytes);
        assert_int_not_equal(torch_parse(&list, &count, scratch, text_span(file, bytes), "x", &err),
                             STATUS_OK);
        heap_free(file);
        arena_destroy(scratch);
    }
    for (size_t at = 0; at < real.bytes; at++) {
        struct arena *scratch = arena_create(0, 0);
        char *file = heap_alloc(real.bytes);
        memcpy(file, real.at, real.bytes);
        file[at] = (char)(file[at] ^ 1 << at % 8);
        if (torch_parse(&list, &count, scratch, text_span(file, real.bytes), "x", &err) ==
            STATUS_OK)
            read += sum_bytes() > 0;
        else
            refused++;
        heap_free(file);
        arena_destroy(scratch);
    }
    printf("%llu damaged files read, %llu refused\n", (unsigned long long)read,
           (unsigned long long)refused);
    assert_true(read > 1000 && refused > 1000);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_tensors_are_those_of_the_twin),
        cmocka_unit_test(test_the_vectors_are_those_of_transformers),
        cmocka_unit_test(test_safetensors_are_preferred),
        cmocka_unit_test(test_kinds_views_and_shared_storages),
        cmocka_unit_test(test_other_contents_are_refused),
        cmocka_unit_test(test_stated_numbers_are_checked),
        cmocka_unit_test(test_hostile_pickles),
        cmocka_unit_test(test_limits_bound_the_memory),
        cmocka_unit_test(test_hostile_archives),
        cmocka_unit_test(test_zip64),
        cmocka_unit_test(test_cuts_and_damages_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
