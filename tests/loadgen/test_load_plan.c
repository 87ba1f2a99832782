// SPDX-License-Identifier: Apache-2.0
// Arrivals, lengths, data sets and bodies: distributions have their moments, files are read or
// refused with their line, and bodies are JSON of their API.
#include "loadgen/arrivals.h"
#include "loadgen/content.h"
#include "loadgen/conversation.h"
#include "loadgen/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void test_arrivals(void **state)
{
    (void)state;
    static const struct {
        enum bench_arrival_process process;
        double shape, deviation; // deviation: coefficient of variation of the intervals
    } cases[] = {{BENCH_POISSON, 1, 1},
                 {BENCH_CONSTANT, 1, 0},
                 {BENCH_GAMMA, 0.25, 2},
                 {BENCH_GAMMA, 4, 0.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum { COUNT = 20000 };
        struct bench_options o = {.rate = 40,
                                  .process = cases[i].process,
                                  .burstiness = cases[i].shape,
                                  .requests_max = COUNT,
                                  .seconds_max = INFINITY,
                                  .seed = 3};
        struct bench_arrivals a;
        struct bench_arrival arrival;
        bench_arrivals_init(&a, &o, NULL);
        double last = 0, sum = 0, squares = 0;
        for (int k = 0; k < COUNT; k++) {
            assert_true(bench_arrivals_next(&a, &arrival));
            assert_true(arrival.at_s >= last);
            sum += arrival.at_s - last;
            squares += (arrival.at_s - last) * (arrival.at_s - last);
            last = arrival.at_s;
        }
        assert_false(bench_arrivals_next(&a, &arrival));
        double mean = sum / (COUNT - 1);
        double deviation = sqrt(fmax(0, squares / (COUNT - 1) - mean * mean)) / mean;
        assert_true(fabs(mean * 40 - 1) < 0.05);
        assert_true(fabs(deviation - cases[i].deviation) < 0.06 * (1 + cases[i].deviation));
    }
}

static void test_ramp(void **state)
{
    (void)state;
    struct bench_options o = {.rate = 100,
                              .process = BENCH_CONSTANT,
                              .requests_max = 100000,
                              .seconds_max = 20,
                              .ramp_s = 10};
    struct bench_arrivals a;
    struct bench_arrival arrival;
    uint32_t in[20] = {0};
    bench_arrivals_init(&a, &o, NULL);
    while (bench_arrivals_next(&a, &arrival))
        in[arrival.at_s < 20 ? (int)arrival.at_s : 19]++;
    for (int second = 0; second < 20; second++) // 5, 15, 25, ... then 100
        assert_in_range(in[second], (second < 10 ? 10 * second + 5 : 100) - 1,
                        (second < 10 ? 10 * second + 5 : 100) + 1);
}

static void test_lengths(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "0",
                                        "-1",
                                        "x",
                                        "3.5",
                                        "uniform:3",
                                        "uniform:5:3",
                                        "normal:3:",
                                        "normal:-1:2",
                                        "lognormal:a:b",
                                        "99999999",
                                        "uniform:1:2:3"};
    static const struct {
        const char *text;
        double mean, deviation;
    } cases[] = {{"70", 70, 0},
                 {"uniform:10:20", 15, sqrt(120.0 / 12)},
                 {"normal:200:10", 200, 10},
                 {"lognormal:100:0.5", 100 * exp(0.125), 60.4}};
    struct bench_length length;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(bench_length_parse(&length, wrong[i]));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum { COUNT = 50000 };
        double sum = 0, squares = 0;
        assert_true(bench_length_parse(&length, cases[i].text));
        for (int k = 0; k < COUNT; k++) {
            double n = bench_length_draw(&length, 9, (uint64_t)k);
            sum += n;
            squares += n * n;
        }
        double mean = sum / COUNT, deviation = sqrt(fmax(0, squares / COUNT - mean * mean));
        assert_true(fabs(mean / cases[i].mean - 1) < 0.02);
        assert_true(fabs(deviation - cases[i].deviation) <= 0.03 * cases[i].deviation);
    }
}

static void test_goodput(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"ttft", "'ttft'"},
                                           {"ttft:200,tfft:5", "'tfft:5'"},
                                           {"tpot:5,ttft:-5", "'ttft:-5'"},
                                           {"ttft:nan,e2el:3", "'ttft:nan'"},
                                           {"tpot:inf", "'tpot:inf'"},
                                           {"ttft:5;tpot:3,e2el:1", "'ttft:5;tpot:3'"},
                                           {"ttft:5,", "''"},
                                           {"", "''"}};
    struct bench_goodput limits = {.e2el = 7};
    struct error err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(bench_goodput_parse(&limits, wrong[i][0], &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, wrong[i][1]));
    }
    limits = (struct bench_goodput){.e2el = 7};
    assert_int_equal(bench_goodput_parse(&limits, "tpot:0.5,ttft:200", &err), STATUS_OK);
    assert_true(limits.ttft == 200 && limits.tpot == 0.5 && limits.e2el == 7);
}

// Writes a file and returns its path.
static const char *file_of(const char *text)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/test_load_plan_XXXXXX");
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, strlen(text)), (ssize_t)strlen(text));
    close(descriptor);
    return path;
}

// Sends the turns "one" and "three": the second contains the server's answer, not the recorded one.
static void conversation_check(const struct bench_item *item)
{
    struct bench_conversation c = {0};
    assert_false(bench_conversation_next(&c, text_of("nothing was said")));
    bench_conversation_begin(&c, item);
    assert_int_equal(json_array_size(c.messages), 1);
    assert_true(bench_conversation_next(&c, text_of("2\"")));
    char *said = json_dumps(c.messages, JSON_COMPACT);
    assert_string_equal(said, "[{\"role\":\"user\",\"content\":\"one\"},"
                              "{\"role\":\"assistant\",\"content\":\"2\\\"\"},"
                              "{\"role\":\"user\",\"content\":\"three\"}]");
    free(said);
    assert_int_equal(c.turn, 1);
    assert_false(bench_conversation_next(&c, text_of("4")));
    bench_conversation_end(&c);
}

static void test_dataset(void **state)
{
    (void)state;
    struct bench_dataset set;
    struct error err;
    const char *path =
        file_of("[{\"id\":\"x\",\"conversations\":[{\"from\":\"human\",\"value\":\"one\"},"
                "{\"from\":\"gpt\",\"value\":\"two\"},{\"from\":\"human\",\"value\":\"three\"}]},"
                "{\"conversations\":[{\"from\":\"gpt\",\"value\":\"no question\"}]},{\"x\":1}]");
    struct bench_options o = {.dataset_path = path, .seed = 1};
    assert_int_equal(bench_dataset_open(&set, &o, &err), STATUS_OK);
    assert_int_equal(set.count, 1);
    assert_int_equal(json_array_size(set.items[0].messages), 1);
    bench_dataset_close(&set);
    o.multi_turn = true;
    assert_int_equal(bench_dataset_open(&set, &o, &err), STATUS_OK);
    assert_int_equal(set.count, 1);
    conversation_check(&set.items[0]);
    bench_dataset_close(&set);
    unlink(path);
    path = file_of("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":7}\n\n"
                   "{\"prompt\":\"b\\\"\"}\r\n");
    o.dataset_path = path;
    assert_int_equal(bench_dataset_open(&set, &o, &err), STATUS_OK);
    assert_int_equal(set.count, 2);
    const struct bench_item *text = set.items[0].text ? &set.items[0] : &set.items[1];
    const struct bench_item *messages = set.items[0].text ? &set.items[1] : &set.items[0];
    assert_string_equal(text->text, "b\"");
    assert_int_equal(messages->output_tokens, 7);
    bench_dataset_close(&set);
    unlink(path);
    static const char *const wrong[] = {"{\"prompt\":\"a\"}\n{}\n", "", "[]", "x", "{\"prompt\":3}",
                                        "[{\"conversations\":7}]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        path = file_of(wrong[i]);
        o.dataset_path = path;
        assert_int_not_equal(bench_dataset_open(&set, &o, &err), STATUS_OK);
        assert_non_null(strstr(err.text, i == 0 ? "line 2" : path));
        bench_dataset_close(&set);
        unlink(path);
    }
}

// Returns the text of a trace's request as it is sent.
static char *traced_text(const struct bench_trace *trace, size_t index,
                         const struct bench_words *words)
{
    const struct bench_arrival *a = &trace->at[index];
    struct bench_target target = {.api = BENCH_COMPLETIONS, .model = "m", .weight = 1};
    struct bench_options o = {.seed = 4};
    struct bench_request request = {.target = &target,
                                    .seed = 77 + index,
                                    .words = bench_words_for(words, a->input_tokens),
                                    .max_tokens = a->output_tokens,
                                    .hashes = trace->hashes + a->hash_first,
                                    .hash_count = a->hash_count};
    struct json_buffer out = {0};
    json_t *body = NULL;
    bench_body_write(&out, &o, words, &request);
    assert_int_equal(json_parse(&body, json_buffer_text(&out), NULL), STATUS_OK);
    char *text = strdup(json_string_value(json_object_get(body, "prompt")));
    json_decref(body);
    json_buffer_free(&out);
    return text;
}

static uint32_t words_of(const char *text)
{
    uint32_t count = 1;
    for (; *text != '\0'; text++)
        count += *text == ' ';
    return count;
}

// Returns the number of words with which two texts begin alike.
static uint32_t words_shared(const char *a, const char *b)
{
    uint32_t count = 0;
    for (; *a == *b && *a != '\0'; a++, b++)
        count += *a == ' ';
    return count;
}

// Requests whose first prefix blocks have the same ids begin with the same tokens, 512 for each.
static void test_trace(void **state)
{
    (void)state;
    const char *path = file_of(
        "{\"timestamp\":500,\"input_length\":1200,\"output_length\":9,\"hash_ids\":[7,8,9]}\n"
        "{\"timestamp\":2500,\"input_length\":1536,\"output_length\":0,\"hash_ids\":[7,8,10]}\n"
        "{\"timestamp\":2500,\"input_length\":700,\"output_length\":3,\"hash_ids\":[11,8]}\n");
    struct bench_options o = {
        .trace_path = path, .rate_scale = 4, .requests_max = UINT64_MAX, .seconds_max = INFINITY};
    struct bench_trace trace;
    struct bench_words words;
    struct error err;
    assert_int_equal(bench_trace_open(&trace, &o, &err), STATUS_OK);
    assert_int_equal(trace.count, 3);
    assert_true(trace.at[0].at_s == 0 && trace.at[1].at_s == 0.5 && trace.at[2].at_s == 0.5);
    assert_int_equal(trace.at[1].output_tokens, 1); // an answer has at least one token
    bench_words_init(&words);
    for (words.tokens_per_word = 1; words.tokens_per_word < 3; words.tokens_per_word++) {
        uint32_t per_word = (uint32_t)words.tokens_per_word;
        char *texts[3];
        for (size_t i = 0; i < 3; i++) {
            texts[i] = traced_text(&trace, i, &words);
            assert_int_equal(words_of(texts[i]), trace.at[i].input_tokens / per_word);
        }
        uint32_t shared = words_shared(texts[0], texts[1]); // equal words may follow by chance
        assert_in_range(shared, 2 * 512 / per_word, 2 * 512 / per_word + 3);
        assert_in_range(words_shared(texts[0], texts[2]), 0, 3);
        for (size_t i = 0; i < 3; i++)
            free(texts[i]);
    }
    bench_trace_close(&trace);
    unlink(path);
    static const char *const wrong[] = {
        "{\"timestamp\":5,\"input_length\":1,\"output_length\":1}\n"
        "{\"timestamp\":4,\"input_length\":1,\"output_length\":1}\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n",
        "{\"timestamp\":5,\"input_length\":-1,\"output_length\":1}\n"};
    static const char *const words_wrong[] = {"line 2", "line 2", "contains no arrivals", "line 1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        path = file_of(wrong[i]);
        o.trace_path = path;
        assert_int_equal(bench_trace_open(&trace, &o, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, words_wrong[i]));
        bench_trace_close(&trace);
        unlink(path);
    }
    path = file_of("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
                   "2023-11-16 18:16:50.9951690,396,109\n");
    o = (struct bench_options){.trace_path = path,
                               .rate_scale = 1,
                               .requests_max = 9,
                               .seconds_max = 99,
                               .input_max = 390,
                               .output_max = 100};
    assert_int_equal(bench_trace_open(&trace, &o, &err), STATUS_OK);
    assert_true(trace.count == 2 && fabs(trace.at[1].at_s - 64.314579) < 1e-6);
    assert_true(trace.at[0].input_tokens == 374 && trace.at[0].output_tokens == 44);
    assert_true(trace.at[1].input_tokens == 390 && trace.at[1].output_tokens == 100);
    bench_trace_close(&trace);
    unlink(path);
}

static void test_body(void **state)
{
    (void)state;
    struct bench_words words;
    struct json_buffer out = {0};
    json_t *extra = json_pack("{s:f,s:s}", "temperature", 0.5, "user", "x");
    bench_words_init(&words);
    for (int api = 0; api < BENCH_API_COUNT; api++) {
        struct bench_target target = {.api = (enum bench_api)api, .model = "m\"", .weight = 1};
        struct bench_options o = {.inputs = 3,
                                  .stream = true,
                                  .ignore_eos = true,
                                  .extra_body = extra,
                                  .prefix_tokens = 2};
        struct bench_request request = {.target = &target, .seed = 5, .words = 4, .max_tokens = 9};
        bench_body_write(&out, &o, &words, &request);
        json_t *body = NULL;
        assert_int_equal(json_parse(&body, json_buffer_text(&out), NULL), STATUS_OK);
        assert_string_equal(json_string_value(json_object_get(body, "model")), "m\"");
        assert_true(json_real_value(json_object_get(body, "temperature")) == 0.5);
        bool generates = bench_api_generates((enum bench_api)api);
        assert_true(json_is_true(json_object_get(body, "stream")) == generates);
        const char *list = api == BENCH_EMBEDDINGS ? "input"
                           : api == BENCH_TEI      ? "texts"
                                                   : "documents";
        if (!generates)
            assert_int_equal(json_array_size(json_object_get(body, list)), 3);
        json_decref(body);
    }
    words.tokens_per_word = 2;
    words.overhead = 10;
    assert_int_equal(bench_words_for(&words, 50), 20);
    assert_int_equal(bench_words_for(&words, 3), 1);
    json_decref(extra);
    json_buffer_free(&out);
}

static void test_metrics(void **state)
{
    (void)state;
    struct bench_scrape before, after;
    struct json_buffer out = {0};
    bench_scrape_read(&before, text_of("# HELP a_total x\na_total 3\nb_total{m=\"x y\"} 1\n"
                                       "t_seconds_sum{m=\"1\"} 2\nt_seconds_count{m=\"1\"} 4\n"));
    bench_scrape_read(&after,
                      text_of("a_total 3\nb_total{m=\"x y\"} 2.5 1700000000\nnew_total 7\n"
                              "gauge 5\nt_seconds_sum{m=\"1\"} 5\nt_seconds_count{m=\"1\"} 5\n"
                              "t_seconds_sum{m=\"2\"} 1\nt_seconds_count{m=\"2\"} 1\n"
                              "x_total NaN\nno value\n\n   \ny_total"));
    bench_scrape_json(&out, &before, &after);
    assert_memory_equal(out.at,
                        "{\"b_total{m=\\\"x y\\\"}\":1.5,\"new_total\":7,"
                        "\"t_seconds_count{m=\\\"1\\\"}\":1,\"t_seconds_count{m=\\\"2\\\"}\":1,"
                        "\"t_seconds_sum{m=\\\"1\\\"}\":3,\"t_seconds_sum{m=\\\"2\\\"}\":1}",
                        out.bytes);
    struct json_buffer sum = {0}, more = {0};
    json_put_literal(&more, "{\"new_total\":1,\"other_total\":2}");
    bench_rises_add(&sum, &out);
    bench_rises_add(&sum, &more);
    json_t *rises = NULL;
    assert_int_equal(json_parse(&rises, json_buffer_text(&sum), NULL), STATUS_OK);
    assert_int_equal(json_object_size(rises), 7);
    assert_true(json_number_value(json_object_get(rises, "new_total")) == 8 &&
                json_number_value(json_object_get(rises, "other_total")) == 2);
    json_decref(rises);
    json_buffer_free(&sum);
    json_buffer_free(&more);
    assert_true(fabs(bench_scrape_mean(&before, &after, "t_seconds") - 2) < 1e-12);
    assert_true(isnan(bench_scrape_mean(&before, &after, "none")));
    json_buffer_free(&out);
    bench_scrape_free(&before);
    bench_scrape_free(&after);
}

static void test_names(void **state)
{
    (void)state;
    enum bench_api api;
    for (int i = 0; i < BENCH_API_COUNT; i++) {
        assert_true(bench_api_find(&api, text_of(bench_api_name((enum bench_api)i))));
        assert_int_equal(api, i);
    }
    assert_true(bench_api_find(&api, text_of("openai-chat")) && api == BENCH_CHAT);
    assert_false(bench_api_find(&api, text_of("chatty")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrivals), cmocka_unit_test(test_ramp),
        cmocka_unit_test(test_lengths),  cmocka_unit_test(test_dataset),
        cmocka_unit_test(test_body),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_metrics),  cmocka_unit_test(test_goodput),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
