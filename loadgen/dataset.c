// SPDX-License-Identifier: Apache-2.0
// Prompts of a data set; see content.h. The arena of the set owns the texts, each item its
// messages. Main thread.
#include "loadgen/content.h"

#include "base/file.h"

static const size_t FILE_BYTES_MAX = (size_t)8 << 30;

static void item_add(struct bench_dataset *set, size_t *allocated, struct bench_item item)
{
    set->items = arena_extend(set->arena, set->items, set->count, allocated, sizeof *set->items);
    set->items[set->count++] = item;
}

static json_t *message_make(const char *role, json_t *content)
{
    json_t *message = json_object();
    json_object_set_new(message, "role", json_string(role));
    json_object_set(message, "content", content);
    return message;
}

// Returns the messages of a ShareGPT conversation, if `complete` is not set those before its first
// answer; NULL if it has no turn of a user before an answer.
static json_t *conversation_read(const json_t *turns, bool complete)
{
    static const char *const roles[][2] = {{"human", "user"},
                                           {"user", "user"},
                                           {"system", "system"},
                                           {"gpt", "assistant"},
                                           {"assistant", "assistant"}};
    json_t *messages = json_array(), *turn;
    bool asked = false;
    size_t i;
    json_array_foreach(turns, i, turn)
    {
        const char *from = json_string_value(json_object_get(turn, "from"));
        json_t *value = json_object_get(turn, "value");
        const char *role = NULL;
        for (size_t k = 0; from && k < sizeof roles / sizeof *roles; k++)
            role = strcmp(from, roles[k][0]) == 0 ? roles[k][1] : role;
        bool answer = role && strcmp(role, "assistant") == 0;
        if (!role || !json_is_string(value) || (answer && !(complete && asked)))
            break;
        asked |= strcmp(role, "user") == 0;
        json_array_append_new(messages, message_make(role, value));
    }
    if (asked)
        return messages;
    json_decref(messages);
    return NULL;
}

// Returns the length of the answer that a line gives; 0: none.
static uint32_t output_of(const json_t *row)
{
    static const char *const names[] = {"output_tokens", "output_len", "max_tokens",
                                        "max_completion_tokens"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_int_t n = json_integer_value(json_object_get(row, names[i]));
        if (n > 0 && n <= 1 << 24)
            return (uint32_t)n;
    }
    return 0;
}

// Reads one object. Returns false if it has neither messages nor a prompt nor a conversation.
static bool row_read(struct bench_dataset *set, struct bench_item *out, const json_t *row,
                     bool complete)
{
    *out = (struct bench_item){.output_tokens = output_of(row)};
    json_t *messages = json_object_get(row, "messages");
    const json_t *prompt = json_object_get(row, "prompt");
    prompt = prompt ? prompt : json_object_get(row, "text");
    if (json_array_size(messages) > 0)
        out->messages = json_incref(messages);
    else if (json_is_string(prompt))
        out->text =
            arena_copy(set->arena, text_span(json_string_value(prompt), json_string_length(prompt)))
                .at;
    else
        out->messages = conversation_read(json_object_get(row, "conversations"), complete);
    return out->messages || out->text;
}

static enum status sharegpt_read(struct bench_dataset *set, struct text file,
                                 const struct bench_options *o, struct error *err)
{
    const char *path = o->dataset_path;
    json_t *rows = NULL, *row;
    size_t i, allocated = 0;
    enum status status = json_parse(&rows, file, err);
    if (status != STATUS_OK)
        return error_prefix(err, "%s", path);
    json_array_foreach(rows, i, row)
    {
        struct bench_item item; // published files have conversations without a question
        if (row_read(set, &item, row, o->multi_turn))
            item_add(set, &allocated, item);
    }
    json_decref(rows);
    return STATUS_OK;
}

static enum status lines_read(struct bench_dataset *set, struct text file,
                              const struct bench_options *o, struct error *err)
{
    const char *path = o->dataset_path;
    size_t allocated = 0;
    for (uint32_t number = 1; file.bytes > 0; number++) {
        const char *end = memchr(file.at, '\n', file.bytes);
        size_t bytes = end ? (size_t)(end - file.at) : file.bytes;
        struct text line = text_trim(text_span(file.at, bytes));
        size_t used = bytes + (end != NULL);
        file = text_span(file.at + used, file.bytes - used);
        if (line.bytes == 0 || text_is(line, "\r"))
            continue;
        json_t *row = NULL;
        struct bench_item item;
        enum status status = json_parse(&row, line, err);
        bool good = status == STATUS_OK && row_read(set, &item, row, o->multi_turn);
        json_decref(row);
        if (status != STATUS_OK)
            return error_prefix(err, "%s: line %u", path, number);
        if (!good)
            return error_set(err, STATUS_INVALID,
                             "%s: line %u needs 'messages', 'prompt' or 'conversations'", path,
                             number);
        item_add(set, &allocated, item);
    }
    return STATUS_OK;
}

enum status bench_dataset_open(struct bench_dataset *out, const struct bench_options *o,
                               struct error *err)
{
    const char *path = o->dataset_path;
    struct text file;
    struct arena *content = arena_create(0, 0);
    *out = (struct bench_dataset){.arena = arena_create(0, 0)};
    enum status status = file_read(&file, content, path, FILE_BYTES_MAX, err);
    if (status == STATUS_OK && text_trim(file).bytes > 0 && text_trim(file).at[0] == '[')
        status = sharegpt_read(out, file, o, err);
    else if (status == STATUS_OK)
        status = lines_read(out, file, o, err);
    if (status == STATUS_OK && out->count == 0)
        status = error_set(err, STATUS_INVALID, "%s contains no prompts", path);
    for (uint32_t i = out->count; i > 1; i--) { // Fisher and Yates
        uint32_t other = (uint32_t)(bench_random(o->seed + i) % i);
        struct bench_item item = out->items[i - 1];
        out->items[i - 1] = out->items[other];
        out->items[other] = item;
    }
    arena_destroy(content);
    return status;
}

void bench_dataset_close(struct bench_dataset *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        json_decref(set->items[i].messages);
    if (set->arena)
        arena_destroy(set->arena);
    *set = (struct bench_dataset){0};
}
