// SPDX-License-Identifier: Apache-2.0
// Files are read completely. Each kind of path that is not a readable file or model folder has its
// own error sentence.
#include "base/arena.h"
#include "base/file.h"
#include "base/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATH_BYTES = 512 };

static char place[64];

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state)
{
    (void)state;
    strcpy(place, "/tmp/weft-file-XXXXXX");
    return mkdtemp(place) && chdir(place) == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    char command[PATH_BYTES];
    snprintf(command, sizeof command, "rm -rf %s", place);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static void refused(enum status status, enum status expected, const struct error *err,
                    const char *sentence)
{
    assert_int_equal(status, expected);
    assert_int_equal(err->status, expected);
    assert_string_equal(err->text, sentence);
}

static void test_a_file_is_read_whole(void **state)
{
    (void)state;
    struct error err;
    struct text text;
    struct arena *arena = arena_create(0, 0);
    put("five", "hello");
    assert_int_equal(file_read(&text, arena, "five", 5, &err), STATUS_OK);
    assert_int_equal(text.bytes, 5);
    assert_string_equal(text.at, "hello"); // followed by a NUL
    refused(file_read(&text, arena, "five", 4, &err), STATUS_TOO_LARGE, &err,
            "five has 5 bytes, at most 4 are read");
    put("empty", "");
    assert_int_equal(file_read(&text, arena, "empty", 0, &err), STATUS_OK);
    assert_string_equal(text.at, "");
    put("pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
    refused(file_read(&text, arena, "pointer", 99, &err), STATUS_INVALID, &err,
            "pointer is a Git LFS pointer, not the file: run 'git lfs pull' in its folder");
    refused(file_read(&text, arena, "none", 9, &err), STATUS_NOT_FOUND, &err,
            "cannot open none: No such file or directory");
    refused(file_read(&text, arena, "five/six", 9, &err), STATUS_NOT_FOUND, &err,
            "cannot open five/six: Not a directory");
    assert_int_equal(mkdir("folder", 0700), 0);
    refused(file_read(&text, arena, "folder", 9, &err), STATUS_IO, &err,
            "folder is not a regular file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    refused(file_read(&text, arena, "pipe", 9, &err), STATUS_IO, &err,
            "pipe is not a regular file");
    assert_int_equal(symlink("round", "round"), 0);
    refused(file_read(&text, arena, "round", 9, &err), STATUS_IO, &err,
            "cannot open round: Too many levels of symbolic links");
    arena_destroy(arena);
    arena = arena_create(64, 64);
    char long_text[101];
    memset(long_text, 'x', 100);
    long_text[100] = '\0';
    put("long", long_text);
    refused(file_read(&text, arena, "long", 1000, &err), STATUS_NO_MEMORY, &err,
            "no memory for the 100 bytes of long");
    arena_destroy(arena);
}

static void test_missing_folders(void **state)
{
    (void)state;
    static const char *const paths[] = {"Qwen/Qwen3-0.6B", "none",  "a/b/c", "./none",
                                        "/none/here",      "none/", "/none", "with space/name",
                                        "https://host"};
    static const char hint[] = ", or a name of the Hugging Face hub, which has the form ORG/NAME "
                               "(openai-community/gpt2)"; // follows names without a slash, and URLs
    struct error err;
    mkdir("folder", 0700);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char sentence[PATH_BYTES];
        snprintf(sentence, sizeof sentence,
                 "there is no folder %s (No such file or directory): give the path of a model "
                 "folder%s",
                 paths[i], i == 1 || i == 8 ? hint : "");
        refused(folder_check(paths[i], &err), STATUS_NOT_FOUND, &err, sentence);
    }
    refused(folder_check("owner/none.gguf", &err), STATUS_NOT_FOUND, &err,
            "there is no file owner/none.gguf (No such file or directory): give the path of a GGUF "
            "file");
    put("plain", "x");
    refused(folder_check("plain/none.gguf", &err), STATUS_NOT_FOUND, &err,
            "the model file plain/none.gguf cannot be opened: Not a directory");
    assert_int_equal(folder_check("folder", &err), STATUS_OK);
    put("five", "hello");
    refused(folder_check("five/six", &err), STATUS_NOT_FOUND, &err,
            "the model folder five/six cannot be opened: Not a directory");
    char path[FOLDER_BYTES_MAX];
    memset(path, 'x', sizeof path);
    path[FOLDER_BYTES_MAX / 2 + 1] = '\0';
    refused(folder_check(path, &err), STATUS_INVALID, &err,
            "the name of the model folder is too long");
    path[FOLDER_BYTES_MAX / 2] = '\0';
    assert_int_equal(folder_check(path, &err), STATUS_NOT_FOUND);
}

static void test_a_file_is_no_folder(void **state)
{
    (void)state;
    static const struct {
        const char *path, *says;
    } cases[] = {
        {"m.safetensors", "give the folder that holds it, ."},
        {"in/m.safetensors", "give the folder that holds it, in"},
        {"in/pytorch_model.bin", "give the folder that holds it, in"},
        {"in/config.json", "give the folder that holds it, in"},
        {"config.json", "give the folder that holds it, ."},
        {"in/other.txt", "give a folder with config.json, *.safetensors and tokenizer.json, or a "
                         "GGUF file"},
    };
    mkdir("in", 0700);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err;
        char sentence[PATH_BYTES];
        put(cases[i].path, "");
        snprintf(sentence, sizeof sentence, "%s is a file, not a model folder: %s", cases[i].path,
                 cases[i].says);
        refused(folder_check(cases[i].path, &err), STATUS_NOT_FOUND, &err, sentence);
    }
}

static void test_a_file_that_may_not_be_read(void **state)
{
    (void)state;
    struct error err;
    put("locked.gguf", "GGUF");
    assert_int_equal(folder_check("locked.gguf", &err), STATUS_OK);
    assert_int_equal(chmod("locked.gguf", 0) | chmod(".", 0755), 0);
    bool root = geteuid() == 0;
    if (root)
        assert_int_equal(seteuid(65534), 0);
    enum status status = folder_check("locked.gguf", &err);
    if (root)
        assert_int_equal(seteuid(0), 0);
    refused(status, STATUS_NOT_FOUND, &err,
            "the model file locked.gguf cannot be opened: Permission denied");
}

// Files are added one after another; the sentence is that of the first kind found.
static void test_the_contents_of_a_folder_without_weights_are_named(void **state)
{
    (void)state;
    static const char gguf[] = "give the GGUF file itself, holds/%s";
    static const char inside[] = "folders in it are models: give one of them, such as holds/%s";
    static const char other[] =
        "%s is not read, only safetensors and pytorch_model.bin are; convert it once, for example "
        "with transformers: AutoModel...from_pretrained(IN).save_pretrained(OUT)";
    static const char adapter[] = "it is an adapter; merge it into its base model and give that";
    static const char nothing[] = "give a folder with config.json, *.safetensors and "
                                  "tokenizer.json, or a GGUF file";
    static const struct {
        const char *put, *sentence, *word;
    } cases[] = {
        {"notes.txt", nothing, NULL},
        {"model.bin", nothing, NULL},
        {".hidden.gguf", nothing, NULL},
        {"snapshots/b1/config.json", inside, "snapshots/b1"},
        {"snapshots/a1/config.json", inside, "snapshots/a1"},
        {"sub/config.json", inside, "sub"},
        {"snapshots/0/config.json", inside, "sub"},
        {"config.json", nothing, NULL}, // the folder is a model without weights
        {"z.gguf", gguf, "z.gguf"},
        {"b.gguf", gguf, "b.gguf"},
        {"model.onnx", other, "model.onnx"},
        {"flax_model.msgpack", other, "flax_model.msgpack"},
        {"consolidated.00.pth", other, "consolidated.00.pth"},
        {"Z.pt", other, "Z.pt"},
        {"1.tf_model.h5", other, "1.tf_model.h5"},
        {"adapter_config.json", adapter, NULL},
    };
    mkdir("holds", 0700);
    mkdir("holds/sub", 0700);
    mkdir("holds/snapshots", 0700);
    mkdir("holds/snapshots/a1", 0700);
    mkdir("holds/snapshots/b1", 0700);
    mkdir("holds/snapshots/0", 0700);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err;
        char path[PATH_BYTES], says[PATH_BYTES], sentence[2 * PATH_BYTES];
        snprintf(path, sizeof path, "holds/%s", cases[i].put);
        put(path, "{}");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-truncation" // the ASan build assumes a possible NULL
        snprintf(says, sizeof says, cases[i].sentence, cases[i].word);
#pragma GCC diagnostic pop
        bool is_inside = cases[i].sentence == inside;
        snprintf(sentence, sizeof sentence, "holds has no weights%s%s", is_inside ? ", but " : ": ",
                 says);
        refused(folder_lacks("holds", "has no weights", &err), STATUS_NOT_FOUND, &err, sentence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_file_is_read_whole, begin, end),
        cmocka_unit_test_setup_teardown(test_missing_folders, begin, end),
        cmocka_unit_test_setup_teardown(test_a_file_is_no_folder, begin, end),
        cmocka_unit_test_setup_teardown(test_a_file_that_may_not_be_read, begin, end),
        cmocka_unit_test_setup_teardown(test_the_contents_of_a_folder_without_weights_are_named,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
