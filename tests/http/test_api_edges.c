// SPDX-License-Identifier: Apache-2.0
// Limits and rare cases of the endpoints, against the doubles: the last accepted value and the
// first refused one, each way a request ends and its counter, each refusal of the engine.
#include "api_cases.h"

#include "http/api/pieces.h"

#include <math.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TEST(name) API_TEST(name, fake_setup_generator)
#define CHAT "/v1/chat/completions"
#define MESSAGES "/v1/messages"
#define COMPLETIONS "/v1/completions"
#define COUNT "/v1/messages/count_tokens"
#define EMBEDDINGS "/v1/embeddings"
#define RERANK "/v1/rerank"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

// Sends before, "x" repeated `times` times, and after as one body.
static void request_of(const char *path, const char *before, size_t times, const char *after)
{
    char *body = malloc(strlen(before) + times + strlen(after) + 1);
    strcpy(body, before);
    memset(body + strlen(before), 'x', times);
    strcpy(body + strlen(before) + times, after);
    fake_request(path, body);
    free(body);
}

struct end_case {
    enum finish finish;
    int status; // status if nothing was sent before
    enum http_error error;
    enum counted_finish counted;
    const char *says;
};

// An end with an answer has its finish reason and is counted under it.
TEST(test_ends_with_an_answer)
{
    static const struct {
        const char *more;
        enum finish finish;
        const char *reason;
        enum counted_finish counted;
    } ends[] = {
        {"", FINISH_STOP, "stop", COUNTED_STOP},
        {",\"max_tokens\":5", FINISH_LENGTH, "length", COUNTED_LENGTH},
        {"", FINISH_LENGTH, "length", COUNTED_LENGTH},
        {"", FINISH_CONTEXT, "length", COUNTED_LENGTH},
        {",\"stop\":\"b\"", FINISH_CANCEL, "stop", COUNTED_STOP},
        {",\"stop\":\"b\"", FINISH_ERROR, "stop", COUNTED_STOP}, // found before that
    };
    char body[256], wanted[64];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        fake_again();
        snprintf(body, sizeof body, "{" HI "%s}", ends[i].more);
        fake_request(CHAT, body);
        fake_text("ab");
        fake_finish(ends[i].finish, ends[i].finish == FINISH_STOP ? FAKE_END : -1);
        fake_ready();
        assert_int_equal(fake.status, 200);
        snprintf(wanted, sizeof wanted, "\"finish_reason\":\"%s\"", ends[i].reason);
        sent_has(wanted);
        assert_int_equal(fake.counted[ends[i].counted], 1);
        assert_int_equal(fake.stream_failures, 0);
    }
}

// Parameters that a request omits have the operator's defaults, at each endpoint; values in the
// request have priority.
TEST(test_sampling_of_the_model)
{
    static const struct {
        const char *path, *open, *own;
        uint32_t usual; // tokens
    } cases[] = {
        {CHAT, HI, "\"max_tokens\":3", 200 - 19},
        {"/v1/completions", "\"model\":\"m\",\"prompt\":\"a\"", "\"max_tokens\":3", 16},
        {"/v1/responses", "\"model\":\"m\",\"input\":\"Hi\"", "\"max_output_tokens\":3", 200 - 19},
        {MESSAGES, HI, "\"max_tokens\":3", 200 - 29},
    };
    static const struct model_defaults own = {0.25, 0.5, 7, 0.125, 1.5, 9};
    char body[400];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sampling *got = &fake.sampling;
        snprintf(body, sizeof body, "{%s}", cases[i].open);
        fake_again();
        fake_request(cases[i].path, body);
        assert_true(got->temperature == 1.0f && got->top_p == 1.0f && got->min_p == 0);
        assert_true(got->top_k == 0 && got->repetition == 1.0f);
        if (fake.max_tokens != cases[i].usual)
            fail_msg("%s: %u tokens", cases[i].path, fake.max_tokens);
        fake_again();
        fake_facts.defaults = own;
        fake_request(cases[i].path, body);
        assert_true(got->temperature == 0.25f && got->top_p == 0.5f && got->min_p == 0.125f);
        assert_true(got->top_k == 7 && got->repetition == 1.5f);
        assert_int_equal(fake.max_tokens, 9);
        snprintf(body, sizeof body,
                 "{%s,%s,\"temperature\":1,\"top_p\":0.75,\"top_k\":3,\"min_p\":0,"
                 "\"repeat_penalty\":1}",
                 cases[i].open, cases[i].own);
        fake_again();
        fake_facts.defaults = own;
        fake_request(cases[i].path, body);
        assert_true(got->temperature == 1.0f && got->top_p == 0.75f && got->min_p == 0);
        assert_true(got->top_k == 3 && got->repetition == 1.0f);
        assert_int_equal(fake.max_tokens, 3);
    }
}

// A temperature below 0.00001 is greedy; a top_k above the limit means all tokens.
TEST(test_bounds_of_sampling)
{
    static const struct {
        const char *more;
        float temperature;
        uint32_t top_k;
    } cases[] = {{"\"temperature\":0.00001", 1e-5f, 0},
                 {"\"temperature\":0.0000099", 0, 0},
                 {"\"temperature\":2", 2, 0},
                 {"\"temperature\":1,\"top_k\":1", 1, 1},
                 {"\"temperature\":1,\"top_k\":2147483646", 1, 2147483646},
                 {"\"temperature\":1,\"top_k\":2147483647", 1, 2147483647},
                 {"\"temperature\":1,\"top_k\":2147483648", 1, 2147483647},
                 {"\"temperature\":1,\"top_k\":9223372036854775807", 1, 2147483647}};
    char body[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_again();
        snprintf(body, sizeof body, "{" HI ",%s}", cases[i].more);
        fake_request(CHAT, body);
        if (fake.sampling.temperature != cases[i].temperature ||
            fake.sampling.top_k != cases[i].top_k)
            fail_msg("%s: %g, %u", cases[i].more, (double)fake.sampling.temperature,
                     fake.sampling.top_k);
    }
}

static void stops_request(const char *path, const char *name, int count)
{
    char body[1024];
    int n = sprintf(body, "{" HI ",\"%s\":[\"a\"", name);
    for (int i = 1; i < count; i++)
        n += sprintf(body + n, ",\"a\"");
    strcpy(body + n, "]}");
    fake_again();
    fake_request(path, body);
}

// At most 16 strings on chat, 64 on Messages, each at most 256 bytes.
TEST(test_bounds_of_stops)
{
    stops_request(CHAT, "stop", 16);
    assert_int_equal(fake.submits, 1);
    stops_request(CHAT, "stop", 17);
    assert_int_equal(fake.status, 400);
    sent_has("'stop' must hold at most 16 strings, got 17");
    stops_request(MESSAGES, "stop_sequences", 64);
    assert_int_equal(fake.submits, 1);
    stops_request(MESSAGES, "stop_sequences", 65);
    assert_int_equal(fake.status, 400);
    sent_has("stop_sequences: must hold at most 64 strings, got 65");
    for (int bytes = 256; bytes <= 257; bytes++) {
        fake_again();
        request_of(CHAT, "{" HI ",\"stop\":\"", (size_t)bytes, "\"}");
        assert_int_equal(fake.submits, bytes == 256);
        if (bytes == 257)
            sent_has("'stop' must be at most 256 bytes long, got 257");
    }
    fake_again();
    fake_request(CHAT, "{" HI ",\"stop\":{}}");
    sent_has("'stop' must be a string or an array of strings");
    fake_again();
    fake_request(MESSAGES, "{" HI ",\"stop_sequences\":\"a\"}");
    sent_has("stop_sequences: must be an array of strings");
}

// Events are read while 2 KiB of send space is left; a keep-alive comment needs that space, too.
TEST(test_room_of_a_stream)
{
    fake_request(CHAT, "{" HI ",\"stream\":true}");
    fake_text("a");
    fake_ready();
    fake_text("b");
    fake.send_space = 2047;
    fake_ready();
    assert_int_equal(fake.event_next, 1);
    fake.send_space = 2048;
    fake_ready();
    assert_int_equal(fake.event_next, 2);
    fake_second(100);
    sent_has(": keep-alive");
    size_t bytes = fake.sent_bytes;
    fake.send_space = 2047;
    fake_second(200);
    assert_int_equal(fake.sent_bytes, bytes);
    fake.send_space = 2048;
    fake_second(201);
    assert_true(fake.sent_bytes > bytes);
}

// A chunk holds at most 512 bytes of text and is one event.
TEST(test_size_of_a_chunk)
{
    fake_request(CHAT, "{" HI ",\"stream\":true}");
    for (int i = 0; i < 512; i++)
        fake_token('a');
    fake_ready();
    int chunks = 0;
    for (const char *p = fake.sent; (p = strstr(p, "\"content\":\"a")); p++)
        chunks++;
    assert_int_equal(chunks, 1);
    fake_again();
    fake_request(CHAT, "{" HI ",\"stream\":true}");
    for (int i = 0; i < 513; i++)
        fake_token('a');
    fake_ready();
    chunks = 0;
    for (const char *p = fake.sent; (p = strstr(p, "\"content\":\"a")); p++)
        chunks++;
    assert_int_equal(chunks, 2);
}

// Token counting is not limited by the window and validates the fields that it knows.
TEST(test_counting_beyond_the_window)
{
    request_of(COUNT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"", 500,
               "\"}]}");
    assert_int_equal(fake.status, 200);
    assert_string_equal(fake.sent, "{\"input_tokens\":527}");
    fake_again();
    fake_request(COUNT, "{" HI ",\"temperature\":2}"); // known fields are validated
    assert_int_equal(fake.status, 400);
}

// The stop reason for a full window depends on the API version's date; invalid dates count as
// older.
TEST(test_versions)
{
    static const struct {
        const char *version, *reason;
    } versions[] = {{"2026-10-21", "model_context_window_exceeded"},
                    {"2026-10-20", "max_tokens"},
                    {"2026-10-22", "model_context_window_exceeded"},
                    {"2026-11-01", "model_context_window_exceeded"},
                    {"2025-12-31", "max_tokens"},
                    {"2026-10-211", "max_tokens"},
                    {"2026-10-2", "max_tokens"},
                    {"2026/10/22", "max_tokens"},
                    {"2026-1a-22", "max_tokens"},
                    {"2026+10-22", "max_tokens"},
                    {"9999999999", "max_tokens"},
                    {"x026-10-22", "max_tokens"}};
    char wanted[64];
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        fake_again();
        fake.info.anthropic_version = text_of(versions[i].version);
        fake_request(MESSAGES, "{" HI "}");
        fake_text("a");
        fake_finish(FINISH_CONTEXT, 'b');
        fake_ready();
        snprintf(wanted, sizeof wanted, "\"stop_reason\":\"%s\"", versions[i].reason);
        sent_has(wanted);
    }
}

// Author names, function names and call ids of results reach the template.
TEST(test_names_reach_the_template)
{
    static const char body[] =
        "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\",\"name\":\"boss\"},"
        "{\"role\":\"user\",\"content\":\"u\",\"name\":\"ann\"},"
        "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"function\":{\"name\":\"f\"}},"
        "{\"id\":\"c2\",\"function\":{\"name\":\"g\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"r\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"q\",\"name\":\"ignored\"}]}";
    fake_chat.names = true;
    fake_request(CHAT, body);
    assert_int_equal(fake.submits, 1);
    char *prompt = fake_prompt();
    assert_string_equal(prompt, "[system]<boss>s[user]<ann>u[assistant](f {})(g {})"
                                "[tool]<g>#c2r[tool]<f>#c1q[assistant]");
    free(prompt);
}

// Text that is continued keeps its leading space: in completions, in a continued message, and if
// the plain template puts nothing before it. A new message loses it. Under a grammar, spaces at
// both ends are kept.
TEST(test_spaces_at_the_ends)
{
    static const struct {
        const char *path, *body;
        bool plain;
        const char *want;
    } cases[] = {
#define STRICT ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true}}]"
        {CHAT, HI, false, "\"y\""},
        {CHAT, HI, true, "\" y\""},
        {CHAT,
         "\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"prefix\":true}"
         "]",
         false, "\" y\""},
        {MESSAGES, "\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}]",
         false, "\" y\""},
        {COMPLETIONS, "\"model\":\"m\",\"prompt\":\"a\"", false, "\" y\""},
        {CHAT, HI ",\"guided_regex\":\" y \"", false, "\" y \""},
        {CHAT, HI ",\"guided_choice\":[\" y \"]", false, "\" y \""},
        {CHAT, HI ",\"guided_grammar\":\"root ::= \\\" y \\\"\"", false, "\" y \""},
        {COMPLETIONS, "\"model\":\"m\",\"prompt\":\"a\",\"guided_choice\":[\" y \"]", false,
         "\" y \""},
        {CHAT, HI ",\"guided_choice\":[\" y \"]" STRICT, false, "\" y \""},
        {CHAT, HI STRICT, false, "\"y\""},
    };
    char body[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_plain = cases[i].plain;
        fake_again();
        fake_plain = cases[i].plain;
        if (strstr(cases[i].body, "tools"))
            fake_dialect("hermes", "think");
        snprintf(body, sizeof body, "{%s}", cases[i].body);
        fake_request(cases[i].path, body);
        fake_token(FAKE_SPACE);
        fake_token('y');
        fake_token(FAKE_SPACE);
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
        sent_has(cases[i].want);
    }
}

// The template receives the time; an empty prompt is refused; consecutive assistant messages are
// merged unless the later one has reasoning of its own.
TEST(test_what_templates_are_given)
{
    int64_t before = (int64_t)time(NULL);
    fake_request(CHAT, "{" HI "}");
    assert_in_range(fake_now, before, before + 1000);
    fake_again();
    fake_chat.silent = true;
    fake_request(CHAT, "{" HI "}");
    assert_int_equal(fake.status, 400);
    sent_has("the prompt is empty: it has no tokens");
    fake_chat.silent = false;
    fake_again();
    fake_request(CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"},"
                       "{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"assistant\","
                       "\"content\":\"c\",\"reasoning_content\":\"r\"}]}");
    char *prompt = fake_prompt();
    assert_string_equal(prompt, "[assistant]a\nb[assistant]r/c[assistant]");
    free(prompt);
    fake_again(); // but not over a system message, which becomes text of the user
    fake_chat.system_inside = false;
    fake_request(CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"},"
                       "{\"role\":\"system\",\"content\":\"s\"},"
                       "{\"role\":\"assistant\",\"content\":\"b\"}]}");
    prompt = fake_prompt();
    assert_string_equal(prompt, "[assistant]a[user]s[assistant]b[assistant]");
    free(prompt);
}

// A tool result may follow in a later turn, but only one result per call.
TEST(test_results_of_earlier_calls)
{
    fake_request(CHAT,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"u\"},"
                 "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"function\":{\"name\":"
                 "\"f\"}}]},{\"role\":\"user\",\"content\":\"v\"},"
                 "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"r\"}]}");
    assert_int_equal(fake.submits, 1);
    fake_again();
    fake_request(CHAT,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":"
                 "\"c1\",\"function\":{\"name\":\"f\"}}]},"
                 "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"r\"},"
                 "{\"role\":\"user\",\"content\":\"v\"},"
                 "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"r\"}]}");
    assert_int_equal(fake.status, 400);
    sent_has(
        "'messages[3].tool_call_id' must not answer a tool call twice; 'c1' has a result already");
}

// The log line names the ignored fields; the process's first one is logged at level info.
TEST(test_ignored_fields_are_named)
{
    char text[2][1024];
    for (int before = 0; before < 2; before++) {
        int kept = dup(STDERR_FILENO), file = memfd_create("log", MFD_CLOEXEC);
        assert_true(kept >= 0 && file >= 0);
        fake_again();
        fake.ignored_before = (uint64_t)before;
        fflush(stderr);
        dup2(file, STDERR_FILENO);
        fake_request(CHAT, "{" HI ",\"zebra\":1,\"stream_options\":{\"yak\":1}}");
        dup2(kept, STDERR_FILENO);
        close(kept);
        ssize_t got = pread(file, text[before], sizeof text[before] - 1, 0);
        text[before][got > 0 ? got : 0] = '\0';
        close(file);
        assert_int_equal(fake.ignored_fields, 2);
    }
    assert_non_null(strstr(text[0], " info ignored unknown request fields: "));
    assert_non_null(strstr(text[0], "zebra"));
    assert_non_null(strstr(text[0], "stream_options.yak"));
    assert_non_null(strstr(text[0], "counted in weft_fields_ignored_total"));
    assert_string_equal(text[1], ""); // at level debug
}

TEST(test_kinds_of_models)
{
    static const struct {
        enum model_kind kind;
        const char *path, *more, *says;
    } cases[] = {
        {MODEL_EMBEDDER, CHAT, "\"messages\":[]",
         "the model 'm' does not support generation; it is an embedding model: use /v1/embeddings"},
        {MODEL_RERANKER, MESSAGES, "\"messages\":[]",
         "the model 'm' does not support generation; it is a reranking model: use /v1/rerank"},
        {MODEL_GENERATOR, EMBEDDINGS, "\"input\":\"a\"",
         "the model 'm' does not support embeddings; it is a generation model: use "
         "/v1/chat/completions, /v1/completions, /v1/responses or /v1/messages"},
        {MODEL_RERANKER, EMBEDDINGS, "\"input\":\"a\"",
         "the model 'm' does not support embeddings; it is a reranking model: use /v1/rerank"},
        {MODEL_EMBEDDER, RERANK, "\"query\":\"a\"",
         "the model 'm' does not support reranking; it is an embedding model: use /v1/embeddings"},
    };
    char body[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_end();
        fake_begin(cases[i].kind);
        snprintf(body, sizeof body, "{\"model\":\"m\",%s}", cases[i].more);
        fake_request(cases[i].path, body);
        assert_int_equal(fake.status, 400);
        sent_has(cases[i].says);
    }
    fake_again();
    request_of(RERANK, "{\"model\":\"", 300, "\"}");
    assert_int_equal(fake.status, 404);
    const char *name = strstr(fake.sent, "xxx"); // cut at 200 bytes
    assert_int_equal(strspn(name, "x"), 200);
}

// Inputs that fill the window and ids below the vocabulary's size pass; one more of either is
// refused.
TEST(test_bounds_of_inputs)
{
    for (int bytes = 198; bytes <= 199; bytes++) { // plus two special tokens
        fake_end();
        fake_begin(MODEL_EMBEDDER);
        request_of(EMBEDDINGS, "{\"model\":\"m\",\"input\":\"", (size_t)bytes, "\"}");
        assert_int_equal(fake.submits, bytes == 198);
        if (bytes == 198)
            assert_int_equal(fake.token_count, 200);
    }
    for (int bytes = 200; bytes <= 201; bytes++) {
        fake_again();
        request_of(EMBEDDINGS, "{\"model\":\"m\",\"add_special_tokens\":false,\"input\":\"",
                   (size_t)bytes, "\"}");
        assert_int_equal(fake.submits, bytes == 200);
    }
    static const char *const ids[] = {"[0,1999]", "[0,2000]", "[0,-1]"};
    char body[2048];
    for (int i = 0; i < 3; i++) {
        fake_again();
        snprintf(body, sizeof body, "{\"model\":\"m\",\"input\":%s}", ids[i]);
        fake_request(EMBEDDINGS, body);
        assert_int_equal(fake.submits, i == 0);
        if (i > 0)
            sent_has(i == 1
                         ? "'input[1]' must be a token id below 2000, got 2000; ids belong to this "
                           "model's tokenizer: if they are from another one, send texts"
                         : "'input[1]' must be a token id below 2000, got -1");
    }
    for (int count = 200; count <= 202; count++) { // ids: unchanged, or truncated if requested
        fake_again();
        int n = sprintf(body, "{\"model\":\"m\",\"input\":[1");
        for (int i = 1; i < (count < 202 ? count : 201); i++)
            n += sprintf(body + n, ",2");
        strcpy(body + n, count < 202 ? "]}" : "],\"truncate\":true}");
        fake_request(EMBEDDINGS, body);
        assert_int_equal(fake.submits, count != 201);
        if (count == 201)
            sent_has("resulted in 201 tokens");
        else
            assert_int_equal(fake.token_count, 200);
    }
}

TEST(test_cut_inputs)
{
    static const struct {
        const char *more;
        uint32_t tokens;
    } cases[] = {{"1", 1},
                 {"2", 2},
                 {"3", 3},
                 {"199", 199},
                 {"200", 200},
                 {"201", 200},
                 {"9223372036854775807", 200},
                 {"-1", 200}};
    char after[96];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_end();
        fake_begin(MODEL_EMBEDDER);
        snprintf(after, sizeof after, "\",\"truncate_prompt_tokens\":%s}", cases[i].more);
        request_of(EMBEDDINGS, "{\"model\":\"m\",\"input\":\"", 250, after);
        assert_int_equal(fake.submits, 1);
        assert_int_equal(fake.token_count, cases[i].tokens);
        if (cases[i].tokens > 2) { // special tokens remain if there is space for text between them
            assert_int_equal(fake.tokens[0], FAKE_BOS);
            assert_int_equal(fake.tokens[cases[i].tokens - 1], FAKE_SEP);
            assert_int_equal(fake.tokens[cases[i].tokens - 2], 'x');
        }
    }
}

// Up to 4,096 values are sent at once; a text worker measures larger responses, queued by their
// size.
TEST(test_answers_of_many_values)
{
    for (int turn = 0; turn < 3; turn++) {
        uint32_t width = turn == 0 ? 4096 : 4097;
        fake_end();
        fake_begin(MODEL_EMBEDDER);
        fake_facts.output_width = width;
        fake_request(EMBEDDINGS, turn == 2 ? "{\"model\":\"m\",\"input\":\"a\","
                                             "\"encoding_format\":\"base64\"}"
                                           : "{\"model\":\"m\",\"input\":\"a\"}");
        fake.values = calloc(width, sizeof(float));
        fake.send_space = 1 << 20;
        fake_finish(FINISH_DONE, -1);
        fake_ready();
        assert_int_equal(fake.offloaded, turn > 0);
        assert_int_equal(fake.status, 200);
        if (turn > 0) {
            assert_int_equal(fake.job.bytes, width * (turn == 1 ? 12 : 6));
            assert_false(fake.job.reads_body);
            assert_int_equal(fake.length, fake.sent_bytes);
        }
    }
    fake_end(); // values that are not finite are detected on the worker, too
    fake_begin(MODEL_EMBEDDER);
    fake_facts.output_width = 4097;
    fake_request(EMBEDDINGS, "{\"model\":\"m\",\"input\":\"a\"}");
    fake.values = calloc(4097, sizeof(float));
    fake.values[4096] = INFINITY;
    fake_finish(FINISH_DONE, -1);
    fake_ready();
    assert_int_equal(fake.status, 500);
    assert_int_equal(fake.error, HTTP_INTERNAL_SAME);
    assert_int_equal(fake.frees, 1);
}

// Base64 for each number of remaining bytes, computed separately.
TEST(test_base64_of_each_width)
{
    static const char *const wanted[] = {"AACAPw==", "AACAPwAAAEA=", "AACAPwAAAEAAAEBA"}; // 1 2 3
    char text[64];
    for (uint32_t width = 1; width <= 3; width++) {
        fake_end();
        fake_begin(MODEL_EMBEDDER);
        fake_facts.output_width = width;
        fake_request(EMBEDDINGS,
                     "{\"model\":\"m\",\"input\":\"a\",\"encoding_format\":\"base64\"}");
        fake.values = malloc(width * sizeof(float));
        for (uint32_t i = 0; i < width; i++)
            fake.values[i] = (float)(i + 1);
        fake_finish(FINISH_DONE, -1);
        fake_ready();
        snprintf(text, sizeof text, "\"embedding\":\"%s\"}", wanted[width - 1]);
        sent_has(text);
    }
}

TEST(test_ends_of_pooling)
{
    static const struct end_case ends[] = {
        {FINISH_CANCEL, 503, HTTP_UNAVAILABLE, COUNTED_ABORT, "the server ended the request"},
        {FINISH_TIMEOUT, 504, HTTP_TIMEOUT, COUNTED_ERROR,
         "the request waited in the queue past its deadline"},
        {FINISH_ERROR, 500, HTTP_INTERNAL, COUNTED_ERROR, "the model failed on this request"},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (int turn = 0; turn < 2; turn++) {
            fake_end();
            fake_begin(turn == 0 ? MODEL_EMBEDDER : MODEL_RERANKER);
            fake_request(turn == 0 ? EMBEDDINGS : RERANK,
                         turn == 0 ? "{\"model\":\"m\",\"input\":\"a\"}"
                                   : "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"]}");
            fake_ready(); // the engine has no result yet
            assert_int_equal(fake.answers, 0);
            fake_finish(ends[i].finish, -1);
            fake_ready();
            fake_ready();
            assert_int_equal(fake.status, ends[i].status);
            assert_int_equal(fake.error, ends[i].error);
            assert_int_equal(fake.answers, 1);
            assert_int_equal(fake.frees, 1);
            sent_has(ends[i].says);
            for (int c = 0; c < COUNTED_FINISH_COUNT; c++)
                assert_int_equal(fake.counted[c], c == (int)ends[i].counted);
        }
}

// A thousand documents and a query of maximum length pass; a pair that just fits is not truncated.
TEST(test_bounds_of_documents)
{
    static char body[16384];
    fake_end();
    fake_begin(MODEL_RERANKER);
    int n = sprintf(body, "{\"model\":\"m\",\"query\":\"q\",\"documents\":[\"a\"");
    for (int i = 1; i < 1000; i++)
        n += sprintf(body + n, ",\"a\"");
    strcpy(body + n, "]}");
    fake_request(RERANK, body);
    assert_int_equal(fake.submits, 1);
    assert_int_equal(fake.sequence_count, 1000);
    for (int bytes = 196; bytes <= 197; bytes++) { // ^q$ and $ are four of 200 tokens
        fake_again();
        request_of(RERANK, "{\"model\":\"m\",\"query\":\"q\",\"truncate\":false,\"documents\":[\"",
                   (size_t)bytes, "\"]}");
        assert_int_equal(fake.submits, bytes == 196);
        if (bytes == 196)
            assert_int_equal(fake.token_count, 200);
    }
    fake_again();
    request_of(RERANK, "{\"model\":\"m\",\"documents\":[\"b\"],\"query\":\"", 3200, "\"}");
    sent_lacks("bytes long"); // 16 bytes per token of the window: the token count decides
}

// Documents up to 32 KiB are returned with the scores; a text worker writes larger ones.
TEST(test_answers_of_large_documents)
{
    const float score = 1;
    for (size_t bytes = 32768; bytes <= 32769; bytes++) {
        fake_end();
        fake_begin(MODEL_RERANKER);
        fake_facts.max_model_len = 100000;
        request_of(RERANK,
                   "{\"model\":\"m\",\"query\":\"q\",\"return_documents\":true,"
                   "\"max_tokens_per_doc\":9,\"documents\":[\"",
                   bytes, "\"]}");
        fake.offloaded = false;
        fake.send_space = 1 << 20;
        fake.values = malloc(sizeof score);
        memcpy(fake.values, &score, sizeof score);
        fake_finish(FINISH_DONE, -1);
        fake_ready();
        assert_int_equal(fake.offloaded, bytes == 32769);
        if (bytes == 32769)
            assert_int_equal(fake.job.bytes, 32769);
        assert_int_equal(fake.status, 200);
    }
}
