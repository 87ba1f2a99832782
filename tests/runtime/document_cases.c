// SPDX-License-Identifier: Apache-2.0
// See document_cases.h.
#include "tests/runtime/document_cases.h"

#include "base/arena.h"
#include "runtime/source/gguf_documents.h"
#include "tests/runtime/gguf_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const kinds[] = {"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                    "bool", "text", "array", "u64", "i64", "f64"};

static void put_value(struct gguf_bytes *to, uint32_t kind, const char *value)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    double number = strtod(value, NULL);
    float single = (float)number;
    if (kind == 8)
        gguf_put_text(to, value);
    else if (kind == 12)
        gguf_put(to, &number, sizeof number);
    else if (kind == 6)
        gguf_put(to, &single, sizeof single);
    else
        gguf_put_number(to, (uint64_t)(int64_t)number, bytes[kind]);
}

// Adds an array: "texts a b", "f32s 1 2", "i32s 1 2".
static void put_array(struct gguf_build *b, const char *key, uint32_t item, char *value)
{
    struct gguf_bytes items = {NULL, 0};
    uint64_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(value, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        put_value(&items, item, word);
        count++;
    }
    gguf_key(b, key, 9);
    gguf_put_number(&b->keys, item, 4);
    gguf_put_number(&b->keys, count, 8);
    gguf_put(&b->keys, items.at, items.bytes);
    heap_free(items.at);
}

static void put_tensor(struct gguf_build *b, const char *name, const char *value)
{
    static float data[4096];
    uint64_t shape[2] = {1, 1};
    float each = 0;
    int dims = sscanf(value, "%f %lu %lu", &each, &shape[0], &shape[1]) - 1;
    uint64_t count = shape[0] * shape[1];
    assert_true(dims > 0 && count <= 4096);
    for (uint64_t i = 0; i < count; i++)
        data[i] = each;
    gguf_tensor_add(b, name, shape, (uint32_t)dims, 0, data, count * sizeof *data);
}

static void put_line(struct gguf_build *b, const char *line, size_t bytes)
{
    char text[NAME_MAX_BYTES], name[NAME_MAX_BYTES], kind[16];
    int used = 0;
    snprintf(text, sizeof text, "%.*s", (int)bytes, line);
    assert_int_equal(sscanf(text, "%2047s %15s%n", name, kind, &used), 2);
    char *value = text + used + (text[used] == ' ');
    if (strcmp(kind, "tensor") == 0) {
        put_tensor(b, name, value);
        return;
    }
    for (uint32_t k = 0; k < 13; k++) {
        size_t length = strlen(kinds[k]);
        if (strncmp(kind, kinds[k], length) != 0)
            continue;
        if (kind[length] == 's') {
            put_array(b, name, k, value);
        } else if (kind[length] == '\0') {
            gguf_key(b, name, k);
            put_value(&b->keys, k, value);
        }
    }
}

static void put_lines(struct gguf_build *b, const char *lines)
{
    for (const char *at = lines; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        put_line(b, at, bytes);
        at += bytes + (at[bytes] == '\n');
    }
}

// Returns true if one of the lines defines the key.
static bool gives(const char *lines, const char *key)
{
    size_t bytes = strlen(key);
    for (const char *at = strstr(lines, key); at; at = strstr(at + 1, key))
        if ((at == lines || at[-1] == '\n') && at[bytes] == ' ')
            return true;
    return false;
}

static struct gguf_bytes file_make(const struct document_case *c)
{
    static const char *const all[][2] = {
        {"embedding_length", "u32 64"},    {"block_count", "u32 2"},
        {"attention.head_count", "u32 4"}, {"context_length", "u32 128"},
        {"feed_forward_length", "u32 96"},
    };
    struct gguf_build b = {.key_count = 0};
    char line[256], key[128];
    bool bert = strcmp(c->family, "bert") == 0;
    gguf_key_text(&b, "general.architecture", c->family);
    for (int i = 0; i < 6; i++) {
        const char *rest = i < 5  ? all[i][0]
                           : bert ? "attention.layer_norm_epsilon"
                                  : "attention.layer_norm_rms_epsilon";
        snprintf(key, sizeof key, "%s.%s", c->family, rest);
        snprintf(line, sizeof line, "%s %s", key, i < 5 ? all[i][1] : "f32 0.5");
        if (!gives(c->lines, key))
            put_line(&b, line, strlen(line));
    }
    if (!gives(c->lines, "tokenizer.ggml.tokens"))
        put_lines(&b, "tokenizer.ggml.tokens texts a b c");
    put_lines(&b, c->lines);
    return gguf_finish(&b);
}

static bool is_wanted(const char *wanted, enum status status, const char *out, const char *message)
{
    if (wanted[0] == '!')
        return status != STATUS_OK && strstr(message, wanted + 1);
    if (wanted[0] == '=')
        return status == STATUS_OK && strcmp(out, wanted + 1) == 0;
    return status == STATUS_OK && strstr(out, wanted);
}

void cases_check(const struct document_case *cases, size_t count)
{
    uint32_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const struct document_case *c = &cases[i];
        struct gguf_bytes bytes = file_make(c);
        struct arena *arena = arena_create(0, 0);
        struct json_buffer out = {0};
        const struct gguf_output output = {&out, 1 << 20, arena};
        struct gguf file;
        struct error err = {.status = STATUS_OK};
        enum status status = gguf_parse(&file, arena, text_span(bytes.at, bytes.bytes), "m", &err);
        if (status == STATUS_OK)
            status = gguf_document(&output, &file, c->document, &err);
        json_put_raw(&out, text_span("", 1));
        if (!is_wanted(c->wanted, status, out.at, err.text)) {
            print_error("%s %s\n%s\n  wanted %s\n  got %s\n", c->family, c->document, c->lines,
                        c->wanted, status == STATUS_OK ? out.at : err.text);
            wrong++;
        }
        json_buffer_free(&out);
        arena_destroy(arena);
        heap_free(bytes.at);
    }
    assert_int_equal(wrong, 0);
}
