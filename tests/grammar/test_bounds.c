// SPDX-License-Identifier: Apache-2.0
// Hostile grammars: whatever a client sends, a compile ends within bounded work, memory and stack.
// Each case runs in a child process, on a thread with the stack size that schema.h requires. The
// CPU time limit stops a compile that does not end.
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "runtime/text/grammar/gbnf.h"
#include "runtime/text/grammar/regex.h"
#include "runtime/text/grammar/schema.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, STACK_BYTES = 4 * SCHEMA_STACK_BYTES };
#else
enum { SANITIZED = 0, STACK_BYTES = SCHEMA_STACK_BYTES };
#endif
enum { BYTES_MOST = 80 << 20, CPU_SECONDS = 100, SOURCE_MAX = 33 << 20 };

static bool loud; // print the time and memory of each case

struct source {
    char *at;
    size_t bytes;
};

__attribute__((format(printf, 2, 3))) static void add(struct source *s, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    s->bytes += (size_t)vsnprintf(s->at + s->bytes, SOURCE_MAX - s->bytes, format, values);
    va_end(values);
    assert_true(s->bytes < SOURCE_MAX);
}

static void add_run(struct source *s, char letter, size_t count)
{
    assert_true(s->bytes + count < SOURCE_MAX);
    memset(s->at + s->bytes, letter, count);
    s->bytes += count;
}

static void add_list(struct source *s, const char *one, int count)
{
    for (int i = 0; i < count; i++)
        add(s, "%s%s", i > 0 ? "," : "", one);
}

// --- schemas ---

static void long_keys_above_many(struct source *s)
{
    add(s, "{\"$defs\":{\"");
    add_run(s, 'k', 1000 * 1000);
    add(s, "\":{\"properties\":{");
    for (int i = 0; i < 5000; i++)
        add(s, "%s\"%x\":{}", i > 0 ? "," : "", i);
    add(s, "}}}}");
}

static void one_long_key(struct source *s)
{
    add(s, "{\"properties\":{\"");
    add_run(s, 'k', 1025);
    add(s, "\":{}},\"additionalProperties\":false}");
}

static void all_of_many(struct source *s)
{
    add(s, "{\"allOf\":[");
    add_list(s, "{\"a\":1}", 200 * 1000);
    add(s, "]}");
}

static void all_of_few(struct source *s)
{
    add(s, "{\"allOf\":[");
    add_list(s, "{\"a\":1}", 40 * 1000);
    add(s, "]}");
}

// Adds 20,000 named subschemas and as many references to them. refer: text before the name in a
// reference.
static void references(struct source *s, const char *keyword, const char *name, const char *refer)
{
    add(s, "{\"$defs\":{");
    for (int i = 0; i < 20000; i++)
        add(s, "%s\"%d\":{\"%s\":\"%s%05d\"}", i > 0 ? "," : "", i, keyword, name, i);
    add(s, "},\"allOf\":[");
    for (int i = 0; i < 20000; i++)
        add(s, "%s{\"$ref\":\"%s%s%05d\"}", i > 0 ? "," : "", refer, name, 19999 - i / 2);
    add(s, "]}");
}

static void references_by_resources(struct source *s)
{
    references(s, "$id", "http://a/", "");
}

static void references_by_anchors(struct source *s)
{
    references(s, "$anchor", "a", "#");
}

static void long_bases(struct source *s)
{
    add(s, "{\"$id\":\"http://a/");
    add_run(s, 'b', 1000 * 1000);
    add(s, "/\",\"$defs\":{");
    for (int i = 0; i < 5000; i++)
        add(s, "%s\"%d\":{\"$id\":\"%d\"}", i > 0 ? "," : "", i, i);
    add(s, "}}");
}

static void forks(struct source *s)
{
    add(s, "{\"allOf\":[");
    add_list(s, "{\"anyOf\":[{\"a\":1},{\"a\":2}]}", 20 * 1000);
    add(s, "]}");
}

static void references_in_a_row(struct source *s)
{
    add(s, "{\"$ref\":\"#/$defs/0\",\"$defs\":{");
    for (int i = 0; i < 5000; i++)
        add(s, "\"%d\":{\"$ref\":\"#/$defs/%d\"},", i, i + 1);
    add(s, "\"5000\":{}}}");
}

static void many_ways_beside_a_length(struct source *s)
{
    add(s, "{\"properties\":{");
    for (int p = 0; p < 20; p++) {
        add(s, "%s\"%d\":{\"maxLength\":50,\"pattern\":\"^(", p > 0 ? "," : "", p);
        for (int i = 0; i < 1200; i++)
            add(s, "%s[ -~]{%d,%d}w%d", i > 0 ? "|" : "", i % 30 + 1, i % 30 + 8 + i % 7, i + p);
        add(s, ")$\"}");
    }
    add(s, "}}");
}

static void properties_of_characters(struct source *s)
{
    static const char *const names[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl"};
    add(s, "{\"pattern\":\"");
    for (int i = 0; i < 1500; i++)
        add(s, "\\\\p{%s}", names[i % 10]);
    add(s, "\"}");
}

static void constants_without_end(struct source *s)
{
    add(s, "{\"enum\":[");
    add_list(s, "[]", 600 * 1000);
    add(s, "]}");
}

static void one_large_constant(struct source *s)
{
    add(s, "{\"const\":[");
    add_list(s, "0", 1000 * 1000);
    add(s, "]}");
}

static void texts_without_end(struct source *s)
{
    add(s, "{\"enum\":[");
    add_list(s, "\"\"", 1200 * 1000);
    add(s, "]}");
}

static void required_without_end(struct source *s)
{
    add(s, "{\"required\":[");
    for (int i = 0; i < 400 * 1000; i++)
        add(s, "%s\"%x\"", i > 0 ? "," : "", i);
    add(s, "]}");
}

static void types_without_end(struct source *s)
{
    add(s, "{\"allOf\":[");
    for (int i = 0; i < 100; i++) {
        add(s, "%s{\"type\":[", i > 0 ? "," : "");
        add_list(s, "\"null\"", 15 * 1000);
        add(s, "]}");
    }
    add(s, "]}");
}

static void texts_that_begin_each_other(struct source *s)
{
    add(s, "{\"enum\":[");
    for (int i = 1; i <= 5000; i++) {
        add(s, "%s\"", i > 1 ? "," : "");
        add_run(s, 'a', (size_t)i);
        add(s, "\"");
    }
    add(s, "]}");
}

static void negated_prefixes(struct source *s)
{
    add(s, "{\"not\":{\"prefixItems\":[");
    add_list(s, "{\"type\":\"null\"}", 5000);
    add(s, "]}}");
}

static void overlapping_choices(struct source *s)
{
    add(s, "{\"oneOf\":[");
    for (int i = 0; i < 400; i++)
        add(s, "%s{\"minLength\":%d,\"pattern\":\"a%d\"}", i > 0 ? "," : "", i, i);
    add(s, "]}");
}

static void required_beside_choices(struct source *s)
{
    add(s, "{\"oneOf\":[");
    for (int i = 0; i < 60; i++) {
        add(s, "%s{\"type\":\"object\",\"properties\":{", i > 0 ? "," : "");
        for (int k = 0; k < 100; k++)
            add(s, "%s\"%d\":{\"const\":\"%d\"}", k > 0 ? "," : "", k, i);
        add(s, "},\"required\":[");
        add_list(s, "\"other\"", 8000);
        add(s, "]}");
    }
    add(s, "]}");
}

// --- GBNF ---

static void gbnf_many_rules(struct source *s)
{
    add(s, "root ::= \"x\"\n");
    for (int i = 0; i < 20000; i++)
        add(s, "%x ::= a\n", i + 100);
}

static void gbnf_nested_repeats(struct source *s)
{
    add(s, "root ::= ");
    for (int i = 0; i < 90; i++)
        add(s, "(\"a\"? ");
    for (int i = 0; i < 90; i++)
        add(s, "){0,90}");
    add(s, "\n");
}

static void gbnf_classes(struct source *s)
{
    add(s, "root ::= ");
    for (int i = 0; i < 10000; i++)
        add(s, "[\\u%04x-\\U%08x] ", 0x100 + 3 * i, 0x10000 + 11 * i);
}

// --- running a case ---

enum kind { SCHEMA, GBNF };
struct trial {
    enum kind kind;
    const struct source *source;
    json_t *schema;
    enum status status;
    struct error err;
};

static void *compile(void *context)
{
    struct trial *t = context;
    struct grammar *g = NULL;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t root = GRAMMAR_NOTHING;
    if (t->kind == GBNF)
        t->status = gbnf_compile(b, text_span(t->source->at, t->source->bytes), &root, &t->err);
    else
        t->status = schema_compile(b, &(struct schema_args){.schema = t->schema}, &root, &t->err);
    if (t->status == STATUS_OK)
        t->status = grammar_finish(b, root, &g, &t->err);
    else
        grammar_builder_destroy(b);
    grammar_unref(g);
    return NULL;
}

static size_t status_kib(const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoul(line + strlen(name), NULL, 10);
    if (file)
        fclose(file);
    return kib;
}

// Runs a case in the child process. Returns 0 or the exit status that names the failure.
static int run(struct trial *t, enum status wanted)
{
    struct rlimit cpu = {CPU_SECONDS, CPU_SECONDS}, none = {0, 0};
    pthread_attr_t attr;
    pthread_t thread;
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &none);
    if (t->kind == SCHEMA &&
        json_parse(&t->schema, text_span(t->source->at, t->source->bytes), &t->err) != STATUS_OK)
        return 4;
    FILE *peak = fopen("/proc/self/clear_refs", "we"); // resets the peak memory (VmHWM)
    if (peak) {
        fputs("5", peak);
        fclose(peak);
    }
    size_t before = status_kib("VmRSS:");
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (pthread_create(&thread, &attr, compile, t) != 0)
        return 5;
    pthread_join(thread, NULL);
    size_t held = (status_kib("VmHWM:") - before) << 10;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (loud || t->status != wanted || (!SANITIZED && held > BYTES_MOST))
        fprintf(stderr, "%s: %s, %zu KiB, %ld.%03ld s, %s\n", status_name(t->status),
                status_name(wanted), held >> 10, usage.ru_utime.tv_sec,
                usage.ru_utime.tv_usec / 1000, t->err.text);
    if (t->status != wanted)
        return 1;
    return !SANITIZED && held > BYTES_MOST ? 2 : 0;
}

static void ends(enum kind kind, void (*write)(struct source *), enum status wanted)
{
    int result;
    struct source source = {heap_alloc(SOURCE_MAX), 0};
    write(&source);
    struct trial t = {.kind = kind, .source = &source};
    pid_t child = fork();
    if (child == 0)
        _exit(run(&t, wanted));
    assert_int_equal(waitpid(child, &result, 0), child);
    heap_free(source.at);
    if (!WIFEXITED(result) || WEXITSTATUS(result) != 0)
        fail_msg("signal %d, result %d", WIFSIGNALED(result) ? WTERMSIG(result) : 0,
                 WIFEXITED(result) ? WEXITSTATUS(result) : 0);
}

static void test_hostile_schemas_are_bounded(void **state)
{
    (void)state;
    ends(SCHEMA, long_keys_above_many, STATUS_OK);
    ends(SCHEMA, one_long_key, STATUS_TOO_LARGE);
    ends(SCHEMA, all_of_many, STATUS_TOO_LARGE);
    ends(SCHEMA, all_of_few, STATUS_TOO_LARGE);
    ends(SCHEMA, references_by_resources, STATUS_TOO_LARGE);
    ends(SCHEMA, references_by_anchors, STATUS_TOO_LARGE);
    ends(SCHEMA, long_bases, STATUS_TOO_LARGE);
    ends(SCHEMA, constants_without_end, STATUS_TOO_LARGE);
    ends(SCHEMA, one_large_constant, STATUS_TOO_LARGE);
    ends(SCHEMA, texts_without_end, STATUS_TOO_LARGE);
    ends(SCHEMA, required_without_end, STATUS_TOO_LARGE);
    ends(SCHEMA, types_without_end, STATUS_OK);
    ends(SCHEMA, negated_prefixes, STATUS_TOO_LARGE);
    ends(SCHEMA, overlapping_choices, STATUS_TOO_LARGE);
    ends(SCHEMA, required_beside_choices, STATUS_TOO_LARGE);
}

static void test_hostile_patterns_are_bounded(void **state)
{
    (void)state;
    ends(SCHEMA, many_ways_beside_a_length, STATUS_TOO_LARGE);
    ends(SCHEMA, properties_of_characters, STATUS_OK);
}

static void test_nesting_fits_the_stack(void **state)
{
    (void)state;
    ends(SCHEMA, forks, STATUS_TOO_LARGE);
    ends(SCHEMA, references_in_a_row, STATUS_TOO_LARGE);
    ends(SCHEMA, texts_that_begin_each_other, STATUS_OK);
}

static void test_hostile_gbnf_is_bounded(void **state)
{
    (void)state;
    ends(GBNF, gbnf_many_rules, STATUS_OK);
    ends(GBNF, gbnf_nested_repeats, STATUS_OK);
    ends(GBNF, gbnf_classes, STATUS_OK);
}

int main(int argc, char **argv)
{
    (void)argv;
    loud = argc > 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_schemas_are_bounded),
        cmocka_unit_test(test_hostile_patterns_are_bounded),
        cmocka_unit_test(test_nesting_fits_the_stack),
        cmocka_unit_test(test_hostile_gbnf_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
