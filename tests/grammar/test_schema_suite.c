// The JSON Schema Test Suite, where the assets are: of each group that is accepted every valid
// instance is producible and every invalid one is not. Prints what is refused, by keyword.
#include "tests/grammar/schema_rig.h"

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

// Groups whose verdicts are not ours: format says nothing there, or rules that are not regular.
static bool is_excepted(const char *file, const char *group)
{
    return strcmp(file, "format.json") == 0 || strstr(group, "A-label (punycode)");
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

static void check_draft(const char *folder, enum schema_draft draft, uint32_t least_percent)
{
    static struct suite both[2];
    struct suite *s = &both[draft == SCHEMA_DRAFT_7];
    char path[4096];
    snprintf(path, sizeof path, "%s/schema/JSON-Schema-Test-Suite/tests/%s", WEFT_ASSETS_DIR,
             folder);
    s->draft = draft;
    run_folder(s, path);
    if (s->groups == 0)
        skip(); // the assets are not here
    qsort(s->ns, s->groups, sizeof *s->ns, compare_ns);
    printf("%s: %u of %u groups accepted, %u instances, %u wrong, %u excepted; compile p50 %.2f ms,"
           " p90 %.2f ms, most %.2f ms\n",
           folder, s->accepted, s->groups, s->cases, s->wrong, s->excepted,
           (double)s->ns[s->groups / 2] * 1e-6, (double)s->ns[s->groups * 9 / 10] * 1e-6,
           (double)s->ns[s->groups - 1] * 1e-6);
    for (int i = 0; i < KEYWORDS_MAX && s->refused[i].count > 0; i++)
        printf("  %s: %u\n", s->refused[i].name, s->refused[i].count);
    assert_int_equal(s->wrong, 0);
    assert_true(s->accepted * 100 >= s->groups * least_percent);
}

static void test_draft_7(void **state)
{
    (void)state;
    check_draft("draft7", SCHEMA_DRAFT_7, 65);
}

static void test_draft_2020_12(void **state)
{
    (void)state;
    check_draft("draft2020-12", SCHEMA_DRAFT_2020, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_7),
        cmocka_unit_test(test_draft_2020_12),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
