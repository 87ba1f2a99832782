// SPDX-License-Identifier: Apache-2.0
// One response of each dialect through the complete pipeline: tokens of arbitrary bytes through the
// real detokenizer, the reply reader, stop strings, log probabilities and the writers of chat,
// Messages and Responses, streamed and not. Text, thoughts and calls do not depend on how the bytes
// are split into tokens or when they are read, and everything sent is valid UTF-8 and JSON.
#include "api_cases.h"

#include "base/utf8.h"
#include "http/api/fields.h"
#include "tests/runtime/dialect_rig.h"
#include "tests/runtime/dialect_walk.h"

#define TEST(name) API_TEST(name, NULL)
#define PARAMETERS                                                                                 \
    "{\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\",\"minLength\":2,"             \
    "\"maxLength\":9},\"n\":{\"type\":\"integer\",\"minimum\":-9,\"maximum\":99},\"l\":{"          \
    "\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":3},\"maxItems\":2}},"         \
    "\"required\":[\"s\",\"n\"],\"additionalProperties\":false}"
#define TOOLS(strict)                                                                              \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\"," strict "\"parameters\":" PARAMETERS    \
    "}}]"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define CHAT HI ",\"tools\":" TOOLS("")
#define MESSAGES                                                                                   \
    HI ",\"max_tokens\":3000,\"thinking\":{\"type\":\"adaptive\"},\"tools\":[{\"name\":\"f\","     \
       "\"input_schema\":" PARAMETERS "}]"
#define RESPONSES                                                                                  \
    "\"model\":\"m\",\"input\":\"hi\",\"tools\":[{\"type\":\"function\",\"name\":\"f\","           \
    "\"parameters\":" PARAMETERS "}]"
// "Zwölf (a face) Äpfel", and a stop string within it.
#define TEXT "Zw\xC3\xB6lf \xF0\x9F\x98\x80 \xC3\x84pfel"
#define STOP "\xF0\x9F\x98\x80 \xC3\x84"
#define BEFORE_STOP "Zw\xC3\xB6lf "
#define THOUGHT "Hm \xE2\x82\xAC\xF0\x9F\x98\x80."

enum { CUTS = 12, PIECES_MAX = 4000 };

static const struct form {
    const char *path, *body;
    bool stream, stops, logprobs;
} forms[] = {
    {"/v1/chat/completions", CHAT, false, false, false},
    {"/v1/chat/completions", CHAT ",\"stream\":true", true, false, false},
    {"/v1/messages", MESSAGES, false, false, false},
    {"/v1/messages", MESSAGES ",\"stream\":true", true, false, false},
    {"/v1/responses", RESPONSES, false, false, false},
    {"/v1/responses", RESPONSES ",\"stream\":true", true, false, false},
    {"/v1/chat/completions", CHAT ",\"stream\":true,\"stop\":\"" STOP "\"", true, true, false},
    {"/v1/messages", MESSAGES ",\"stream\":true,\"stop_sequences\":[\"" STOP "\"]", true, true,
     false},
    {"/v1/chat/completions", CHAT ",\"logprobs\":true", false, false, true},
    {"/v1/chat/completions", CHAT ",\"stream\":true,\"logprobs\":true", true, false, true},
};

// A response in a form common to all routes.
struct answer {
    struct json_buffer text, thoughts, entries, calls[DIALECT_CALLS_MAX];
    char names[DIALECT_CALLS_MAX][64];
    uint32_t count;
};

static void answer_free(struct answer *a)
{
    for (uint32_t i = 0; i < DIALECT_CALLS_MAX; i++)
        json_buffer_free(&a->calls[i]);
    json_buffer_free(&a->text);
    json_buffer_free(&a->thoughts);
    json_buffer_free(&a->entries);
}

static const json_t *get(const json_t *value, const char *key)
{
    return json_object_get(value, key);
}

static bool is(const json_t *value, const char *key, const char *text)
{
    return text_is(json_text(get(value, key)), text);
}

static void text_add(struct json_buffer *out, const json_t *string)
{
    if (json_is_string(string))
        json_put_raw(out, json_text(string));
}

static void call_add(struct answer *a, const json_t *name)
{
    assert_true(a->count < DIALECT_CALLS_MAX && json_is_string(name));
    snprintf(a->names[a->count++], sizeof a->names[0], "%s", json_string_value(name));
}

static void call_arguments(struct answer *a, const json_t *arguments)
{
    assert_true(a->count > 0);
    text_add(&a->calls[a->count - 1], arguments);
}

// Reads a chat message or a delta.
static void chat_read(struct answer *a, const json_t *choice)
{
    const json_t *message = get(choice, "message") ? get(choice, "message") : get(choice, "delta");
    const json_t *calls = get(message, "tool_calls"), *call, *entry, *byte;
    const json_t *entries = get(get(choice, "logprobs"), "content");
    size_t i, k;
    text_add(&a->text, get(message, "content"));
    text_add(&a->thoughts, get(message, "reasoning_content"));
    json_array_foreach(calls, i, call)
    {
        if (get(call, "id"))
            call_add(a, get(get(call, "function"), "name"));
        call_arguments(a, get(get(call, "function"), "arguments"));
    }
    json_array_foreach(entries, i, entry) json_array_foreach(get(entry, "bytes"), k, byte)
    {
        char c = (char)json_integer_value(byte);
        json_put_raw(&a->entries, text_span(&c, 1));
    }
}

// Reads a block of Messages, or the event that starts one.
static void block_read(struct answer *a, const json_t *block, bool whole)
{
    if (is(block, "type", "tool_use")) {
        call_add(a, get(block, "name"));
        if (whole)
            json_put_value(&a->calls[a->count - 1], get(block, "input"));
    }
    text_add(&a->text, get(block, "text"));
    text_add(&a->thoughts, get(block, "thinking"));
}

static void messages_event(struct answer *a, const json_t *event)
{
    const json_t *delta = get(event, "delta");
    block_read(a, get(event, "content_block"), false);
    text_add(&a->text, get(delta, "text"));
    text_add(&a->thoughts, get(delta, "thinking"));
    if (is(delta, "type", "input_json_delta"))
        call_arguments(a, get(delta, "partial_json"));
}

static void item_read(struct answer *a, const json_t *item)
{
    const json_t *part;
    size_t i;
    if (is(item, "type", "function_call")) {
        call_add(a, get(item, "name"));
        call_arguments(a, get(item, "arguments"));
    }
    json_array_foreach(get(item, "content"), i, part)
    {
        bool thought = is(item, "type", "reasoning");
        text_add(thought ? &a->thoughts : &a->text, get(part, "text"));
    }
}

static void responses_event(struct answer *a, const json_t *event)
{
    if (is(event, "type", "response.output_item.added"))
        item_read(a, get(event, "item"));
    if (is(event, "type", "response.output_text.delta"))
        text_add(&a->text, get(event, "delta"));
    if (is(event, "type", "response.reasoning_text.delta"))
        text_add(&a->thoughts, get(event, "delta"));
    if (is(event, "type", "response.function_call_arguments.delta"))
        call_arguments(a, get(event, "delta"));
}

static void value_read(struct answer *a, const struct form *form, const json_t *value)
{
    const json_t *each;
    size_t i;
    if (strstr(form->path, "chat"))
        json_array_foreach(get(value, "choices"), i, each) chat_read(a, each);
    else if (strstr(form->path, "messages") && form->stream)
        messages_event(a, value);
    else if (strstr(form->path, "messages"))
        json_array_foreach(get(value, "content"), i, each) block_read(a, each, true);
    else if (form->stream)
        responses_event(a, value);
    else
        json_array_foreach(get(value, "output"), i, each) item_read(a, each);
}

// Converts the arguments to one JSON value in a fixed format.
static void calls_normalize(struct answer *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        struct error err;
        json_t *value;
        struct text text = text_span(a->calls[i].at, a->calls[i].bytes);
        if (json_parse(&value, text, &err) != STATUS_OK)
            fail_msg("arguments '%.*s': %s", (int)text.bytes, text.at, err.text);
        a->calls[i].bytes = 0;
        json_put_value(&a->calls[i], value);
        json_decref(value);
    }
}

// Reads everything that was sent: valid UTF-8, and JSON in each event line.
static void sent_read(struct answer *a, const struct form *form)
{
    *a = (struct answer){0};
    assert_int_equal(fake.status, 200);
    assert_true(fake.ended);
    if (!form->stream) {
        json_t *whole = fake_json();
        value_read(a, form, whole);
        json_decref(whole);
    }
    char *copy = strdup(fake.sent), *rest = copy;
    for (char *line; form->stream && (line = strsep(&rest, "\n"));) {
        assert_int_equal(utf8_valid_prefix(text_of(line)), strlen(line));
        if (strncmp(line, "data: {", 7) != 0)
            continue;
        json_t *event = json_loads(line + 6, JSON_ALLOW_NUL, NULL);
        assert_non_null(event);
        value_read(a, form, event);
        json_decref(event);
    }
    free(copy);
    calls_normalize(a);
}

// The text as tokens

struct cut_text {
    int32_t tokens[PIECES_MAX];
    uint32_t count;
};

static struct cut_text cut_texts[CUTS];

// Returns the code point that byte-level tokenizer files use for a byte.
static uint32_t byte_name(uint32_t byte)
{
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; b++) {
        bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte)
            return shown ? b : next;
        next += !shown;
    }
    return 0;
}

static void piece_name(struct text piece, struct json_buffer *out)
{
    out->bytes = 0;
    for (size_t i = 0; i < piece.bytes; i++) {
        uint32_t c = byte_name((unsigned char)piece.at[i]);
        char two[2] = {(char)(0xC0 | c >> 6), (char)(0x80 | (c & 0x3F))};
        char one = (char)c;
        json_put_raw(out, c < 128 ? text_span(&one, 1) : text_span(two, 2));
    }
}

// Returns the id of a piece; a new piece gets the next id.
static int32_t piece_id(json_t *vocab, json_t *specials, struct text piece, bool special)
{
    struct json_buffer name = {0};
    json_t *table = special ? specials : vocab;
    if (special)
        json_put_raw(&name, piece);
    else
        piece_name(piece, &name);
    const json_t *id = json_object_getn(table, name.at, name.bytes);
    if (!id) {
        size_t next = json_object_size(vocab) + json_object_size(specials);
        json_object_setn_new(table, name.at, name.bytes, json_integer((json_int_t)next));
        id = json_object_getn(table, name.at, name.bytes);
    }
    json_buffer_free(&name);
    return (int32_t)json_integer_value(id);
}

// Splits the text into pieces. cut 0: as few pieces as possible; 1: single bytes; else pieces of at
// most `cut` bytes.
static void text_cut(json_t *vocab, json_t *specials, const struct written *w, uint32_t cut,
                     uint64_t *seed)
{
    struct cut_text *t = &cut_texts[cut];
    t->count = 0;
    for (size_t at = 0, end; at < w->text.bytes; at = end) {
        bool special = w->special.at[at] != 0;
        size_t most = cut == 0 ? SIZE_MAX : cut == 1 ? 1 : 1 + walk_random(seed, 1 + 3 * cut);
        for (end = at + 1; end < w->text.bytes; end++)
            if (w->special.at[end] != (special ? 1 : 0) || (!special && end - at >= most))
                break;
        struct text piece = text_span(w->text.at + at, end - at);
        assert_true(t->count < PIECES_MAX);
        t->tokens[t->count++] = piece_id(vocab, specials, piece, special);
    }
}

static struct tokenizer *tokenizer_of(json_t *vocab, json_t *specials)
{
    json_t *added = json_array(), *id;
    const char *content;
    json_object_foreach(specials, content, id)
        json_array_append_new(added, json_pack("{s:O, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id,
                                               "content", content, "special", 1, "normalized", 0,
                                               "lstrip", 0, "rstrip", 0, "single_word", 0));
    const char *level = "{s:s, s:b, s:b, s:b}";
    json_t *file = json_pack("{s:s, s:o, s:n, s:o, s:n, s:o, s:{s:s, s:O, s:[]}}", "version", "1.0",
                             "added_tokens", added, "normalizer", "pre_tokenizer",
                             json_pack(level, "type", "ByteLevel", "add_prefix_space", 0,
                                       "trim_offsets", 1, "use_regex", 0),
                             "post_processor", "decoder",
                             json_pack(level, "type", "ByteLevel", "add_prefix_space", 0,
                                       "trim_offsets", 1, "use_regex", 0),
                             "model", "type", "BPE", "vocab", vocab, "merges");
    return rig_tokenizer_of(file);
}

// One answer

static void complain(const struct subject *s, const struct form *form, uint32_t cut,
                     const struct written *w, const struct answer *a, const char *what)
{
    const struct json_buffer *args = &a->calls[0];
    fail_msg("%s%s, %s%s, cut %u: %s\n%.*s\ntext '%.*s'\nthoughts '%.*s'\n%u calls, first %.*s",
             dialect_name(&s->d), s->tokenizer ? " (special)" : "", form->path,
             form->stream ? " streamed" : "", cut, what, (int)w->text.bytes, w->text.at,
             (int)a->text.bytes, a->text.at, (int)a->thoughts.bytes, a->thoughts.at, a->count,
             (int)args->bytes, args->at);
}

static void answer_play(const struct subject *s, const struct tokenizer *t, const struct form *form,
                        uint32_t cut, int32_t end, uint64_t *seed)
{
    char body[2048];
    fake_begin(MODEL_GENERATOR);
    fake_facts.max_model_len = 100000;
    fake_facts.vocab = tokenizer_vocab(t);
    fake_dialect_of(t, dialect_name(&s->d), s->reasoning);
    snprintf(body, sizeof body, "{%s}", form->body);
    fake_request(form->path, body);
    assert_int_equal(fake.submits, 1);
    for (uint32_t i = 0; i < cut_texts[cut].count; i++) {
        fake_token(cut_texts[cut].tokens[i]);
        if (walk_random(seed, 3) == 0)
            fake_ready();
    }
    fake_finish(FINISH_STOP, end);
    fake_ready();
}

static bool same(const struct json_buffer *a, const struct json_buffer *b)
{
    return text_equal(text_span(a->at, a->bytes), text_span(b->at, b->bytes));
}

// Describes the first difference between a and first; NULL: none.
static const char *difference(const struct answer *a, const struct answer *first,
                              const struct form *form)
{
    if (!same(&a->thoughts, &first->thoughts))
        return "other thoughts";
    if (form->stops)
        return text_is(text_span(a->text.at, a->text.bytes), BEFORE_STOP) && a->count == 0
                   ? NULL
                   : "not ended by the stop string";
    if (!same(&a->text, &first->text))
        return "other text";
    if (form->logprobs && a->text.bytes > 0 &&
        !memmem(a->entries.at, a->entries.bytes, a->text.at, a->text.bytes))
        return "the entries lack the text";
    if (a->count != first->count)
        return "another count of calls";
    for (uint32_t i = 0; i < a->count; i++)
        if (strcmp(a->names[i], first->names[i]) != 0 || !same(&a->calls[i], &first->calls[i]))
            return "another call";
    return NULL;
}

// Compares the answers of all forms and all splits, and returns the first.
static struct answer answers_compare(const struct subject *s, const struct written *w,
                                     bool has_text, uint64_t *seed)
{
    json_t *vocab = json_object(), *specials = json_object();
    struct answer first = {0};
    for (uint32_t byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        piece_id(vocab, specials, text_span(&c, 1), false);
    }
    for (uint32_t cut = 0; cut < CUTS; cut++)
        text_cut(vocab, specials, w, cut, seed);
    for (uint32_t i = BYTES; i < s->count; i++)
        piece_id(vocab, specials, s->specials[i], true);
    int32_t end = piece_id(vocab, specials, text_of("<|over|>"), true);
    struct tokenizer *t = tokenizer_of(vocab, specials);
    json_decref(vocab);
    json_decref(specials);
    for (uint32_t cut = 0; cut < CUTS; cut++)
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            const struct form *form = &forms[f];
            struct answer a;
            if (form->stops && !has_text)
                continue;
            answer_play(s, t, form, cut, end, seed);
            sent_read(&a, form);
            const char *what = cut + f > 0 ? difference(&a, &first, form) : NULL;
            if (what)
                complain(s, form, cut, w, &a, what);
            fake_end();
            if (cut + f == 0)
                first = a;
            else
                answer_free(&a);
        }
    tokenizer_close(t);
    return first;
}

static bool is_bare(const struct subject *s)
{
    return *dialect_syntax(&s->d)->trigger == 0;
}

// Writes thoughts, a text and calls that the dialect's grammar allows.
static bool answer_write(const struct subject *s, const json_t *tools, uint64_t *seed,
                         struct written *w)
{
    struct dialect_reasoning_syntax r = dialect_reasoning_syntax(&s->d);
    struct dialect_grammar_args args = {
        .dialect = &s->d, .tools = tools, .parallel = true, .reasoning = true};
    struct mask_cache *c = subject_cache(s, &args);
    struct matcher m;
    *w = (struct written){0};
    matcher_init(&m, c);
    bool good = subject_write(s, &m, r.open, w) && subject_write(s, &m, THOUGHT, w) &&
                subject_write(s, &m, r.close, w) && (is_bare(s) || subject_write(s, &m, TEXT, w)) &&
                subject_write(s, &m, subject_opening(s), w);
    if (good && strcmp(dialect_name(&s->d), "functionary-v3.2") == 0)
        good = subject_write(s, &m, "f\n", w);
    assert_true(good);
    good = subject_walk(s, &m, seed, w);
    matcher_end(&m);
    mask_cache_destroy(c);
    return good;
}

static uint32_t compared;

static void every_cut(const struct subject *s, uint64_t *seed)
{
    struct error err;
    json_t *tools;
    struct written w;
    if (json_parse(&tools, text_of(TOOLS("\"strict\":true,")), &err) != STATUS_OK)
        fail_msg("%s", err.text);
    bool ended = answer_write(s, tools, seed, &w);
    json_decref(tools);
    if (ended) {
        struct answer a = answers_compare(s, &w, !is_bare(s), seed);
        if (!text_is(text_span(a.thoughts.at, a.thoughts.bytes), THOUGHT) || a.count == 0 ||
            (!is_bare(s) && !text_is(text_span(a.text.at, a.text.bytes), TEXT)))
            complain(s, &forms[0], 0, &w, &a, "not what was written");
        answer_free(&a);
        compared++;
    }
    json_buffer_free(&w.text);
    json_buffer_free(&w.special);
}

TEST(test_every_dialect_however_its_tokens_are_cut)
{
    subject_each(every_cut);
    assert_true(compared >= 56); // of 64; the others do not end
}

// number: replaces '#'.
static void written_add(struct written *w, const char *text, char number)
{
    for (; *text; text++)
        json_put_raw(&w->text, text_span(*text == '#' ? &number : text, 1));
    while (w->special.bytes < w->text.bytes)
        json_put_raw(&w->special, text_span("\0", 1));
}

// If a model thinks between calls, all thoughts are reported, before, between and after the calls.
TEST(test_thoughts_between_calls)
{
    static const char *const names[] = {"hermes", "minimax-m2", "kimi", "glm", "qwen3-coder"};
    static const char *const calls[] = {
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\xC3\xA9\", \"n\": #}}</tool_call>",
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">\xC3\xA9</parameter>\n"
        "<parameter name=\"n\">#</parameter>\n</invoke>\n</minimax:tool_call>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
        "{\"s\": \"\xC3\xA9\", \"n\": #}<|tool_call_end|><|tool_calls_section_end|>",
        "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>\xC3\xA9</arg_value>\n<arg_key>n</arg_key>"
        "\n<arg_value>#</arg_value>\n</tool_call>",
        "<tool_call>\n<function=f>\n<parameter=s>\n\xC3\xA9\n</parameter>\n<parameter=n>\n#\n"
        "</parameter>\n</function>\n</tool_call>"};
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct subject s;
        struct written w = {0};
        subject_open(&s, names[i], false);
        written_add(&w, "<think>First \xF0\x9F\x98\x80.</think>", 0);
        written_add(&w, calls[i], '1');
        written_add(&w, "<think>Then \xE2\x82\xAC.</think>", 0);
        written_add(&w, calls[i], '2');
        written_add(&w, "<think>Over.</think>", 0);
        struct answer a = answers_compare(&s, &w, false, &seed);
        if (a.count != 2 || a.text.bytes > 0 ||
            !text_is(text_span(a.thoughts.at, a.thoughts.bytes),
                     "First \xF0\x9F\x98\x80.Then \xE2\x82\xAC.Over."))
            complain(&s, &forms[0], 0, &w, &a, "not what was written");
        answer_free(&a);
        subject_close(&s);
        json_buffer_free(&w.text);
        json_buffer_free(&w.special);
    }
}
