// Reading of checkpoints: values, shapes and places of tensors in one file and in shards, and every
// single-byte damage of a header (refused or read, never a crash; run under ASan). Refusals one by
// one are in test_hostile.c.
#include "base/arena.h"
#include "base/json.h"
#include "runtime/model/safetensors.h"
#include "tests/runtime/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void add(struct tensor_file *file, const char *name, uint32_t rows, uint32_t cols,
                enum dtype dtype)
{
    json_t *shape = cols ? json_pack("[i,i]", rows, cols) : json_pack("[i]", rows);
    struct golden_tensor tensor = {name, shape, 5, 1, 3};
    tensor_file_add(file, &tensor, dtype);
    json_decref(shape);
}

// The output of a process that reads a page which the file no longer has; returns its exit status.
static int cut_child(const char *folder, char *said, size_t bytes)
{
    char path[128];
    int ends[2];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct tensors *set;
        struct error err;
        dup2(ends[1], STDERR_FILENO);
        if (tensors_open(&set, folder, &err) != STATUS_OK || truncate(path, 4096) != 0)
            _exit(2);
        const struct tensor *a = tensors_find(set, "a");
        volatile char last = ((const char *)a->map)[a->bytes - 1];
        _exit(last == 0 ? 3 : 4);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], said, bytes - 1);
    said[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_a_file_that_is_cut_while_read(void **state)
{
    (void)state;
    char folder[64], said[512];
    folder_make(folder);
    struct tensor_file file;
    tensor_file_begin(&file);
    add(&file, "a", 300, 100, DTYPE_F32);
    tensor_file_write(&file, folder, "model.safetensors");
    assert_int_equal(cut_child(folder, said, sizeof said), 1);
    assert_non_null(strstr(said, "model.safetensors: byte 12"));
    assert_non_null(strstr(said, "could not be read: the file was cut"));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    folder_remove(folder);
}

static void test_one_file_is_read(void **state)
{
    (void)state;
    char folder[64];
    folder_make(folder);
    struct tensor_file file;
    tensor_file_begin(&file);
    json_object_set_new(file.header, "__metadata__",
                        json_pack("{s:s}", "format", "pt, of a 5\" disk, {, \\"));
    add(&file, "b", 3, 4, DTYPE_F32);
    add(&file, "a", 5, 0, DTYPE_BF16);
    add(&file, "c", 0, 0, DTYPE_F16);
    tensor_file_write(&file, folder, "model.safetensors");
    struct tensors *set;
    struct error err;
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_OK);
    assert_int_equal(tensors_count(set), 3);
    const struct tensor *b = tensors_find(set, "b");
    assert_non_null(b);
    assert_int_equal(b->dims, 2);
    assert_int_equal(b->shape[1], 4);
    assert_int_equal(b->dtype, DTYPE_F32);
    assert_int_equal(b->bytes, 48);
    const struct tensor *a = tensors_find(set, "a");
    assert_int_equal(a->dtype, DTYPE_BF16);
    assert_int_equal(a->offset, b->offset + 48);
    uint16_t half;
    float whole;
    memcpy(&half, a->map, 2); // the same seed, index and kind: the same first value
    memcpy(&whole, b->map, 4);
    assert_true(bf16_to_f32(half) == whole);
    assert_null(tensors_find(set, "d"));
    assert_null(tensors_find(set, ""));
    tensors_close(set);
    folder_remove(folder);
}

static void test_shards_are_joined(void **state)
{
    (void)state;
    char folder[64];
    folder_make(folder);
    json_t *map = json_object();
    for (int i = 0; i < 3; i++) {
        struct tensor_file file;
        char name[32], tensor[32];
        snprintf(name, sizeof name, "part-%d.safetensors", i);
        snprintf(tensor, sizeof tensor, "layers.%d.weight", i);
        tensor_file_begin(&file);
        add(&file, tensor, 2, 2, DTYPE_F16);
        tensor_file_write(&file, folder, name);
        json_object_set_new(map, tensor, json_string(name));
    }
    json_t *index = json_pack("{s:o}", "weight_map", map);
    file_write_json(folder, "model.safetensors.index.json", index);
    json_decref(index);
    struct tensors *set;
    struct error err;
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_OK);
    assert_int_equal(tensors_count(set), 3);
    assert_string_equal(tensors_find(set, "layers.2.weight")->file, "part-2.safetensors");
    assert_string_equal(tensors_at(set, 0)->name.at, "layers.0.weight");
    tensors_close(set);
    folder_remove(folder);
}

static void test_damaged_headers_do_no_harm(void **state)
{
    (void)state;
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
        "\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[16,24]}}";
    enum { BYTES = 8 + sizeof header - 1 + 24 };
    uint32_t refused = 0;
    for (size_t at = 0; at < BYTES - 24; at++) {
        for (int bit = 0; bit < 8; bit++) {
            char *file = heap_take(BYTES); // so that ASan finds a read past its end
            uint64_t length = sizeof header - 1;
            memcpy(file, &length, 8);
            memcpy(file + 8, header, length);
            memset(file + 8 + length, 1, 24);
            file[at] = (char)(file[at] ^ 1 << bit);
            struct arena *arena = arena_create(0, 0);
            struct tensor *list = NULL;
            uint32_t count = 0;
            struct error err = {.status = STATUS_OK};
            enum status status =
                safetensors_parse(&list, &count, arena, text_span(file, BYTES), "x", &err);
            refused += status != STATUS_OK;
            uint64_t sum = 0;
            for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
                for (uint64_t k = 0; k < list[i].bytes; k++)
                    sum += ((const unsigned char *)list[i].map)[k];
            assert_true(status != STATUS_OK || sum <= 24);
            arena_destroy(arena);
            heap_give(file);
        }
    }
    assert_true(refused > 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_file_is_read),
        cmocka_unit_test(test_a_file_that_is_cut_while_read),
        cmocka_unit_test(test_shards_are_joined),
        cmocka_unit_test(test_damaged_headers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
