// SPDX-License-Identifier: Apache-2.0
// The time of masks and compiles on one thread: bench_grammar TIKTOKEN [VOCAB [CASES]].
//
// TIKTOKEN is a rank file (base64 token, rank); if it has fewer tokens than VOCAB (default
// 150,000), concatenations of two of its tokens fill it up. Each grammar follows its documents
// token by token (longest match): first with an empty cache, then with the cache of the first pass.
// Prints one JSON object: microseconds of thread time for matcher_mask with matcher_accept, and for
// compiles.
//
// CASES replaces the grammars in this file: [{"schema": ..., "documents": [[id, ...], ...]}, ...];
// grammar_peers.py passes it to other libraries as well. The object then contains for each case
// null (refused) or [microseconds of the compile, for each document null (it leaves the grammar) or
// [[microseconds of each mask], [those of the second pass]]].
#include "runtime/grammar/matcher.h"
#include "runtime/text/grammar/gbnf.h"
#include "runtime/text/grammar/json.h"
#include "runtime/text/grammar/regex.h"
#include "runtime/text/grammar/schema.h"

#include "base/arena.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COMPILES = 20, TIMES_MAX = 1 << 20, TOKEN_BYTES_LONGEST = 64 };

struct words {
    struct text *at;
    uint32_t count;
    struct vocabulary *v;
    uint32_t *sorted; // ids by text
};

struct times {
    double *at;
    uint32_t count;
};

// CPU time of this thread, so that other load does not count.
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int base64_of(char c)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c != '\0' ? strchr(letters, c) : NULL;
    return found ? (int)(found - letters) : -1;
}

// Decodes one token; the result is in the arena.
static struct text token_read(struct arena *arena, struct text line)
{
    char *out = arena_alloc(arena, line.bytes + 4);
    size_t bytes = 0;
    uint32_t bits = 0, held = 0;
    for (size_t i = 0; i < line.bytes && base64_of(line.at[i]) >= 0; i++) {
        bits = bits << 6 | (uint32_t)base64_of(line.at[i]);
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[bytes++] = (char)(bits >> held);
        }
    }
    return text_span(out, bytes);
}

static void words_read(struct words *w, struct arena *arena, struct text file, uint32_t vocab)
{
    w->at = heap_alloc_zeroed(vocab, sizeof *w->at);
    while (file.bytes > 0 && w->count < vocab - 1) {
        const char *end = memchr(file.at, '\n', file.bytes);
        size_t bytes = end ? (size_t)(end + 1 - file.at) : file.bytes;
        w->at[w->count++] = token_read(arena, text_span(file.at, bytes));
        file = text_span(file.at + bytes, file.bytes - bytes);
    }
    uint32_t read = w->count;
    for (uint32_t i = 1000; w->count < vocab - 1; i++) {
        struct text a = w->at[i % read], b = w->at[(i * 7919u) % read];
        char *both = arena_alloc(arena, a.bytes + b.bytes);
        memcpy(both, a.at, a.bytes);
        memcpy(both + a.bytes, b.at, b.bytes);
        w->at[w->count++] = text_span(both, a.bytes + b.bytes);
    }
}

static int compare_words(const void *x, const void *y, void *words)
{
    const struct words *w = words;
    struct text a = w->at[*(const uint32_t *)x], b = w->at[*(const uint32_t *)y];
    size_t bytes = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = memcmp(a.at, b.at, bytes);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

// Returns the id of exactly this text, or -1.
static int32_t word_find(const struct words *w, struct text text)
{
    uint32_t low = 0, high = w->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        struct text t = w->at[w->sorted[middle]];
        size_t bytes = t.bytes < text.bytes ? t.bytes : text.bytes;
        int order = memcmp(t.at, text.at, bytes);
        order = order != 0 ? order : (t.bytes > text.bytes) - (t.bytes < text.bytes);
        if (order == 0)
            return (int32_t)w->sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static int32_t word_longest(const struct words *w, struct text text)
{
    size_t bytes = text.bytes < TOKEN_BYTES_LONGEST ? text.bytes : TOKEN_BYTES_LONGEST;
    for (; bytes > 0; bytes--) {
        int32_t id = word_find(w, text_span(text.at, bytes));
        if (id >= 0)
            return id;
    }
    return -1;
}

static int compare_doubles(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void times_print(const char *name, struct times *t, bool last)
{
    qsort(t->at, t->count, sizeof *t->at, compare_doubles);
    printf("\"%s\":{\"count\":%u,\"p50_us\":%.1f,\"p99_us\":%.1f,\"most_us\":%.1f}%s", name,
           t->count, t->at[t->count / 2] * 1e6, t->at[t->count * 99 / 100] * 1e6,
           t->at[t->count - 1] * 1e6, last ? "" : ",");
}

// Follows the document token by token; each mask must allow the next token.
static void document_follow(const struct words *w, struct mask_cache *c, struct text document,
                            struct times *times)
{
    static uint32_t words[1 << 16];
    struct matcher m;
    matcher_init(&m, c);
    while (document.bytes > 0) {
        int32_t token = word_longest(w, document);
        double before = now_s();
        matcher_mask(&m, words);
        bool allowed = matcher_accept(&m, token);
        times->at[times->count++ % TIMES_MAX] = now_s() - before;
        check(allowed && words[token / 32] >> (token % 32) & 1,
              "the document leaves its grammar: %.*s", (int)document.bytes, document.at);
        size_t bytes = w->at[token].bytes;
        document = text_span(document.at + bytes, document.bytes - bytes);
    }
    matcher_end(&m);
}

struct sample {
    const char *kind, *source, *documents[4];
};
static const struct sample SAMPLES[] = {
    {"json",
     "",
     {"{\"name\":\"Ada Lovelace\",\"born\":1815,\"works\":[\"Notes on the Analytical "
      "Engine\",{\"pages\":66,\"parts\":[\"A\",\"B\",\"G\"]}],\"note\":\"She wrote \\\"the first "
      "program\\\", as many say; others differ.\"}",
      "{\"a\":{\"b\":{\"c\":[[[1,2.5e-3,null],[true,false]],\"deep inside, a sentence of some "
      "length\"]}},\"k\":\"v\"}"}},
    {"loose",
     "",
     {"{\n  \"city\": \"Z\xC3\xBCrich\",\n  \"people\": 421878,\n  \"lakes\": [\n    "
      "\"Z\xC3\xBCrichsee\",\n    \"Greifensee\"\n  ]\n}"}},
    {"gbnf",
     "root ::= \"{\\\"name\\\":\" str \",\\\"age\\\":\" int \",\\\"tags\\\":[\" (str (\",\" "
     "str){0,9})? \"],\\\"address\\\":{\\\"street\\\":\" str \",\\\"zip\\\":\\\"\" [0-9]{5} "
     "\"\\\"},\\\"role\\\":\\\"\" (\"admin\" | \"user\" | \"guest\") \"\\\"}\"\nstr ::= \"\\\"\" "
     "([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\nrtbf]){0,80} \"\\\"\"\nint ::= \"0\" | [1-9] "
     "[0-9]{0,2}",
     {"{\"name\":\"Grace Brewster Murray Hopper\",\"age\":85,\"tags\":[\"rear "
      "admiral\",\"compilers\",\"found a moth in a relay and taped it into the "
      "log\"],\"address\":{\"street\":\"Navy Yard 8, "
      "Washington\",\"zip\":\"20374\"},\"role\":\"admin\"}"}},
    {"schema",
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":80},"
     "\"born\":{\"type\":\"string\",\"format\":\"date\"},\"age\":{\"type\":\"integer\","
     "\"minimum\":0,\"maximum\":130},\"score\":{\"type\":\"number\",\"exclusiveMinimum\":0},"
     "\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"red\",\"green\",\"blue\"]},"
     "\"minItems\":1,\"maxItems\":9},\"mail\":{\"type\":\"string\",\"format\":\"email\"}},"
     "\"required\":[\"name\",\"tags\"],\"additionalProperties\":false}",
     {"{\"name\":\"Grace Brewster Murray Hopper\",\"born\":\"1906-12-09\",\"age\":85,"
      "\"score\":17.25,\"tags\":[\"blue\",\"red\"],\"mail\":\"grace.hopper@navy.example\"}",
      "{\"name\":\"A\",\"tags\":[\"green\"]}"}},
    {"schema",
     "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"node\"},"
     "\"label\":{\"type\":\"string\",\"pattern\":\"^[a-z][a-z0-9_]*$\"},\"children\":{"
     "\"type\":\"array\",\"items\":{\"oneOf\":[{\"$ref\":\"#/$defs/node\"},{"
     "\"$ref\":\"#/$defs/leaf\"}]}}},\"required\":[\"kind\",\"children\"]},\"leaf\":{"
     "\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"leaf\"},\"value\":{"
     "\"type\":[\"number\",\"null\"]}},\"required\":[\"kind\",\"value\"]}},"
     "\"$ref\":\"#/$defs/node\"}",
     {"{\"kind\":\"node\",\"label\":\"root_1\",\"children\":[{\"kind\":\"leaf\",\"value\":2.5},{"
      "\"kind\":\"node\",\"children\":[{\"kind\":\"leaf\",\"value\":null,\"more\":[1,\"x\"]}]}]}"}},
    {"marker",
     "<tool_call>",
     {"Some text that is free, 1 < 2, then a "
      "call.\n<tool_call>{\"name\":\"get_weather\",\"arguments\":{"
      "\"city\":\"Paris\",\"days\":3}}"}},
    {"regex",
     "(https?://)?[a-z0-9-]+(\\.[a-z0-9-]+)+(:\\d{1,5})?(/[\\w.~%-]*)*(\\?[^#\\s]*)?",
     {"https://www.example.org:8080/some/longer/path_to/index.html?query=value&other=1"}},
    {"regex",
     "\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d+)?(Z|"
     "[+-]\\d\\d:\\d\\d)",
     {"2026-11-22T13:45:59.123+01:00"}},
    {"regex",
     "[A-Za-z ,.'-]{1,200}",
     {"This is a line of plain words, as a model would write it when it is asked to."}},
    {"regex",
     "(.|\\n){0,2000}",
     {"Anything at all, with \"quotes\", {braces} and\nlines; \xE4\xB8\xAD\xE6\x96\x87 too."}},
};

static struct grammar *sample_compile(const struct sample *s)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct error err = {0};
    struct grammar *g = NULL;
    uint32_t root = GRAMMAR_NOTHING;
    enum status status = STATUS_OK;
    if (strcmp(s->kind, "gbnf") == 0) {
        status = gbnf_compile(b, text_of(s->source), &root, &err);
    } else if (strcmp(s->kind, "regex") == 0) {
        struct regex_args args = {.pattern = text_of(s->source)};
        status = regex_compile(b, &args, &root, &err);
    } else if (strcmp(s->kind, "schema") == 0) {
        json_t *schema = NULL;
        status = json_parse(&schema, text_of(s->source), &err);
        struct schema_args args = {.schema = schema};
        if (status == STATUS_OK)
            status = schema_compile(b, &args, &root, &err);
        json_decref(schema);
    } else {
        bool loose = strcmp(s->kind, "loose") == 0;
        struct json_style style = {.blank = loose ? json_grammar_loose_blank(b) : GRAMMAR_EMPTY};
        root = json_grammar_rules(b, style).object;
        struct grammar_marker marker = {.text = text_of(s->source), .then = root};
        if (strcmp(s->kind, "marker") == 0)
            root = grammar_free_part(b, &(struct grammar_free_part){&marker, 1, false});
    }
    check(status == STATUS_OK, "%s", err.text);
    status = grammar_finish(b, root, &g, &err);
    check(status == STATUS_OK, "%s", err.text);
    return g;
}

static void sample_run(const struct words *w, const struct sample *s, struct times *compiles,
                       struct times *cold, struct times *warm)
{
    struct grammar *g = NULL;
    for (int i = 0; i < COMPILES; i++) {
        grammar_unref(g);
        double before = now_s();
        g = sample_compile(s);
        compiles->at[compiles->count++] = now_s() - before;
    }
    uint32_t first = cold->count;
    struct mask_cache *c = mask_cache_create(g, w->v, NULL);
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < 4 && s->documents[d]; d++)
            document_follow(w, c, text_of(s->documents[d]), pass == 0 ? cold : warm);
    struct mask_cache_stats stats = mask_cache_stats(c);
    double most = 0, sum = 0;
    for (uint32_t i = first; i < cold->count; i++) {
        most = cold->at[i] > most ? cold->at[i] : most;
        sum += cold->at[i];
    }
    fprintf(stderr,
            "%-6s first masks: mean %.1f us, most %.1f us; %5u states %6zu KB, %llu masks "
            "computed, %llu reused\n",
            s->kind, sum / (cold->count - first) * 1e6, most * 1e6, stats.states,
            stats.bytes / 1024, (unsigned long long)stats.computed,
            (unsigned long long)stats.reused);
    mask_cache_destroy(c);
    grammar_unref(g);
}

// Follows a document of ids and writes the time of each mask. Returns false, and removes what it
// has written, if the document leaves its grammar.
static bool ids_follow(struct mask_cache *c, const json_t *ids, struct json_buffer *out)
{
    static uint32_t words[1 << 16];
    struct matcher m;
    json_t *id;
    size_t i, before = out->bytes;
    bool good = true;
    matcher_init(&m, c);
    json_put_literal(out, "[");
    json_array_foreach(ids, i, id)
    {
        int32_t token = (int32_t)json_integer_value(id);
        double start = now_s();
        matcher_mask(&m, words);
        good = matcher_accept(&m, token);
        double us = (now_s() - start) * 1e6;
        if (!good || !(words[token / 32] >> (token % 32) & 1)) {
            good = false;
            break;
        }
        json_put_format(out, "%s%.2f", i > 0 ? "," : "", us);
    }
    json_put_literal(out, "]");
    good = good && matcher_may_end(&m);
    matcher_end(&m);
    if (!good)
        out->bytes = before;
    return good;
}

static void case_run(const struct words *w, const json_t *in, struct json_buffer *out)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct schema_args args = {.schema = json_object_get(in, "schema")};
    struct error err;
    struct grammar *g = NULL;
    uint32_t root;
    double start = now_s();
    enum status status = schema_compile(b, &args, &root, &err);
    status = status == STATUS_OK ? grammar_finish(b, root, &g, &err)
                                 : (grammar_builder_destroy(b), status);
    struct mask_cache *c = g ? mask_cache_create(g, w->v, NULL) : NULL;
    double us = (now_s() - start) * 1e6;
    json_t *document;
    size_t i;
    if (!c) {
        json_put_literal(out, "null");
        return;
    }
    json_put_format(out, "[%.1f", us);
    json_array_foreach(json_object_get(in, "documents"), i, document)
    {
        size_t before = out->bytes;
        json_put_literal(out, ",[");
        bool good = ids_follow(c, document, out);
        json_put_literal(out, ",");
        good = good && ids_follow(c, document, out);
        json_put_literal(out, "]");
        if (!good) {
            out->bytes = before;
            json_put_literal(out, ",null");
        }
    }
    json_put_literal(out, "]");
    mask_cache_destroy(c);
    grammar_unref(g);
}

static void cases_run(const struct words *w, const char *path, struct arena *arena)
{
    struct error err;
    struct text file;
    json_t *cases = NULL, *each;
    size_t i;
    struct json_buffer out = {0};
    check(file_read(&file, arena, path, 1 << 28, &err) == STATUS_OK &&
              json_parse(&cases, file, &err) == STATUS_OK,
          "%s", err.text);
    json_array_foreach(cases, i, each)
    {
        json_put_literal(&out, i > 0 ? "," : "");
        case_run(w, each, &out);
    }
    printf("\"cases\":[%.*s]}\n", (int)out.bytes, out.at);
    json_buffer_free(&out);
    json_decref(cases);
}

static void words_open(struct words *w, uint32_t vocab)
{
    int32_t end = (int32_t)vocab - 1;
    struct vocabulary_args args = {vocab, w->at, w->count, NULL, &end, 1};
    double before = now_s();
    w->v = vocabulary_create(&args);
    printf("{\"vocab\":%u,\"vocabulary_ms\":%.1f,\"vocabulary_bytes\":%zu,", vocab,
           (now_s() - before) * 1e3, vocabulary_bytes(w->v));
    w->sorted = heap_alloc(w->count * sizeof *w->sorted);
    for (uint32_t i = 0; i < w->count; i++)
        w->sorted[i] = i;
    qsort_r(w->sorted, w->count, sizeof *w->sorted, compare_words, w);
}

static void samples_run(const struct words *w)
{
    struct times times[3];
    for (int i = 0; i < 3; i++)
        times[i] = (struct times){heap_alloc(TIMES_MAX * sizeof(double)), 0};
    for (size_t s = 0; s < sizeof SAMPLES / sizeof *SAMPLES; s++)
        sample_run(w, &SAMPLES[s], &times[0], &times[1], &times[2]);
    times_print("compile", &times[0], false);
    times_print("mask_first", &times[1], false);
    times_print("mask_again", &times[2], true);
    printf("}\n");
    for (int i = 0; i < 3; i++)
        heap_free(times[i].at);
}

int main(int argc, char **argv)
{
    struct error err;
    struct text file;
    struct arena *arena = arena_create(1 << 20, 0);
    uint32_t vocab = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 150000;
    if (argc < 2 || file_read(&file, arena, argv[1], 1 << 28, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n",
                argc < 2 ? "usage: bench_grammar TIKTOKEN [VOCAB [CASES]]" : err.text);
        return 2;
    }
    struct words w = {0};
    words_read(&w, arena, file, vocab);
    words_open(&w, vocab);
    if (argc > 3)
        cases_run(&w, argv[3], arena);
    else
        samples_run(&w);
    vocabulary_unref(w.v);
    heap_free(w.sorted);
    heap_free(w.at);
    arena_destroy(arena);
    return 0;
}
