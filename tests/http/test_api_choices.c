// SPDX-License-Identifier: Apache-2.0
// Several choices in one response, log probabilities, and where generated text ends: chat
// completions against the doubles of exchange and port.
#include "api_cases.h"

#include <math.h>

#define TEST(name) API_TEST(name, fake_setup_generator)
#define PATH "/v1/chat/completions"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

// All chunks of a stream for one choice, joined.
struct told {
    char text[512], token[512], finish[32];
    int roles, ends, entries, usages;
};

static void chunk_read(struct told *t, const json_t *chunk, json_int_t index)
{
    const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta");
    const json_t *content = json_object_get(delta, "content"), *entry;
    size_t i;
    t->usages += json_is_object(json_object_get(chunk, "usage"));
    if (json_integer_value(json_object_get(choice, "index")) != index || !choice)
        return;
    assert_int_equal(t->ends, 0); // nothing follows the end
    t->roles += json_object_get(delta, "role") != NULL;
    if (content)
        strcat(t->text, json_string_value(content));
    json_array_foreach(json_object_get(json_object_get(choice, "logprobs"), "content"), i, entry)
    {
        strcat(t->token, json_string_value(json_object_get(entry, "token")));
        t->entries++;
    }
    if (json_is_string(json_object_get(choice, "finish_reason"))) {
        strcpy(t->finish, json_string_value(json_object_get(choice, "finish_reason")));
        t->ends++;
    }
}

static struct told told_of(int index)
{
    struct told t = {0};
    char *copy = strdup(fake.sent), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "data: {", 7) != 0)
            continue;
        json_t *chunk = json_loads(line + 6, 0, NULL);
        assert_non_null(chunk);
        chunk_read(&t, chunk, index);
        json_decref(chunk);
    }
    free(copy);
    return t;
}

static void text_for(uint32_t choice, const char *text)
{
    fake_choice(choice);
    fake_text(text);
}

static void finish_for(uint32_t choice, enum finish finish, int32_t token)
{
    fake_choice(choice);
    fake_finish(finish, token);
}

TEST(test_choices_of_a_stream)
{
    fake_request(PATH,
                 "{" HI ",\"n\":3,\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    assert_int_equal(fake.choice_count, 3);
    for (int i = 0; i < 3; i++) {
        text_for(2, "c");
        text_for(0, "a");
        fake_ready();
        text_for(1, "b");
    }
    finish_for(1, FINISH_STOP, FAKE_END);
    fake_ready();
    assert_false(fake.ended);
    finish_for(0, FINISH_LENGTH, 'A');
    text_for(2, "cc");
    finish_for(2, FINISH_STOP, FAKE_END);
    fake_ready();
    static const char *const texts[] = {"aaaA", "bbb", "ccccc"};
    for (int i = 0; i < 3; i++) {
        struct told t = told_of(i);
        assert_string_equal(t.text, texts[i]);
        assert_string_equal(t.finish, i == 0 ? "length" : "stop");
        assert_int_equal(t.roles, 1);
        assert_int_equal(t.ends, 1);
        assert_int_equal(t.usages, 1);
    }
    sent_has("\"prompt_tokens\":19,\"completion_tokens\":14,");
    assert_true(fake.ended);
    assert_int_equal(fake.frees, 1);
    assert_int_equal(fake.counted[COUNTED_STOP], 2);
    assert_int_equal(fake.counted[COUNTED_LENGTH], 1);
    assert_int_equal(fake.counted_tokens, 14);
}

TEST(test_choices_of_a_whole_answer)
{
    fake_request(PATH, "{" HI ",\"n\":2}");
    text_for(1, "second");
    text_for(0, "first");
    finish_for(1, FINISH_STOP, FAKE_END);
    fake_ready();
    assert_int_equal(fake.answers, 0);
    finish_for(0, FINISH_STOP, FAKE_END);
    fake_ready();
    json_t *body = fake_json();
    json_t *choices = json_object_get(body, "choices");
    assert_int_equal(json_array_size(choices), 2);
    static const char *const texts[] = {"first", "second"};
    for (size_t i = 0; i < 2; i++) {
        json_t *choice = json_array_get(choices, i);
        assert_int_equal(json_integer_value(json_object_get(choice, "index")), i);
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(choice, "message"), "content")),
            texts[i]);
    }
    json_t *usage = json_object_get(body, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), 13);
    json_decref(body);
}

// A stop string of one choice ends only that choice.
TEST(test_a_stop_string_ends_its_choice)
{
    fake_request(PATH, "{" HI ",\"n\":2,\"stream\":true,\"stop\":\"END\"}");
    text_for(0, "one ");
    text_for(1, "two ENDx");
    fake_ready();
    assert_int_equal(fake.choice_cancels, 1);
    assert_int_equal(fake.choice_cancelled, 1);
    assert_int_equal(fake.cancels, 0);
    assert_int_equal(told_of(1).ends, 1); // without waiting for the engine
    text_for(1, " more");                 // already in the ring when it was cancelled
    text_for(0, "goes on");
    finish_for(1, FINISH_CANCEL, -1);
    fake_ready();
    finish_for(0, FINISH_STOP, FAKE_END);
    fake_ready();
    assert_string_equal(told_of(0).text, "one goes on");
    assert_string_equal(told_of(1).text, "two ");
    assert_string_equal(told_of(1).finish, "stop");
    assert_true(fake.ended);
    assert_int_equal(fake.counted[COUNTED_STOP], 2);
    assert_int_equal(fake.counted[COUNTED_ABORT], 0);
}

// If one choice fails, the request fails: without a stream, and after the first event of a stream.
TEST(test_a_failed_choice_fails_the_request)
{
    for (int stream = 0; stream <= 1; stream++) {
        fake_again();
        fake_request(PATH, stream ? "{" HI ",\"n\":2,\"stream\":true}" : "{" HI ",\"n\":2}");
        text_for(0, "one ");
        finish_for(1, FINISH_ERROR, -1);
        fake_ready();
        assert_int_equal(fake.cancels, 1);
        assert_false(fake.ended);
        finish_for(0, FINISH_CANCEL, -1);
        fake_ready();
        assert_int_equal(fake.status, stream ? 200 : 500);
        sent_has("the model failed on this request");
        sent_lacks("[DONE]");
        sent_lacks("\"finish_reason\":\""); // no choice has a finish reason
        assert_true(fake.ended);
        assert_int_equal(fake.counted[COUNTED_ERROR], 1);
        assert_int_equal(fake.counted[COUNTED_ABORT], 1);
    }
}

TEST(test_a_client_of_many_choices_leaves)
{
    fake_request(PATH, "{" HI ",\"n\":5,\"stream\":true}");
    text_for(3, "x");
    finish_for(1, FINISH_STOP, FAKE_END);
    finish_for(2, FINISH_LENGTH, 'a');
    fake_ready();
    fake_gone();
    assert_int_equal(fake.counted[COUNTED_STOP], 1); // a finished choice stays counted
    assert_int_equal(fake.counted[COUNTED_LENGTH], 1);
    assert_int_equal(fake.counted[COUNTED_ABORT], 3);
}

// Log probabilities

static const struct token_top tops[] = {{'H', -0.125f}, {'J', -2.5f}, {0xC3, -9.0f}};

TEST(test_logprobs_whole)
{
    fake_request(PATH, "{" HI ",\"logprobs\":true,\"top_logprobs\":3}");
    fake_token('H');
    fake_logprob(-0.125f, tops, 3);
    fake_token(0xC3); // the first byte of a character
    fake_logprob(-INFINITY, NULL, 0);
    fake_token(0xA9);
    fake_logprob(0, NULL, 0);
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_has("\"content\":\"H\xC3\xA9\",\"refusal\":null},\"logprobs\":{\"content\":["
             "{\"token\":\"H\",\"logprob\":-0.125,\"bytes\":[72],\"top_logprobs\":["
             "{\"token\":\"H\",\"logprob\":-0.125,\"bytes\":[72]},"
             "{\"token\":\"J\",\"logprob\":-2.5,\"bytes\":[74]},"
             "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-9");
    sent_has("{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-9999.0,"
             "\"bytes\":[195],\"top_logprobs\":[]},"
             "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":0");
    sent_has("\"bytes\":[169],\"top_logprobs\":[]}],\"refusal\":null},"
             "\"finish_reason\":\"stop\"");
}

// Log probabilities are absent if not requested, and empty if there is no text.
TEST(test_logprobs_of_nothing)
{
    fake_request(PATH, "{" HI ",\"logprobs\":true}");
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_has("\"logprobs\":{\"content\":[],\"refusal\":null}");
    fake_again();
    fake_request(PATH, "{" HI ",\"logprobs\":false}");
    fake_text("a");
    fake_logprob(-1, NULL, 0);
    fake_finish(FINISH_STOP, FAKE_END);
    fake_ready();
    sent_has("\"logprobs\":null");
}

// An entry is sent with the last byte of its text. If a possible stop string or an incomplete
// character delays or removes text, its entries are delayed or removed, too.
TEST(test_logprobs_are_held_back)
{
    fake_request(PATH, "{" HI ",\"stream\":true,\"logprobs\":true,\"stop\":\"END\"}");
    fake_text("aE");
    fake_ready();
    assert_string_equal(told_of(0).token, "a");
    fake_text("Nx");
    fake_ready();
    assert_string_equal(told_of(0).token, "aENx");
    fake_token(0xC3);
    fake_ready();
    assert_int_equal(told_of(0).entries, 4);
    fake_token(0xA9);
    fake_ready();
    assert_int_equal(told_of(0).entries, 6);
    fake_token(303); // "xxx"
    fake_text("EN");
    fake_ready();
    assert_int_equal(told_of(0).entries, 7);
    fake_text("D");
    fake_ready();
    finish_for(0, FINISH_CANCEL, -1);
    fake_ready();
    struct told t = told_of(0);
    assert_string_equal(t.text, "aENx\xC3\xA9xxx");
    assert_int_equal(t.entries, 7); // without those of the stop string
    // the chunk that contains the text contains its entries
    sent_has("{\"content\":\"a\"},\"logprobs\":{\"content\":[{\"token\":\"a\"");
}

// A delayed entry keeps all its alternatives.
TEST(test_alternatives_are_held_back)
{
    static const struct token_top others[] = {{'x', -0.25f}, {'Y', -3.5f}, {'Z', -4.5f}};
    fake_request(PATH, "{" HI ",\"stream\":true,\"logprobs\":true,\"top_logprobs\":3,"
                       "\"stop\":\"xyz\"}");
    fake_token('a');
    fake_logprob(-0.125f, tops, 3);
    fake_token('x');
    fake_logprob(-0.25f, others, 3);
    fake_ready();
    assert_string_equal(told_of(0).token, "a");
    fake_text("b");
    fake_ready();
    assert_string_equal(told_of(0).token, "axb");
    sent_has("{\"token\":\"x\",\"logprob\":-0.25,\"bytes\":[120],\"top_logprobs\":["
             "{\"token\":\"x\",\"logprob\":-0.25,\"bytes\":[120]},"
             "{\"token\":\"Y\",\"logprob\":-3.5,\"bytes\":[89]},"
             "{\"token\":\"Z\",\"logprob\":-4.5,\"bytes\":[90]}]}");
}

// The joined bytes of all entries equal the text, however it was drained; special tokens have no
// entries.
TEST(test_logprobs_are_the_text)
{
    static const char text[] = "ab \xC3\xA9 EN\"D\n x";
    for (unsigned cuts = 0; cuts < 1u << (sizeof text - 1); cuts += 11) {
        fake_again();
        fake_request(PATH, "{" HI ",\"stream\":true,\"stop\":\"END\",\"logprobs\":true}");
        for (size_t i = 0; i + 1 < sizeof text; i++) {
            fake_token((unsigned char)text[i]);
            if (i % 5 == 0)
                fake_token(FAKE_END); // here a special token, not the end
            if (cuts >> i & 1)
                fake_ready();
        }
        fake_finish(FINISH_STOP, FAKE_END);
        fake_ready();
        struct told t = told_of(0);
        assert_string_equal(t.text, text);
        assert_int_equal(t.entries, sizeof text - 1);
    }
}

// Entries need many bytes, so a chunk holds few of them.
TEST(test_logprobs_make_small_chunks)
{
    fake_request(PATH, "{" HI ",\"stream\":true,\"logprobs\":true,\"top_logprobs\":3}");
    for (int i = 0; i < 100; i++) {
        fake_token('a');
        fake_logprob(-0.125f, tops, 3);
    }
    fake_finish(FINISH_LENGTH, 'b');
    fake_ready();
    int chunks = 0;
    for (const char *p = fake.sent; (p = strstr(p, "{\"content\":\"a")); p++)
        chunks++;
    assert_true(chunks > 10);
    assert_int_equal(told_of(0).entries, 101);
}

// Where the text ends

TEST(test_the_stop_string_in_the_output)
{
    fake_request(PATH, "{" HI ",\"stop\":[\"END\",\".\"],\"include_stop_str_in_output\":true,"
                       "\"logprobs\":true}");
    fake_text("one EN");
    fake_token('D');
    fake_text("after");
    fake_ready();
    assert_int_equal(fake.choice_cancels, 1);
    fake_finish(FINISH_CANCEL, -1);
    fake_ready();
    sent_has("\"content\":\"one END\"");
    json_t *body = fake_json();
    json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(choice, "logprobs"), "content")), 7);
    json_decref(body);
}

TEST(test_the_end_of_the_output)
{
#define STOP_SHOWN ",\"include_stop_str_in_output\":true"
#define SPECIAL_SHOWN ",\"skip_special_tokens\":false"
#define CONTENT(text) "\"content\":\"" text "\"", "\"completion_tokens\":3,"
    static const struct api_case cases[] = {
        {"a stop id adds no text", NULL, PATH, "{" HI "}", .text = "ab", .finish = FINISH_STOP,
         .last = 'Z', .status = 200, .has = {CONTENT("ab")}},
        {"unless it is requested", NULL, PATH, "{" HI STOP_SHOWN "}", .text = "ab",
         .finish = FINISH_STOP, .last = 'Z', .status = 200, .has = {CONTENT("abZ")}},
        {"the end token adds none", NULL, PATH, "{" HI STOP_SHOWN "}", .text = "ab",
         .finish = FINISH_STOP, .status = 200, .has = {CONTENT("ab")}},
        {"special tokens shown", NULL, PATH, "{" HI SPECIAL_SHOWN "}", .text = "ab",
         .finish = FINISH_STOP, .status = 200, .has = {CONTENT("ab")}},
        {"special tokens and the stop id shown", NULL, PATH, "{" HI STOP_SHOWN SPECIAL_SHOWN "}",
         .text = "ab", .finish = FINISH_STOP, .status = 200, .has = {CONTENT("ab<end>")}},
        {"tokens after a stop string do not count, even if they fit a longer one", NULL, PATH,
         "{" HI ",\"stop\":[\"ab\",\"abcd\"]}", .text = "xabcy", .finish = FINISH_CANCEL,
         .status = 200, .has = {CONTENT("x"), "\"total_tokens\":22,"}},
    };
    API_CASES_RUN(cases);
}

TEST(test_special_tokens_as_text)
{
    fake_request(PATH, "{" HI ",\"skip_special_tokens\":false,\"ignore_eos\":true}");
    fake_text("a");
    fake_token(FAKE_END); // it does not end the answer
    fake_finish(FINISH_LENGTH, 'b');
    fake_ready();
    sent_has("\"content\":\"a<end>b\"");
}

// Stop strings apply from the first token after min_tokens.
TEST(test_stop_strings_after_min_tokens)
{
    fake_request(PATH, "{" HI ",\"stop\":\"x\",\"min_tokens\":4}");
    fake_text("axbxcd");
    fake_ready();
    assert_int_equal(fake.choice_cancels, 0);
    fake_text("ex");
    fake_ready();
    assert_int_equal(fake.choice_cancels, 1);
    fake_finish(FINISH_CANCEL, -1);
    fake_ready();
    sent_has("\"content\":\"axbxcde\"");
}
