// SPDX-License-Identifier: Apache-2.0
// The cache of compiled grammars, its limits, and requests that wait for the grammar thread:
// refusals, streams that start meanwhile, compiles that are shared. Against the doubles of exchange
// and port.
#include "api_cases.h"

#include "http/api/grammars.h"
#include "runtime/grammar/vocabulary.h"

#define TEST(name) API_TEST(name, NULL)
#define FAKE_TEST(name) API_TEST(name, fake_setup_generator)
#define PATH "/v1/chat/completions"
#define HI "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define GUIDED(schema) "\"guided_json\":" schema
#define CONFIG(schema)                                                                             \
    "\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":" schema "}}"

static struct grammars_stats stats(void)
{
    return grammars_stats(fake.info.served->grammars);
}

static enum grammars_found find(struct grammars *cache, struct grammar_source source,
                                struct grammar **out)
{
    struct error err;
    struct hash hash = grammars_hash(&source);
    return grammars_find(cache, &hash, out, &err);
}

static enum grammars_found compile(struct grammars *cache, struct grammar_source source,
                                   struct grammar **out, struct error *err)
{
    struct hash hash = grammars_hash(&source);
    return grammars_compile(cache, &source, &hash, out, err);
}

static struct grammar_source regex(const char *text)
{
    return (struct grammar_source){.kind = GRAMMAR_KIND_REGEX, .text = text_of(text)};
}

// The cache key contains the kind, the alphabet, for calls the dialect, and for schemas `strict`,
// not just the text.
TEST(test_what_a_source_is_known_by)
{
    static const struct dialect dialects[2];
    static const uint32_t alphabets[2][8] = {{1}, {0, 1}};
    const struct grammar_source sources[] = {
        {.kind = GRAMMAR_KIND_REGEX, .text = text_of("[1]")},
        {.kind = GRAMMAR_KIND_CHOICE, .text = text_of("[1]")},
        {.kind = GRAMMAR_KIND_REGEX, .text = text_of("[2]")},
        {.kind = GRAMMAR_KIND_REGEX, .text = text_of("[1]\n")},
        {.kind = GRAMMAR_KIND_REGEX, .text = text_of("[1]"), .alphabet = alphabets[0]},
        {.kind = GRAMMAR_KIND_REGEX, .text = text_of("[1]"), .alphabet = alphabets[1]},
        {.kind = GRAMMAR_KIND_CALLS, .text = text_of("[1]"), .dialect = &dialects[0]},
        {.kind = GRAMMAR_KIND_CALLS, .text = text_of("[1]"), .dialect = &dialects[1]},
        {.kind = GRAMMAR_KIND_SCHEMA, .text = text_of("[1]")},
        {.kind = GRAMMAR_KIND_SCHEMA, .text = text_of("[1]"), .strict = true},
    };
    enum { COUNT = sizeof sources / sizeof *sources };
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < COUNT; k++) {
            struct hash one = grammars_hash(&sources[i]), other = grammars_hash(&sources[k]);
            assert_int_equal(one.low == other.low, i == k);
            assert_int_equal(one.high == other.high, i == k);
        }
}

FAKE_TEST(test_a_refusal_is_known_the_next_time)
{
    for (int i = 0; i < 2; i++) {
        struct error err;
        struct grammar *g;
        struct grammars *cache = fake.info.served->grammars;
        if (i == 0)
            assert_int_equal(find(cache, regex("("), &g), GRAMMARS_UNKNOWN);
        assert_int_equal(compile(cache, regex("("), &g, &err), GRAMMARS_REFUSED);
        assert_null(g);
        assert_non_null(strstr(err.text, "the pattern has"));
        assert_int_equal(err.status, STATUS_INVALID);
    }
    assert_int_equal(stats().compiled, 1);
    assert_int_equal(stats().refused, 2);
    assert_int_equal(stats().hits, 1);
    fake_request(PATH, "{" HI ",\"guided_regex\":\"(\"}");
    assert_int_equal(fake.status, 400);
    assert_int_equal(fake.compiles, 0);
}

// The cache evicts unused grammars, least recently used first.
TEST(test_the_cache_is_bounded_by_bytes)
{
    enum { ROOM = 60000 };
    struct grammars *cache = grammars_create(ROOM);
    struct grammar *g, *kept, *used;
    struct error err;
    char texts[100][8];
    assert_int_equal(compile(cache, regex("used"), &used, &err), GRAMMARS_FOUND);
    for (int i = 0; i < 100; i++) {
        sprintf(texts[i], "a%db", i);
        assert_int_equal(compile(cache, regex(texts[i]), &g, &err), GRAMMARS_FOUND);
        grammar_unref(g);
        assert_int_equal(find(cache, regex(texts[0]), &g), GRAMMARS_FOUND);
        grammar_unref(g);
        assert_true(grammars_stats(cache).bytes <= ROOM);
    }
    uint64_t count = grammars_stats(cache).count;
    assert_true(count > 3 && count < 100);
    assert_int_equal(find(cache, regex(texts[1]), &g), GRAMMARS_UNKNOWN);
    assert_int_equal(find(cache, regex("used"), &g), GRAMMARS_FOUND); // in use
    grammar_unref(g);
    grammar_unref(used);
    assert_int_equal(find(cache, regex(texts[99]), &kept), GRAMMARS_FOUND);
    grammars_destroy(cache);
    assert_true(grammar_bytes(kept) > 0); // the reference outlives the cache
    grammar_unref(kept);
}

// Refused sources evict no compiled grammar; the cache keeps only the latest refusals.
TEST(test_what_is_refused_pushes_out_no_grammar)
{
    enum { COUNT = GRAMMARS_COUNT_MAX + 10 };
    struct grammars *cache = grammars_create(0);
    struct grammar *g;
    struct error err;
    char text[16];
    assert_int_equal(compile(cache, regex("kept"), &g, &err), GRAMMARS_FOUND);
    grammar_unref(g);
    for (int i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, "(%d", i);
        assert_int_equal(compile(cache, regex(text), &g, &err), GRAMMARS_REFUSED);
    }
    assert_int_equal(grammars_stats(cache).count, 1 + GRAMMARS_OTHERS_MAX);
    assert_int_equal(find(cache, regex("kept"), &g), GRAMMARS_FOUND);
    grammar_unref(g);
    assert_int_equal(find(cache, regex(text), &g), GRAMMARS_REFUSED);
    assert_int_equal(find(cache, regex("(0"), &g), GRAMMARS_UNKNOWN);
    grammars_destroy(cache);
}

// If a grammar does not fit, a lookup examines only the grammars in use, not the complete cache.
TEST(test_few_entries_are_looked_at)
{
    enum { ROOM = 400000, KEPT = 100, ASKED = 50, WORDS = 3000 };
    struct grammars *cache = grammars_create(ROOM);
    struct grammar *held[1000], *g;
    struct error err;
    char text[16];
    int count = 0;
    enum grammars_found found = GRAMMARS_FOUND;
    for (int i = 0; i < KEPT; i++) {
        snprintf(text, sizeof text, "%dk", i);
        assert_int_equal(compile(cache, regex(text), &g, &err), GRAMMARS_FOUND);
        grammar_unref(g);
    }
    while (found == GRAMMARS_FOUND && count < 1000) {
        snprintf(text, sizeof text, "a%db", count);
        found = compile(cache, regex(text), &held[count], &err);
        count += found == GRAMMARS_FOUND;
    }
    assert_int_equal(found, GRAMMARS_BUSY);
    int few = count / 2;
    while (count > few)
        grammar_unref(held[--count]);
    char *large = malloc(WORDS * 16); // larger than all that can be evicted
    size_t bytes = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        bytes += (size_t)sprintf(large + bytes, "%s%u", i > 0 ? "|" : "", i * 2654435761u);
    assert_int_equal(compile(cache, regex(large), &g, &err), GRAMMARS_BUSY);
    (void)grammars_stats(cache);
    uint64_t before = grammars_stats(cache).examined;
    for (int i = 0; i < ASKED; i++)
        assert_int_equal(find(cache, regex(large), &g), GRAMMARS_BUSY);
    uint64_t looks = grammars_stats(cache).examined - before;
    assert_int_equal(looks, (ASKED + 1) * (uint64_t)few);
    while (count > 0)
        grammar_unref(held[--count]);
    grammars_destroy(cache);
    free(large);
}

// A source of 1 MiB may contain hundreds of thousands of values, which need a hundred times as much
// memory. Text in strings does not count as values.
TEST(test_the_values_of_a_source_are_bounded)
{
    enum { COUNT = 300 * 1000 };
    static const struct {
        const char *head, *each, *tail, *says;
    } sources[] = {
        {"{\"enum\":[{}", ",{}", "]}", "too many values"},
        {"{\"enum\":[[]", ",[]", "]}", "too many values"},
        {"{\"a\":[1", ",1", "]}", "too many values"},
        {"{\"const\":1,\"description\":\"\\\"", ",[{", "\"}", NULL},
    };
    char *text = malloc(4 * COUNT + 100);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct grammar_source source = {.kind = GRAMMAR_KIND_SCHEMA};
        struct error err;
        struct grammar *g;
        char *at = stpcpy(text, sources[i].head);
        for (int k = 0; k < COUNT; k++)
            at = stpcpy(at, sources[i].each);
        strcpy(at, sources[i].tail);
        source.text = text_of(text);
        enum status status = grammar_source_compile(&source, &g, &err);
        if (sources[i].says) {
            assert_int_equal(status, STATUS_TOO_LARGE);
            assert_non_null(strstr(err.text, sources[i].says));
        } else {
            assert_int_equal(status, STATUS_OK);
        }
        grammar_unref(g);
    }
    free(text);
}

// Grammars in use are never evicted, so their total is limited: a grammar that does not fit is
// refused as busy until another is released. The last quarter of the free space is reserved for
// small grammars.
TEST(test_grammars_in_use_are_bounded)
{
    enum { ROOM = 60000, MOST = 100 };
    struct grammars *cache = grammars_create(ROOM);
    struct grammar *held[MOST], *g;
    struct error err;
    char text[16];
    int count = 0;
    enum grammars_found found = GRAMMARS_FOUND;
    assert_int_equal(compile(cache, regex("x{1,3}yy|[a-k]+"), &g, &err), GRAMMARS_FOUND);
    grammar_unref(g);
    while (found == GRAMMARS_FOUND && count < MOST) {
        snprintf(text, sizeof text, "a%db", count);
        found = compile(cache, regex(text), &held[count], &err);
        count += found == GRAMMARS_FOUND;
    }
    struct grammars_stats full = grammars_stats(cache);
    assert_int_equal(found, GRAMMARS_BUSY);
    assert_null(held[count]);
    assert_true(count > 3 && full.count >= (uint64_t)count);
    assert_true(full.used_bytes > ROOM / 2 && full.bytes <= ROOM);
    assert_int_equal(full.busy, 1);
    assert_true(grammar_bytes(held[0]) > (ROOM - full.used_bytes) / 4 - 200);
    assert_int_equal(compile(cache, regex("("), &g, &err), GRAMMARS_REFUSED); // still refused
    assert_int_equal(find(cache, regex("a0b"), &g), GRAMMARS_FOUND);          // needs no memory
    grammar_unref(g);
    grammar_unref(held[--count]);
    assert_int_equal(compile(cache, regex(text), &held[count], &err), GRAMMARS_FOUND);
    while (count >= 0)
        grammar_unref(held[count--]);
    assert_int_equal(grammars_stats(cache).used_bytes, 0);
    grammars_destroy(cache);
}

// A released grammar counts as in use again after it is found.
TEST(test_a_grammar_that_is_found_again_is_in_use)
{
    struct grammars *cache = grammars_create(0);
    struct grammar *g;
    struct error err;
    assert_int_equal(compile(cache, regex("kept"), &g, &err), GRAMMARS_FOUND);
    uint64_t used = grammars_stats(cache).used_bytes;
    assert_true(used > 0);
    grammar_unref(g);
    assert_int_equal(grammars_stats(cache).used_bytes, 0);
    assert_int_equal(find(cache, regex("kept"), &g), GRAMMARS_FOUND);
    assert_int_equal(grammars_stats(cache).used_bytes, used);
    grammar_unref(g);
    grammars_destroy(cache);
}

// A grammar that did not fit is not compiled again until it would fit.
TEST(test_a_grammar_without_room_is_compiled_once)
{
    struct grammar *held, *g;
    struct error err;
    struct grammar_source source = regex("aa|bb|c{1,40}d");
    assert_int_equal(grammar_source_compile(&source, &g, &err), STATUS_OK);
    size_t most = 4 * (grammar_bytes(g) + 200); // space for one of them, but not for two
    grammar_unref(g);
    struct grammars *cache = grammars_create(most);
    assert_int_equal(compile(cache, source, &held, &err), GRAMMARS_FOUND);
    assert_true(grammar_bytes(held) > (most - grammars_stats(cache).used_bytes) / GRAMMARS_SHARE);
    assert_int_equal(find(cache, regex("ee|ff|g{1,40}h"), &g), GRAMMARS_UNKNOWN);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_equal(compile(cache, regex("ee|ff|g{1,40}h"), &g, &err), GRAMMARS_BUSY);
        assert_null(g);
        assert_int_equal(find(cache, regex("ee|ff|g{1,40}h"), &g), GRAMMARS_BUSY);
        assert_null(g);
        assert_int_equal(grammars_stats(cache).busy, 2 * i);
    }
    assert_int_equal(compile(cache, regex("("), &g, &err), GRAMMARS_REFUSED);
    assert_int_equal(compile(cache, regex("("), &g, &err), GRAMMARS_REFUSED);
    assert_int_equal(grammars_stats(cache).compiled, 3);
    grammar_unref(held);
    assert_int_equal(find(cache, regex("ee|ff|g{1,40}h"), &g), GRAMMARS_UNKNOWN);
    assert_int_equal(compile(cache, regex("ee|ff|g{1,40}h"), &g, &err), GRAMMARS_FOUND);
    assert_int_equal(grammars_stats(cache).compiled, 4);
    grammar_unref(g);
    grammars_destroy(cache);
}

static const struct endpoint *const generators[] = {&chat_endpoint, &completions_endpoint,
                                                    &messages_endpoint};

TEST(test_a_grammar_without_room_is_told_to_wait)
{
    for (int i = 0; i < 3; i++) {
        fake_begin(MODEL_GENERATOR);
        fake_grammar_bytes(100);
        request_now(generators[i], i == 2 ? CONFIG("{}") : GUIDED("{}"));
        assert_int_equal(fake.status, i == 2 ? 529 : 503);
        assert_int_equal(fake.error, HTTP_OVERLOADED);
        sent_has("the grammars in use leave no memory");
        assert_int_equal(fake.submits, 0);
        fake_end();
    }
}

TEST(test_the_queue_for_compiling_is_full)
{
    for (int i = 0; i < 3; i++) {
        fake_begin(MODEL_GENERATOR);
        fake.compiles_full = true;
        request_now(generators[i], i == 2 ? CONFIG("{}") : GUIDED("{}"));
        assert_int_equal(fake.status, i == 2 ? 529 : 503);
        sent_has("too many grammars wait to be compiled");
        assert_int_equal(fake.answers, 1);
        assert_int_equal(fake.submits, 0);
        fake_end();
    }
}

// Printable ASCII without these bytes; a special token contains them.
static struct vocabulary *without(const char *bytes)
{
    char at[128];
    struct text tokens[129], specials[129] = {[128] = text_of(bytes)};
    for (int i = 0; i < 128; i++) {
        at[i] = (char)i;
        tokens[i] = text_span(&at[i], i >= ' ' && !strchr(bytes, i) ? 1 : 0);
    }
    tokens[128] = (struct text){NULL, 0};
    return vocabulary_create(&(struct vocabulary_args){
        .vocab = 129, .tokens = tokens, .count = 129, .specials = specials});
}

// A grammar that the model's tokens cannot write is refused with its field; if they can write a
// part, that part is kept. The result for another model with the same source is separate.
TEST(test_a_form_that_the_model_cannot_write)
{
    static const struct {
        const char *more, *param, *text; // text: an answer that the grammar accepts; NULL: refused
    } forms[] = {
        {"\"guided_choice\":[\"\u00e9\",\"w\u00e9\"]", "guided_choice", NULL},
        {"\"guided_choice\":[\"\u00e9\",\"w\u00e9\",\"we\"]", NULL, "we"},
        {"\"guided_choice\":[\"q\"]", "guided_choice", NULL},
        {"\"guided_regex\":\"a\u00e9+\"", "guided_regex", NULL},
        {"\"guided_regex\":\"a\u00e9*b\"", NULL, "ab"},
        {"\"guided_grammar\":\"root ::= [a-z] \\\"q\\\"\"", "guided_grammar", NULL},
        {"\"guided_json\":{\"const\":\"\u00e9q\"}", "guided_json", NULL},
        {"\"guided_json\":{\"enum\":[\"q\",\"e\"]}", NULL, "\"e\""},
        {"\"guided_json\":{\"type\":\"object\",\"properties\":{\"q\":{}},\"required\":[\"q\"]}",
         "guided_json", NULL},
    };
    struct vocabulary *most = without("q"), *ascii = without("");
    char body[400];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        fake_begin(MODEL_GENERATOR);
        fake_vocabulary(most);
        snprintf(body, sizeof body, "{" HI ",%s}", forms[i].more);
        for (int again = 0; again < 2; again++) {
            fake_request(PATH, body);
            assert_int_equal(fake.status, forms[i].text ? 0 : 400);
            if (forms[i].text) {
                assert_true(fake_grammar_has(forms[i].text));
                assert_false(fake_grammar_has("w\u00e9"));
                break;
            }
            char param[64];
            snprintf(param, sizeof param, "\"param\":\"%s\"", forms[i].param);
            sent_has(param);
            sent_has("tokens lack bytes");
            assert_int_equal(fake.submits, 0);
        }
        fake_end();
    }
    fake_begin(MODEL_GENERATOR);
    fake_vocabulary(most);
    fake_request(PATH, "{" HI ",\"guided_choice\":[\"q\"]}");
    assert_int_equal(fake.status, 400);
    fake_vocabulary(ascii);
    fake_request(PATH, "{" HI ",\"guided_choice\":[\"q\"]}");
    assert_true(fake_grammar_has("q"));
    fake_again();
    fake_request(PATH, "{" HI ",\"guided_regex\":\"(\"}"); // refused as before
    assert_int_equal(fake.status, 400);
    sent_lacks("tokens lack bytes");
    fake_end();
    vocabulary_unref(most);
    vocabulary_unref(ascii);
}

// A known source is found immediately, even if it is large.
FAKE_TEST(test_a_large_source_that_is_known_does_not_wait)
{
    enum { BYTES = 100000 };
    static char more[BYTES + 200];
    strcpy(more, "{" HI ",\"guided_json\":{\"type\":\"integer\",\"description\":\"");
    size_t head = strlen(more);
    memset(more + head, 'd', BYTES);
    strcpy(more + head + BYTES, "\"}}");
    for (uint32_t i = 0; i < 2; i++) {
        fake_request(PATH, more);
        assert_int_equal(fake.submits, i + 1);
        assert_int_equal(fake.compiles, 1);
        assert_true(fake_grammar_has("12"));
    }
    assert_int_equal(stats().compiled, 1);
}

// A stream that waits for its grammar starts after 5 s and sends keep-alive comments.
TEST(test_a_stream_waits_for_its_grammar)
{
    for (int i = 0; i < 3; i++) {
        fake_begin(MODEL_GENERATOR);
        fake.compiles_wait = true;
        request_now(generators[i], i == 2 ? CONFIG("{\"const\":7}") ",\"stream\":true"
                                          : "\"guided_json\":{\"const\":7},\"stream\":true");
        assert_int_equal(fake.compiles, 1);
        fake_second(4);
        assert_int_equal(fake.answers, 0);
        fake_second(5);
        assert_int_equal(fake.status, 200);
        assert_true(fake.streaming);
        size_t begun = fake.sent_bytes;
        fake_second(14);
        assert_int_equal(fake.sent_bytes, begun);
        fake_second(15);
        assert_true(fake.sent_bytes > begun);
        assert_int_equal(fake.submits, 0);
        fake_compile(true);
        assert_int_equal(fake.submits, 1);
        assert_true(fake_grammar_has("7"));
        fake_text("7");
        fake_finish(FINISH_STOP, -1);
        fake_ready();
        assert_true(fake.ended);
        assert_int_equal(fake.answers, 1);
        assert_int_equal(fake.stream_failures, 0);
        fake_end();
    }
}

// A failure after the 200 is the last event.
TEST(test_a_stream_that_has_begun_gets_no_grammar)
{
    static const struct {
        const char *schema, *says;
        enum admission admission;
        enum http_error error;
    } ends[] = {
        {"{\"uniqueItems\":true}", "uniqueItems", ADMITTED, HTTP_UNSUPPORTED_VALUE},
        {"{\"const\":7}", "the queue is full", ADMISSION_BUSY, HTTP_OVERLOADED},
        {"{\"const\":7}", "shutting down", ADMISSION_DRAINING, HTTP_UNAVAILABLE},
    };
    char more[128];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (int k = 0; k < 3; k++) {
            fake_begin(MODEL_GENERATOR);
            fake.compiles_wait = true;
            fake.admission = ends[i].admission;
            snprintf(more, sizeof more,
                     k == 2 ? CONFIG("%s") ",\"stream\":true"
                            : "\"guided_json\":%s,\"stream\":true",
                     ends[i].schema);
            request_now(generators[k], more);
            fake_second(6);
            assert_int_equal(fake.answers, 1);
            fake_compile(true);
            assert_int_equal(fake.stream_failures, 1);
            assert_int_equal(fake.error, ends[i].error);
            sent_has(ends[i].says);
            assert_true(fake.ended);
            assert_int_equal(fake.answers, 1);
            fake_end();
        }
}

static const json_t *member(const json_t *object, const char *outer, const char *inner)
{
    return json_object_get(json_object_get(object, outer), inner);
}

// A Responses stream reports the failure of the grammar, too. An error in the caller's schema names
// the schema and quotes complete characters.
TEST(test_a_response_that_has_begun_gets_no_grammar)
{
    char more[2048], name[512];
    for (int shift = 0; shift < 4; shift++) {
        size_t at = (size_t)snprintf(name, sizeof name, "%.*s", shift, "abc");
        for (int i = 0; i < 200; i++)
            at += (size_t)snprintf(name + at, sizeof name - at, "\xC3\xA9");
        snprintf(more, sizeof more,
                 "\"stream\":true,\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\","
                 "\"schema\":{\"properties\":{\"%s\":{\"uniqueItems\":true}}}}}",
                 name);
        fake_begin(MODEL_GENERATOR);
        fake.compiles_wait = true;
        request_now(&responses_endpoint, more);
        fake_second(6);
        assert_int_equal(fake.answers, 1);
        fake_compile(true);
        assert_int_equal(fake.stream_failures, 1);
        const char *last = strstr(fake.sent, "event: response.failed\ndata: ");
        json_t *failed = json_loads(strchr(last, '{'), JSON_DISABLE_EOF_CHECK, NULL);
        json_t *error =
            json_loads(strchr(strstr(last, "event: error\n"), '{'), JSON_DISABLE_EOF_CHECK, NULL);
        assert_non_null(failed); // also: valid UTF-8
        assert_non_null(error);
        const json_t *why = member(failed, "response", "error");
        assert_string_equal(json_string_value(json_object_get(why, "code")), "invalid_prompt");
        const char *message = json_string_value(json_object_get(why, "message"));
        assert_non_null(strstr(message, "uniqueItems"));
        assert_null(strstr(message, "\xEF\xBF\xBD"));
        assert_string_equal(json_string_value(json_object_get(error, "message")), message);
        assert_string_equal(json_string_value(member(error, "error", "message")), message);
        const char *param = json_string_value(json_object_get(error, "param"));
        assert_string_equal(param, "text.format.schema");
        assert_string_equal(json_string_value(member(error, "error", "param")), param);
        json_decref(failed);
        json_decref(error);
        fake_end();
    }
}

// No grammar is compiled for a request whose deadline has passed.
FAKE_TEST(test_a_deadline_passes_before_the_compile)
{
    fake.info.deadline_ns = 1;
    fake_request(PATH, "{" HI "," GUIDED("{}") "}");
    assert_int_equal(fake.status, 504);
    assert_int_equal(stats().compiled, 0);
    assert_int_equal(fake.submits, 0);
    fake_again();
    fake.info.deadline_ns = UINT64_MAX;
    fake_request(PATH, "{" HI "," GUIDED("{}") "}");
    assert_int_equal(fake.submits, 1);
}

// Another request compiled the same source; if the cache has dropped the grammar again, it is
// compiled once more.
FAKE_TEST(test_an_equal_source_is_compiled_by_another)
{
    struct grammar *g;
    struct error err;
    fake.compiles_wait = true;
    fake_request(PATH, "{" HI ",\"guided_regex\":\"ab\"}");
    uint64_t same = fake.job.share_key;
    fake_compile(false);
    assert_int_equal(fake.compiles, 2);
    assert_true(fake.job.share_key == same && same != 0);
    assert_int_equal(compile(fake.info.served->grammars, regex("ab"), &g, &err), GRAMMARS_FOUND);
    fake_compile(false);
    assert_int_equal(fake.submits, 1);
    assert_ptr_equal(fake.grammar, g);
    grammar_unref(g);
    assert_int_equal(stats().compiled, 1);
}
