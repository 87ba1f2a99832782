// SPDX-License-Identifier: Apache-2.0
// Large bodies are prepared in slices: parsing JSON, checking members, copying a conversation. If
// the client has left, the work ends after the current slice. Slices in templates and tokenizers:
// tests/runtime/test_slices.c.
#include "api_cases.h"

#include "tests/base/counted.h"

#define TEST(name) API_TEST(name, fake_setup_generator)

enum { EACH = 1000, TEXT_BYTES = 100000, PARTS = 1000, IDS = 10000, BODY_MAX = 4 << 20 };

static char body[BODY_MAX];
static size_t body_bytes;

static void put(const char *text)
{
    size_t bytes = strlen(text);
    assert_true(body_bytes + bytes < BODY_MAX);
    memcpy(body + body_bytes, text, bytes + 1);
    body_bytes += bytes;
}

static void put_letters(void)
{
    assert_true(body_bytes + TEXT_BYTES < BODY_MAX);
    memset(body + body_bytes, 'y', TEXT_BYTES);
    body_bytes += TEXT_BYTES;
    body[body_bytes] = '\0';
}

static uint32_t prepare(const char *path, enum model_kind kind, uint32_t stop_at)
{
    fake_end();
    fake_begin(kind);
    fake_facts.max_model_len = 200000;
    fake.slice = counted_begin(EACH, stop_at);
    fake.gone = stop_at > 0; // seen at the end of the current slice
    fake_request(path, body);
    return counted.passes;
}

// least: minimum of counted work besides the bytes, each of which is scanned and parsed.
static void check_slices(const char *path, enum model_kind kind, uint64_t least)
{
    uint32_t all = prepare(path, kind, 0);
    assert_int_equal(fake.answers + fake.submits, 1);
    uint64_t read = body_bytes + 2 * (body_bytes / 8);
    assert_in_range(all, (read + least) / EACH, (read + least) / EACH + all / 8 + 2);
    for (uint32_t stop = 1; stop <= all; stop += 1 + all / 50) {
        assert_int_equal(prepare(path, kind, stop), stop);
        assert_int_equal(fake.answers + fake.submits, 0);
    }
}

TEST(test_one_text)
{
    body_bytes = 0;
    put("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"");
    put_letters();
    put("\"}]}");
    check_slices("/v1/chat/completions", MODEL_GENERATOR, TEXT_BYTES / 4);
}

TEST(test_many_parts)
{
    body_bytes = 0;
    put("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[");
    for (int i = 0; i < PARTS; i++)
        put(i > 0 ? ",{\"type\":\"text\",\"text\":\"a\"}" : "{\"type\":\"text\",\"text\":\"a\"}");
    put("]}]}");
    check_slices("/v1/chat/completions", MODEL_GENERATOR, 2 * PARTS * 64);
}

// Tool call arguments are JSON inside a string and are parsed separately.
TEST(test_arguments)
{
    body_bytes = 0;
    put("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":\\\"");
    put_letters();
    put("\\\"}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"b\"}]}");
    check_slices("/v1/chat/completions", MODEL_GENERATOR, TEXT_BYTES + TEXT_BYTES / 8);
}

TEST(test_blocks)
{
    body_bytes = 0;
    put("{\"model\":\"m\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":[");
    for (int i = 0; i < PARTS; i++)
        put(i > 0 ? ",{\"type\":\"text\",\"text\":\"a\"}" : "{\"type\":\"text\",\"text\":\"a\"}");
    put("]}]}");
    check_slices("/v1/messages", MODEL_GENERATOR, 2 * PARTS * 64);
}

TEST(test_token_ids)
{
    body_bytes = 0;
    put("{\"model\":\"m\",\"input\":[");
    for (int i = 0; i < IDS; i++)
        put(i > 0 ? ",77" : "77");
    put("]}");
    fake_facts.max_model_len = IDS;
    check_slices("/v1/embeddings", MODEL_EMBEDDER, IDS * 4);
}

// An oversized schema is detected after this many bytes are written, not after all of it.
TEST(test_a_schema_that_is_too_large)
{
    body_bytes = 0;
    put("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
        "\"guided_json\":{\"enum\":[");
    for (int i = 0; i < 25; i++) {
        put(i > 0 ? ",\"" : "\"");
        put_letters();
        put("\"");
    }
    put("]}}");
    check_slices("/v1/chat/completions", MODEL_GENERATOR, 10 * TEXT_BYTES); // not the eleventh
    prepare("/v1/chat/completions", MODEL_GENERATOR, 0);
    sent_has("must have at most 1048576 bytes");
}

// A field that the response repeats is written only until its size exceeds the limit.
TEST(test_what_a_response_repeats)
{
    enum { LARGE = 256 * 1024, MEMBERS = 25000 };
    body_bytes = 0;
    put("{\"model\":\"m\",\"input\":\"hi\",\"metadata\":{\"k\":\"");
    for (int i = 0; i < 3; i++)
        put_letters();
    put("\"}}");
    check_slices("/v1/responses", MODEL_GENERATOR, 0); // no letter is copied
    body_bytes = 0;
    put("{\"model\":\"m\",\"input\":\"hi\",\"metadata\":{");
    for (int i = 0; i < MEMBERS; i++) {
        char member[32];
        snprintf(member, sizeof member, "%s\"%d\":123", i > 0 ? "," : "", 100000 + i);
        put(member);
    }
    put("}}");
    check_slices("/v1/responses", MODEL_GENERATOR, LARGE);
}

// Ids are read, checked and detokenized twice; the text is measured, not written.
TEST(test_ids_of_a_text)
{
    body_bytes = 0;
    put("{\"model\":\"m\",\"tokens\":[");
    for (int i = 0; i < IDS; i++)
        put(i > 0 ? ",77" : "77");
    put("]}");
    check_slices("/detokenize", MODEL_GENERATOR, IDS * (4 + 1 + 2 * (1 + 4)));
}

// Ends the request with zeros as values; returns the number of slices.
static uint32_t answer(uint32_t values)
{
    fake.values = calloc(values, sizeof *fake.values);
    fake.slice = counted_begin(EACH, 0);
    fake.offloaded = false;
    fake_finish(FINISH_DONE, -1);
    fake_ready();
    assert_true(fake.offloaded);
    assert_false(fake.job.reads_body);
    return counted.passes;
}

// A response is queued by its own size, not the request's, and written in slices.
TEST(test_answers)
{
    for (int base64 = 0; base64 < 2; base64++) {
        body_bytes = 0;
        put("{\"model\":\"m\",\"input\":[\"a\",\"b\"],\"encoding_format\":");
        put(base64 ? "\"base64\"}" : "\"float\"}");
        prepare("/v1/embeddings", MODEL_EMBEDDER, 0);
        fake_facts.output_width = 50000;
        uint32_t passes = answer(100000);
        assert_in_range(fake.job.bytes, fake.length, 8 * fake.length); // a zero is short
        assert_in_range(passes, fake.length / EACH, 16 * fake.length / EACH);
    }
    body_bytes = 0;
    put("{\"model\":\"m\",\"query\":\"q\",\"return_documents\":true,\"max_tokens_per_doc\":9,"
        "\"documents\":[\"");
    put_letters();
    put("\"]}");
    prepare("/v1/rerank", MODEL_RERANKER, 0);
    assert_in_range(answer(1), TEXT_BYTES / EACH, TEXT_BYTES / EACH + 1);
    assert_in_range(fake.job.bytes, TEXT_BYTES, fake.length);
}

enum { TOKENS = 800, TOPS = 20 };

// Requests a response with many log probabilities, which is offloaded; returns the number of
// slices.
static uint32_t whole_answer(const char *path, const char *members, uint32_t stop_at)
{
    struct token_top tops[TOPS];
    for (int k = 0; k < TOPS; k++)
        tops[k] = (struct token_top){'a' + k, -1.25F};
    body_bytes = 0;
    put("{\"model\":\"m\",");
    put(members);
    put("}");
    prepare(path, MODEL_GENERATOR, 0);
    for (int t = 0; t < TOKENS; t++) {
        fake_token('x');
        fake_logprob(-0.5F, tops, TOPS);
    }
    fake_finish(FINISH_LENGTH, -1);
    fake.offloaded = false;
    fake.slice = counted_begin(EACH, stop_at);
    fake.gone = stop_at > 0;
    fake_ready();
    assert_true(fake.offloaded);
    return counted.passes;
}

// The job is queued by the response's estimated size and measured in slices; it ends early if the
// client leaves.
TEST(test_whole_answers)
{
    static const char *const requests[][2] = {
        {"/v1/chat/completions", "\"logprobs\":true,\"top_logprobs\":20,"
                                 "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"},
        {"/v1/completions", "\"logprobs\":20,\"prompt\":\"hi\""},
        {"/v1/responses", "\"top_logprobs\":20,\"input\":\"hi\""},
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        uint32_t all = whole_answer(requests[i][0], requests[i][1], 0);
        uint64_t least = fake.length / EACH;
        assert_int_equal(fake.sent_bytes, fake.length);
        assert_true(fake.job.answers);
        assert_in_range(fake.job.bytes, fake.length / 2, 16 * fake.length); // names may be short
        assert_in_range(all, least, least + least / 2 + TOKENS / 4);        // each part has a cost
        for (uint32_t stop = 1; stop < all; stop += 1 + all / 10) {
            assert_int_equal(whole_answer(requests[i][0], requests[i][1], stop), stop);
            assert_int_equal(fake.sent_bytes, 0);
        }
    }
}
