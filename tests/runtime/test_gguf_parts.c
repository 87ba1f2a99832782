// SPDX-License-Identifier: Apache-2.0
// GGUF models in several files: the same tensors and documents as from one file; parts that are
// missing, exchanged, damaged or renamed; files that are cut while they are read.
#include "base/arena.h"
#include "base/folder.h"
#include "runtime/model/tensors.h"
#include "runtime/source/source.h"
#include "tests/runtime/gguf_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PARTS = 3 };

// Makes the parts of a file that was built with `keys`. The first has no tensor if `bare`.
static void parts_make(struct gguf_build parts[PARTS], struct gguf_bytes file,
                       const struct gguf_build *keys, bool bare)
{
    struct arena *arena = arena_create(0, 0);
    struct gguf whole;
    struct error err;
    enum { U16 = 2, I32 = 5 };
    assert_int_equal(gguf_parse(&whole, arena, text_span(file.at, file.bytes), "m", &err),
                     STATUS_OK);
    for (uint32_t p = 0; p < PARTS; p++) {
        parts[p] = (struct gguf_build){.key_count = p == 0 ? keys->key_count : 0};
        if (p == 0)
            gguf_put(&parts[0].keys, keys->keys.at, keys->keys.bytes);
        gguf_key(&parts[p], "split.no", U16);
        gguf_put_number(&parts[p].keys, p, 2);
        gguf_key(&parts[p], "split.count", U16);
        gguf_put_number(&parts[p].keys, PARTS, 2);
        gguf_key(&parts[p], "split.tensors.count", I32);
        gguf_put_number(&parts[p].keys, whole.tensor_count, 4);
    }
    for (uint32_t i = 0; i < whole.tensor_count; i++) {
        const struct gguf_tensor *t = &whole.tensors[i];
        char name[GGUF_NAME_MAX + 1];
        snprintf(name, sizeof name, "%.*s", (int)t->name.bytes, t->name.at);
        gguf_tensor_add(&parts[bare ? 1 + i % (PARTS - 1) : i % PARTS], name, t->shape, t->dims,
                        t->type->id, file.at + t->offset, t->bytes);
    }
    arena_destroy(arena);
}

static void part_name(char out[32], uint32_t part)
{
    snprintf(out, 32, "m-%05u-of-%05u.gguf", part + 1, PARTS);
}

// Checks that both files have the same tensors, with the same bytes in memory and on disk.
static void tensors_equal_check(const char *one, const char *other)
{
    struct tensors *a, *b;
    struct error err;
    assert_int_equal(tensors_open(&a, one, &err), STATUS_OK);
    if (tensors_open(&b, other, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(tensors_count(a), tensors_count(b));
    assert_true(tensors_count(a) > 10);
    for (uint32_t i = 0; i < tensors_count(a); i++) {
        const struct tensor *x = tensors_at(a, i), *y = tensors_at(b, i);
        assert_true(text_equal(x->name, y->name));
        assert_int_equal(x->dims, y->dims);
        assert_memory_equal(x->shape, y->shape, sizeof x->shape);
        assert_string_equal(x->type, y->type);
        assert_int_equal(x->rope_head, y->rope_head);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->map, y->map, x->bytes);
        char *read = heap_alloc(y->bytes);
        assert_int_equal(pread(y->fd, read, y->bytes, (off_t)y->offset), y->bytes);
        assert_memory_equal(x->map, read, x->bytes);
        heap_free(read);
    }
    struct hash x = tensors_hash(a), y = tensors_hash(b);
    assert_memory_equal(&x, &y, sizeof x);
    assert_int_equal(tensors_check(b, STATUS_OK, &err), STATUS_OK);
    // a part that becomes shorter is noticed
    char last[128];
    snprintf(last, sizeof last, "%.*s%s", (int)(strlen(other) - strlen("00001-of-00003.gguf")),
             other, "00003-of-00003.gguf");
    assert_int_equal(truncate(last, 100), 0);
    assert_int_equal(tensors_check(b, STATUS_INVALID, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "00003-of-00003.gguf was truncated"));
    tensors_close(a);
    tensors_close(b);
}

// Checks that a document is the same text from both files.
static void document_equal_check(const char *one, const char *other, const char *name)
{
    struct arena *arena = arena_create(0, 0);
    struct text a, b;
    struct error err;
    const char *path = arena_format(arena, "%s/%s", one, name).at;
    assert_int_equal(model_file_read(&a, arena, path, 1 << 20, &err), STATUS_OK);
    path = arena_format(arena, "%s/%s", other, name).at;
    if (model_file_read(&b, arena, path, 1 << 20, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_true(text_equal(a, b));
    arena_destroy(arena);
}

static void test_a_model_in_several_files(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "qwen2", "bert-mean"};
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        char folder[64], one[128], other[128], name[32];
        json_t *golden = golden_read(names[i / 2]);
        struct gguf_build b = {.key_count = 0}, keys = {.key_count = 0}, parts[PARTS];
        folder_make(folder);
        gguf_of_golden(&b, golden);
        gguf_put(&keys.keys, b.keys.at, b.keys.bytes);
        keys.key_count = b.key_count;
        struct gguf_bytes bytes = gguf_finish(&b);
        file_write(folder, "m.gguf", bytes.at, bytes.bytes);
        parts_make(parts, bytes, &keys, i % 2 == 1);
        for (uint32_t p = 0; p < PARTS; p++) {
            struct gguf_bytes part = gguf_finish(&parts[p]);
            part_name(name, p);
            file_write(folder, name, part.at, part.bytes);
            heap_free(part.at);
        }
        snprintf(one, sizeof one, "%s/m.gguf", folder);
        snprintf(other, sizeof other, "%s/m-00001-of-00003.gguf", folder);
        document_equal_check(one, other, "config.json");
        document_equal_check(one, other, "tokenizer.json");
        tensors_equal_check(one, other);
        heap_free(bytes.at);
        heap_free(keys.keys.at);
        json_decref(golden);
        folder_remove(folder);
    }
}

// Returns the error of opening a file of the folder, without the path of the folder.
static const char *open_error(const char *folder, const char *name)
{
    static struct error err;
    static char text[ERROR_TEXT_MAX];
    struct tensors *tensors;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (tensors_open(&tensors, path, &err) == STATUS_OK)
        fail_msg("%s was opened", name);
    assert_int_not_equal(err.status, STATUS_NOT_FOUND); // it means that a document is absent
    size_t used = 0;
    for (const char *at = err.text; *at != '\0'; used++) {
        if (strncmp(at, folder, strlen(folder)) == 0)
            at += strlen(folder) + 1;
        text[used] = *at++;
    }
    text[used] = '\0';
    return text;
}

static void test_wrong_parts_are_named(void **state)
{
    (void)state;
    char folder[64], from[160], to[160];
    json_t *golden = golden_read("llama");
    struct gguf_build b = {.key_count = 0}, parts[PARTS];
    struct gguf_bytes files[PARTS];
    folder_make(folder);
    gguf_of_golden(&b, golden);
    struct gguf_build keys = {.keys = {NULL, 0}, .key_count = b.key_count};
    gguf_put(&keys.keys, b.keys.at, b.keys.bytes);
    struct gguf_bytes bytes = gguf_finish(&b);
    parts_make(parts, bytes, &keys, false);
    for (uint32_t p = 0; p < PARTS; p++) {
        files[p] = gguf_finish(&parts[p]);
        if (p < 2)
            file_write(folder, p == 0 ? "m-00001-of-00003.gguf" : "m-00002-of-00003.gguf",
                       files[p].at, files[p].bytes);
    }
    assert_string_equal(open_error(folder, "m-00001-of-00003.gguf"),
                        "m-00001-of-00003.gguf: part 3 of 3 is missing: download it next to the "
                        "first, as m-00003-of-00003.gguf");
    assert_string_equal(open_error(folder, "m-00002-of-00003.gguf"),
                        "m-00002-of-00003.gguf is part 2 of a model in 3 files: give the first "
                        "part, m-00001-of-00003.gguf");
    file_write(folder, "m-00003-of-00003.gguf", files[1].at, files[1].bytes);
    assert_string_equal(open_error(folder, "m-00001-of-00003.gguf"),
                        "m-00003-of-00003.gguf is not part 3 of 3 of the model: its keys split.no "
                        "and split.count are 1 and 3; download it again");
    file_write(folder, "m-00003-of-00003.gguf", files[2].at, files[2].bytes / 2);
    assert_non_null(
        strstr(open_error(folder, "m-00001-of-00003.gguf"), "m-00003-of-00003.gguf: the tensor "));
    parts_make(parts, bytes, &keys, false);
    gguf_tensor_add(&parts[2], "output_norm.bias", &(uint64_t){1}, 1, 0, "\0\0\0", 4);
    heap_free(files[2].at);
    files[2] = gguf_finish(&parts[2]);
    file_write(folder, "m-00003-of-00003.gguf", files[2].at, files[2].bytes);
    assert_non_null(strstr(open_error(folder, "m-00001-of-00003.gguf"),
                           "m-00001-of-00003.gguf: the 3 parts have "));
    snprintf(from, sizeof from, "%s/m-00001-of-00003.gguf", folder);
    snprintf(to, sizeof to, "%s/first.gguf", folder);
    assert_int_equal(rename(from, to), 0);
    assert_string_equal(open_error(folder, "first.gguf"),
                        "first.gguf is the first of 3 files of a model, and its name does not end "
                        "with -00001-of-00003.gguf: give the files the names with which they were "
                        "published");
    for (uint32_t p = 0; p < 2; p++)
        heap_free(gguf_finish(&parts[p]).at);
    for (uint32_t p = 0; p < PARTS; p++)
        heap_free(files[p].at);
    heap_free(bytes.at);
    heap_free(keys.keys.at);
    json_decref(golden);
    folder_remove(folder);
}

// A file that loses its head, or its tensors, after it was opened is refused by each of its
// readers.
static void test_an_open_file_that_is_cut(void **state)
{
    (void)state;
    char folder[64], path[128];
    struct error err;
    struct tensors *tensors;
    json_t *golden = golden_read("llama");
    folder_make(folder);
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    for (int bytes = 0; bytes <= 4096; bytes += 4096) {
        struct gguf_build b = {.key_count = 0};
        gguf_of_golden(&b, golden);
        struct gguf_bytes file = gguf_finish(&b);
        file_write(folder, "m.gguf", file.at, file.bytes);
        heap_free(file.at);
        struct model_source *source = model_source_open(path);
        assert_non_null(source);
        assert_int_equal(truncate(path, bytes), 0);
        for (int reader = 0; reader < 2; reader++) {
            struct arena *arena = arena_create(0, 0);
            struct text text;
            const char *config = arena_format(arena, "%s/config.json", path).at;
            enum status status = reader == 0 ? model_file_read(&text, arena, config, 1 << 20, &err)
                                             : tensors_open(&tensors, path, &err);
            assert_int_equal(status, STATUS_IO);
            assert_ptr_equal(strstr(err.text, path), err.text);
            assert_non_null(strstr(err.text, "was truncated while it was loaded, from "));
            arena_destroy(arena);
        }
        model_source_close(source);
    }
    json_decref(golden);
    folder_remove(folder);
}

// A length that is overwritten after gguf_parse has checked it leads nowhere.
static void test_a_length_that_changes_is_refused(void **state)
{
    (void)state;
    struct gguf_build b = {.key_count = 0};
    struct gguf file;
    struct error err;
    struct text *list;
    const struct gguf_value *array;
    static const uint64_t lengths[] = {2,         3, 9, 10, 1u << 20, INT64_MAX, UINT64_MAX - 7,
                                       UINT64_MAX};
    enum { STRING = 8, ARRAY = 9 };
    gguf_key(&b, "words", ARRAY);
    gguf_put_number(&b.keys, STRING, 4);
    gguf_put_number(&b.keys, 2, 8);
    for (int i = 0; i < 2; i++) {
        gguf_put_number(&b.keys, 1, 8);
        gguf_put(&b.keys, "x", 1);
    }
    struct gguf_bytes bytes = gguf_finish(&b);
    struct arena *arena = arena_create(0, 0);
    assert_int_equal(gguf_parse(&file, arena, text_span(bytes.at, bytes.bytes), "m", &err),
                     STATUS_OK);
    assert_int_equal(gguf_array(&array, &file, "words", 1 << STRING, &err), STATUS_OK);
    char *first = bytes.at + (array->bytes.at - bytes.at);
    assert_int_equal(gguf_strings(&list, &file, array, 10, arena, &err), STATUS_OK);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(first, &lengths[i], sizeof lengths[i]);
        assert_int_equal(gguf_strings(&list, &file, array, 10, arena, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "m: the key words: item "));
        assert_non_null(strstr(err.text, " is longer than the rest of the array: "));
    }
    arena_destroy(arena);
    heap_free(bytes.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_model_in_several_files),
        cmocka_unit_test(test_wrong_parts_are_named),
        cmocka_unit_test(test_an_open_file_that_is_cut),
        cmocka_unit_test(test_a_length_that_changes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
