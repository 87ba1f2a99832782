// SPDX-License-Identifier: Apache-2.0
// Reading of checkpoints: values, shapes and offsets of tensors in one file and in shards, and
// every single-byte damage of a header (refused or read, without a crash; run under ASan).
// Individual refusals are in test_hostile.c.
#include "base/arena.h"
#include "base/json.h"
#include "runtime/model/safetensors.h"
#include "runtime/source/mapping.h"
#include "tests/runtime/golden.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

static struct error err;

// Writes FOLDER/NAME with a tensor of 30,000 floats of value 1 and opens the folder.
static struct tensors *ones_open(const char *folder, const char *name)
{
    const float one = 1;
    uint64_t count;
    struct tensors *set;
    struct tensor_file file;
    json_t *shape = json_pack("[i,i]", 300, 100);
    tensor_file_begin(&file);
    char *at = tensor_file_extend(&file, "a", "F32", shape, sizeof one, &count);
    for (uint64_t i = 0; i < count; i++)
        memcpy(at + i * sizeof one, &one, sizeof one);
    json_decref(shape);
    tensor_file_write(&file, folder, name);
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_OK);
    return set;
}

static void *sum_all(void *context)
{
    const struct tensor *a = context;
    float value;
    double sum = 0;
    for (uint64_t i = 0; i < a->bytes / 4; i++) {
        memcpy(&value, (const char *)a->map + i * 4, sizeof value);
        sum += (double)value;
    }
    // the rest of the file's last page reads as zeros too
    return sum > 0 && sum <= 2048 ? NULL : context;
}

// A file that loses its pages reads as zeros after the cut, on all threads, and is refused.
static void test_a_file_that_is_cut_while_read(void **state)
{
    (void)state;
    char folder[64], path[128];
    pthread_t threads[4];
    void *wrong;
    folder_make(folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    struct tensors *set = ones_open(folder, "model.safetensors");
    const struct tensor *a = tensors_find(set, "a");
    assert_int_equal(truncate(path, 8192), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sum_all, (void *)a), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_true(mapping_is_cut(a->mapping));
    // a cut file explains every other failure
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tensors_check(set, i ? STATUS_INVALID : STATUS_OK, &err), STATUS_IO);
        assert_ptr_equal(strstr(err.text, path), err.text);
        assert_non_null(strstr(err.text, "was truncated while it was loaded, from 12"));
        assert_non_null(strstr(err.text, " to 8192 bytes; load it again when"));
    }
    tensors_close(set);
    folder_remove(folder);
}

// A file that has its length again when it is checked is refused too.
static void test_a_file_that_is_rewritten_while_read(void **state)
{
    (void)state;
    char folder[64], path[128];
    folder_make(folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    for (int read = 0; read < 2; read++) {
        struct tensors *set = ones_open(folder, "model.safetensors"), *again;
        const struct tensor *a = tensors_find(set, "a");
        const volatile char *last = (const char *)a->map + a->bytes - 1;
        assert_int_equal(truncate(path, 4096), 0);
        if (read)
            assert_int_equal(*last, 0);
        again = ones_open(folder, "model.safetensors");
        assert_int_equal(tensors_check(again, STATUS_OK, &err), STATUS_OK);
        assert_int_equal(mapping_is_cut(a->mapping), read);
        assert_int_equal(tensors_check(set, STATUS_OK, &err), STATUS_IO);
        assert_non_null(strstr(err.text, "model.safetensors was written to while it was loaded"));
        tensors_close(again);
        tensors_close(set);
    }
    folder_remove(folder);
}

// Runs a process that reads a page which the file no longer has, while the process may not map any
// memory. Stores its output and returns its exit status.
static int cut_child(const char *folder, char *said, size_t bytes)
{
    char path[128];
    int ends[2];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct tensors *set;
        struct rlimit none = {4096, 4096};
        dup2(ends[1], STDERR_FILENO);
        if (tensors_open(&set, folder, &err) != STATUS_OK || truncate(path, 4096) != 0 ||
            setrlimit(RLIMIT_AS, &none) != 0)
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

static void test_a_cut_file_without_memory_ends_the_process(void **state)
{
    (void)state;
    char folder[64], said[512];
    folder_make(folder);
    tensors_close(ones_open(folder, "model.safetensors"));
    assert_int_equal(cut_child(folder, said, sizeof said), 1);
    assert_non_null(strstr(said, "model.safetensors: byte 12"));
    assert_non_null(strstr(said, "could not be read: the file was truncated"));
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
    memcpy(&half, a->map, 2); // equal seed, index and kind give an equal first value
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
            char *file = heap_alloc(BYTES); // so that ASan finds a read past its end
            uint64_t length = sizeof header - 1;
            memcpy(file, &length, 8);
            memcpy(file + 8, header, length);
            memset(file + 8 + length, 1, 24);
            file[at] = (char)(file[at] ^ 1 << bit);
            struct arena *arena = arena_create(0, 0);
            struct tensor *list = NULL;
            uint32_t count = 0;
            err.status = STATUS_OK;
            enum status status =
                safetensors_parse(&list, &count, arena, text_span(file, BYTES), "x", &err);
            refused += status != STATUS_OK;
            uint64_t sum = 0;
            for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
                for (uint64_t k = 0; k < list[i].bytes; k++)
                    sum += ((const unsigned char *)list[i].map)[k];
            assert_true(status != STATUS_OK || sum <= 24);
            arena_destroy(arena);
            heap_free(file);
        }
    }
    assert_true(refused > 400);
}

static struct tensor *list;
static uint32_t count;

// Parses a file with this header and `data` bytes of data; `arena` keeps the result.
static enum status header_parse(struct arena *arena, const char *header, size_t bytes, size_t data)
{
    char *file = arena_alloc_zeroed(arena, 8 + bytes + data, 1);
    uint64_t length = bytes;
    memcpy(file, &length, 8);
    memcpy(file + 8, header, bytes);
    count = 0;
    return safetensors_parse(&list, &count, arena, text_span(file, 8 + bytes + data), "x", &err);
}

static void test_elements_have_their_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        uint32_t bytes;
        int dtype;
    } known[] = {{"F32", 4, DTYPE_F32}, {"BF16", 2, DTYPE_BF16}, {"F16", 2, DTYPE_F16},
                 {"F64", 8, -1},        {"I64", 8, -1},          {"I32", 4, -1},
                 {"I16", 2, -1},        {"I8", 1, -1},           {"U64", 8, -1},
                 {"U32", 4, -1},        {"U16", 2, -1},          {"U8", 1, -1},
                 {"BOOL", 1, -1},       {"F8_E4M3", 1, -1},      {"F8_E5M2", 1, -1}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct arena *arena = arena_create(0, 0);
        uint32_t bytes = 6 * known[i].bytes;
        struct text header = arena_format(
            arena, "{\"a\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[5,%u]}}",
            known[i].type, 5 + bytes);
        assert_int_equal(header_parse(arena, header.at, header.bytes, 5 + bytes), STATUS_OK);
        assert_int_equal(count, 1);
        assert_string_equal(list[0].type, known[i].type);
        assert_int_equal(list[0].dtype, known[i].dtype);
        assert_int_equal(list[0].bytes, bytes);
        assert_int_equal(list[0].offset, 8 + header.bytes + 5); // from the start of the file
        assert_int_equal(header_parse(arena, header.at, header.bytes, 4 + bytes), STATUS_INVALID);
        assert_non_null(strstr(err.text, "the file is cut or damaged"));
        arena_destroy(arena);
    }
}

static void test_headers_are_read_to_their_limits(void **state)
{
    (void)state;
    struct arena *arena = arena_create(0, 0);
    char name[TENSOR_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    for (int over = 0; over <= 1; over++) {
        struct text header =
            arena_format(arena, "{\"%.*s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
                         TENSOR_NAME_MAX + over, name);
        assert_int_equal(header_parse(arena, header.at, header.bytes, 1),
                         over ? STATUS_INVALID : STATUS_OK);
    }
    assert_non_null(strstr(err.text, "a tensor name has over 512 bytes, or a NUL among them"));
    static const struct {
        const char *header;
        size_t data;
        const char *words; // part of the error message; NULL: it is read
    } cases[] = {
        {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
         "a tensor name has over 512 bytes, or a NUL among them"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,2],\"data_offsets\":[0,2]}}", 2, NULL},
        {"{}", 0, NULL},
        {" { } ", 0, NULL},
        {"{\"__metadata__\":{\"a\":\"1\",\"b\":\"2\"}}", 0, NULL},
        // in any order, contiguous, with an empty tensor inside of another
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
         8, NULL},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         8, "tensors a and b overlap"},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         8, "tensors b and a overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2305843009213693951],\"data_offsets\":[0,0]}}", 0,
         "has 0 bytes, its shape and dtype need 9223372036854775804"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
         "the shape of tensor a overflows"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}}", 4,
         "data_offsets of tensor a are not two offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551617],\"data_offsets\":[0,4]}}", 4,
         "the shape of tensor a holds something that is not a size"},
        {"{\"a\":1,\"b\":2,\"a\":3}", 0, "a tensor name occurs twice in the header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum status status =
            header_parse(arena, cases[i].header, strlen(cases[i].header), cases[i].data);
        if ((status == STATUS_OK) != !cases[i].words ||
            (cases[i].words && !strstr(err.text, cases[i].words)))
            fail_msg("%s: %s, %s", cases[i].header, status_name(status), err.text);
    }
    count = 7;
    assert_int_equal(safetensors_parse(&list, &count, arena, text_span("1234567", 7), "x", &err),
                     STATUS_INVALID);
    assert_string_equal(err.text, "x: 7 bytes are too few for a safetensors file");
    arena_destroy(arena);
}

static void index_write(const char *folder, const char *text)
{
    file_write(folder, "model.safetensors.index.json", text, strlen(text));
}

static void test_shards_are_plain_names(void **state)
{
    (void)state;
    char folder[64], name[300], text[400];
    struct tensors *set;
    folder_make(folder);
    for (size_t bytes = 255; bytes <= 256; bytes++) {
        memset(name, 's', bytes);
        name[bytes] = '\0';
        snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%s\"}}", name);
        index_write(folder, text);
        assert_int_equal(tensors_open(&set, folder, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, bytes == 255 ? "which the folder lacks"
                                                      : "tensor a names no file of the folder"));
    }
    static const char *const names[] = {".hidden.safetensors", "sub/a.safetensors", "/a", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        index_write(folder, text);
        assert_int_equal(tensors_open(&set, folder, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "tensor a names no file of the folder"));
    }
    struct tensor_file file;
    for (int i = 0; i < 2; i++) {
        tensor_file_begin(&file);
        add(&file, i ? "b" : "a", 2, 2, DTYPE_F32);
        tensor_file_write(&file, folder, i ? "two" : "one");
    }
    index_write(folder, "{\"weight_map\":{\"a\":\"one\",\"b\":\"one\"}}");
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_INVALID);
    assert_string_equal(err.text, "model.safetensors.index.json: tensor b is not in one");
    index_write(folder, "{\"weight_map\":{\"a\":\"one\",\"b\":\"two\"}}");
    assert_int_equal(tensors_open(&set, folder, &err), STATUS_OK);
    const struct tensor *a = tensors_find(set, "a"), *b = tensors_find(set, "b");
    float first[2] = {0, 0};
    const struct tensor *each[] = {a, b};
    for (int i = 0; i < 2; i++) { // each has the descriptor of its file
        assert_int_equal(pread(each[i]->fd, &first[i], 4, (off_t)each[i]->offset), 4);
        assert_memory_equal(&first[i], each[i]->map, 4);
    }
    assert_int_not_equal(a->fd, b->fd);
    int first_fd = a->fd, second_fd = b->fd;
    assert_true(fcntl(first_fd, F_GETFD) >= 0 && fcntl(second_fd, F_GETFD) >= 0);
    tensors_close(set);
    assert_int_equal(fcntl(first_fd, F_GETFD), -1);
    assert_int_equal(fcntl(second_fd, F_GETFD), -1);
    tensors_close(NULL);
    folder_remove(folder);
}

// The message names the file that was cut, and closed files are forgotten.
static void test_cut_file_is_named(void **state)
{
    (void)state;
    char folder[64], words[192];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    folder_make(folder);
    index_write(folder, "{\"weight_map\":{\"t0\":\"part-0\",\"t1\":\"part-1\","
                        "\"t2\":\"part-2\"}}");
    for (int cut = 0; cut < 3; cut++) {
        char name[32], tensor[16], path[128];
        struct tensors *other, *set;
        for (int i = 0; i < 3; i++) {
            struct tensor_file file;
            snprintf(name, sizeof name, "part-%d", i);
            snprintf(tensor, sizeof tensor, "t%d", i);
            tensor_file_begin(&file);
            add(&file, tensor, 300, 100, DTYPE_F32);
            tensor_file_write(&file, folder, name);
        }
        snprintf(path, sizeof path, "%s/part-%d", folder, cut);
        snprintf(tensor, sizeof tensor, "t%d", cut);
        assert_int_equal(tensors_open(&other, folder, &err), STATUS_OK);
        assert_int_equal(tensors_open(&set, folder, &err), STATUS_OK);
        tensors_close(other); // removes files from the middle of the list
        const struct tensor *t = tensors_find(set, tensor);
        assert_int_equal(truncate(path, (off_t)page), 0);
        const char *file = (const char *)t->map - t->offset;
        assert_int_equal(((const volatile char *)file)[page], 0);
        for (int i = 0; i < 3; i++) {
            snprintf(tensor, sizeof tensor, "t%d", i);
            assert_int_equal(mapping_is_cut(tensors_find(set, tensor)->mapping), i == cut);
        }
        assert_int_equal(tensors_check(set, STATUS_OK, &err), STATUS_IO);
        snprintf(words, sizeof words, "%s was truncated while it was loaded", path);
        assert_ptr_equal(strstr(err.text, words), err.text);
        tensors_close(set);
    }
    folder_remove(folder);
}

// A bus error at another address ends the process as if no file had been opened.
static void test_other_bus_errors_are_fatal(void **state)
{
    (void)state;
    char folder[64];
    int status = 0;
    folder_make(folder);
    struct tensor_file file;
    tensor_file_begin(&file);
    add(&file, "a", 300, 100, DTYPE_F32);
    tensor_file_write(&file, folder, "model.safetensors");
    pid_t child = fork();
    if (child == 0) {
        struct tensors *set;
        char path[128];
        snprintf(path, sizeof path, "%s/other", folder);
        FILE *other = fopen(path, "w+");
        signal(SIGBUS, SIG_DFL); // removes cmocka's handler
        alarm(60);               // in case the handler returns forever
        if (!other || tensors_open(&set, folder, &err) != STATUS_OK)
            _exit(2);
        const volatile char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(other), 0);
        _exit(at == MAP_FAILED ? 2 : at[0] == 0 ? 3 : 4);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements_have_their_sizes),
        cmocka_unit_test(test_headers_are_read_to_their_limits),
        cmocka_unit_test(test_shards_are_plain_names),
        cmocka_unit_test(test_cut_file_is_named),
        cmocka_unit_test(test_other_bus_errors_are_fatal),
        cmocka_unit_test(test_one_file_is_read),
        cmocka_unit_test(test_a_file_that_is_cut_while_read),
        cmocka_unit_test(test_a_file_that_is_rewritten_while_read),
        cmocka_unit_test(test_a_cut_file_without_memory_ends_the_process),
        cmocka_unit_test(test_shards_are_joined),
        cmocka_unit_test(test_damaged_headers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
