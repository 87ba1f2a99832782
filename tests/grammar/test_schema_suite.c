// SPDX-License-Identifier: Apache-2.0
// The JSON Schema Test Suite, if the assets are present. In each accepted group every valid
// instance can be produced and every invalid one cannot. A group that uses only the keywords every
// schema may use (MAY_USE) must not be refused, except the groups listed here with the reason.
// Other refusals are counted by keyword.
#include "tests/grammar/schema_rig.h"
#include "tests/assets.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEYWORDS_MAX = 64, GROUPS_MAX = 1000 };

struct suite {
    enum schema_draft draft;
    uint32_t groups, accepted, cases, wrong, excepted;
    uint32_t allowed, unlisted; // refused groups of MAY_USE: listed here, and not listed
    struct {
        char name[64];
        uint32_t count;
    } refused[KEYWORDS_MAX];
    uint64_t ns[GROUPS_MAX];
};

static void count_refusal(struct suite *s, const char *sentence)
{
    char word[64] = "?";
    sscanf(sentence, "the schema's %63s", word);
    for (int i = 0; i < KEYWORDS_MAX; i++)
        if (s->refused[i].count == 0 || strcmp(s->refused[i].name, word) == 0) {
            snprintf(s->refused[i].name, sizeof s->refused[i].name, "%s", word);
            s->refused[i].count++;
            return;
        }
}

// Groups with other verdicts than ours: format is only an annotation there, or the rule is not
// regular.
static bool is_excepted(const char *file, const char *group)
{
    return strcmp(file, "format.json") == 0 || strstr(group, "A-label (punycode)");
}

// Keywords that a schema may use anywhere, and the kind of their value: no schema, a schema or a
// list of schemas, or an object of schemas.
enum { NO_SCHEMA = 1, SCHEMAS, SCHEMA_MAP };
static const struct {
    const char *names;
    int under;
} MAY_USE[] = {
    {" type enum const required minLength maxLength minItems maxItems minProperties maxProperties"
     " minimum maximum exclusiveMinimum exclusiveMaximum multipleOf pattern format $ref $schema $id"
     " $comment title description default examples ",
     NO_SCHEMA},
    {" items prefixItems additionalItems additionalProperties anyOf oneOf allOf ", SCHEMAS},
    {" properties patternProperties $defs definitions ", SCHEMA_MAP},
};

static int under_keyword(const char *keyword)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", keyword);
    for (size_t i = 0; i < sizeof MAY_USE / sizeof *MAY_USE; i++)
        if (strstr(MAY_USE[i].names, word))
            return MAY_USE[i].under;
    return 0;
}

static bool uses_only_these(const json_t *schema)
{
    const char *key;
    const json_t *value;
    size_t i;
    if (json_is_array(schema))
        json_array_foreach(schema, i, value) if (!uses_only_these(value)) return false;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        int under = under_keyword(key);
        const char *name;
        const json_t *each;
        if (under == 0 || (under == SCHEMAS && !uses_only_these(value)))
            return false;
        if (under == SCHEMA_MAP)
            json_object_foreach((json_t *)(uintptr_t)value, name,
                                each) if (!uses_only_these(each)) return false;
    }
    return true;
}

// Groups of these keywords that may be refused nevertheless. group NULL: all groups of the file.
static bool may_be_refused(const char *file, const char *group, const char *sentence)
{
    static const struct {
        const char *file, *group; // NULL: any
        const char *reason;       // part of the error message
    } rows[] = {
        {NULL, NULL, "it leads out of the document"}, // references to other documents
        {NULL, NULL, "use draft 2020-12 or draft 7"}, // a metaschema in another document
        // Not regular, or dependent on Unicode tables: none of them is a common format.
        {"format.json", "idn-email format", "not supported: idn-email"},
        {"format.json", "idn-hostname format", "not supported: idn-hostname"},
        {"format.json", "regex format", "not supported: regex"},
        {"regex.json", NULL, "not supported: regex"},
        {"idn-hostname.json", NULL, "not supported: idn-hostname"},
        // A step of 0.123456789 has too many remainders for an automaton.
        {"multipleOf.json", "float division = inf", "more than 4000 states"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((!rows[i].file || strcmp(rows[i].file, file) == 0) &&
            (!rows[i].group || strcmp(rows[i].group, group) == 0) &&
            strstr(sentence, rows[i].reason))
            return true;
    return false;
}

static void count_group(struct suite *s, const char *file, const char *name, const json_t *schema,
                        const char *sentence)
{
    if (!uses_only_these(schema))
        return;
    bool may = may_be_refused(file, name, sentence);
    s->allowed += may;
    s->unlisted += !may;
    if (!may)
        printf("  UNLISTED %s: %s\n", file, name);
}

static void run_group(struct suite *s, const char *file, const json_t *group)
{
    struct schema_rig rig;
    const char *name = json_string_value(json_object_get(group, "description"));
    const json_t *tests = json_object_get(group, "tests");
    schema_rig_open(&rig, json_object_get(group, "schema"), s->draft);
    s->ns[s->groups++] = rig.ns;
    if (rig.status != STATUS_OK) {
        printf("  refused %s: %s: %s\n", file, name, rig.err.text);
        count_refusal(s, rig.err.text);
        count_group(s, file, name, json_object_get(group, "schema"), rig.err.text);
        schema_rig_close(&rig);
        return;
    }
    s->accepted++;
    bool excepted = is_excepted(file, name);
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const json_t *test = json_array_get(tests, i);
        bool want = json_is_true(json_object_get(test, "valid"));
        bool got = schema_rig_fits(&rig, json_object_get(test, "data"));
        s->cases++;
        if (got != want && !excepted) {
            printf("  WRONG %s: %s: %s: %d\n", file, name,
                   json_string_value(json_object_get(test, "description")), got);
            s->wrong++;
        }
        s->excepted += got != want && excepted;
    }
    schema_rig_close(&rig);
}

static void run_folder(struct suite *s, const char *path)
{
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char inner[4096];
        struct error err;
        json_t *groups;
        snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] == '.') {
            free(names[i]);
            continue;
        }
        if (!strstr(names[i]->d_name, ".json")) {
            run_folder(s, inner);
        } else {
            if (json_file_parse(&groups, inner, 16u << 20, &err) != STATUS_OK)
                fail_msg("%s", err.text);
            for (size_t k = 0; k < json_array_size(groups); k++)
                run_group(s, names[i]->d_name, json_array_get(groups, k));
            json_decref(groups);
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
}

static int compare_ns(const void *one, const void *other)
{
    uint64_t x = *(const uint64_t *)one, y = *(const uint64_t *)other;
    return (x > y) - (x < y);
}

struct refusals {
    const char *keyword; // NULL: end of the list
    uint32_t count;
};

// Checks that each listed keyword refuses exactly its count of groups, and no other keyword refuses
// any.
static void check_refusals(const struct suite *s, const struct refusals *want)
{
    uint32_t kinds = 0;
    for (; want[kinds].keyword; kinds++) {
        uint32_t count = 0;
        for (int i = 0; i < KEYWORDS_MAX && s->refused[i].count > 0; i++)
            if (strcmp(s->refused[i].name, want[kinds].keyword) == 0)
                count = s->refused[i].count;
        if (count != want[kinds].count)
            fail_msg("%s refuses %u groups, not %u", want[kinds].keyword, count, want[kinds].count);
    }
    for (uint32_t i = kinds; i < KEYWORDS_MAX; i++)
        if (s->refused[i].count > 0)
            fail_msg("%u keywords refuse groups, and more do", kinds);
}

static void check_draft(const char *folder, enum schema_draft draft, uint32_t least_percent,
                        const struct refusals *refusals)
{
    static struct suite both[2];
    struct suite *s = &both[draft == SCHEMA_DRAFT_7];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", assets_path("schema/JSON-Schema-Test-Suite/tests"),
             folder);
    s->draft = draft;
    run_folder(s, path);
    if (s->groups == 0)
        skip(); // the assets are absent
    qsort(s->ns, s->groups, sizeof *s->ns, compare_ns);
    printf("%s: %u of %u groups accepted, %u instances, %u wrong, %u excepted; compile p50 %.2f ms,"
           " p90 %.2f ms, most %.2f ms\n",
           folder, s->accepted, s->groups, s->cases, s->wrong, s->excepted,
           (double)s->ns[s->groups / 2] * 1e-6, (double)s->ns[s->groups * 9 / 10] * 1e-6,
           (double)s->ns[s->groups - 1] * 1e-6);
    for (int i = 0; i < KEYWORDS_MAX && s->refused[i].count > 0; i++)
        printf("  %s: %u\n", s->refused[i].name, s->refused[i].count);
    assert_int_equal(s->wrong, 0);
    assert_int_equal(s->unlisted, 0);
    assert_true(s->allowed > 0);
    check_refusals(s, refusals);
    assert_true(s->accepted * 100 >= s->groups * least_percent);
}

static void test_draft_7(void **state)
{
    (void)state;
    static const struct refusals refusals[] = {
        {"$ref", 12}, {"format", 6}, {"multipleOf", 1}, {"uniqueItems", 3}, {NULL, 0}};
    check_draft("draft7", SCHEMA_DRAFT_7, 65, refusals);
}

static void test_draft_2020_12(void **state)
{
    (void)state;
    static const struct refusals refusals[] = {{"$ref", 22},
                                               {"$dynamicRef", 9},
                                               {"format", 6},
                                               {"multipleOf", 1},
                                               {"unevaluatedProperties", 1},
                                               {"$schema", 4},
                                               {"uniqueItems", 3},
                                               {NULL, 0}};
    check_draft("draft2020-12", SCHEMA_DRAFT_2020, 50, refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_7),
        cmocka_unit_test(test_draft_2020_12),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
