// SPDX-License-Identifier: Apache-2.0
// Names of models on the hub: which arguments are names, and what is a path or refused.
#include "cli/hub/name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *repo, *quant, *revision;
    } names[] = {
        {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", "", "main"},
        {"a_b/c-d.e", "a_b/c-d.e", "", "main"},
        {"unsloth/Qwen3-4B-GGUF:Q4_K_M", "unsloth/Qwen3-4B-GGUF", "Q4_K_M", "main"},
        {"a/b@refs/pr/1", "a/b", "", "refs/pr/1"},
        {"a/b:UD-Q2_K_XL@v1.0", "a/b", "UD-Q2_K_XL", "v1.0"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hub_name name;
        assert_true(hub_name_parse(&name, names[i].text));
        assert_string_equal(name.repo, names[i].repo);
        assert_string_equal(name.quant, names[i].quant);
        assert_string_equal(name.revision, names[i].revision);
    }
}

// None of these may become a path in the cache: a part of it could lead out of its folder.
static void test_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",         "a",        "a/",         "/a",     "a/b/c",  "./a",        "../a",    "a/..",
        "a/.b",     "a/b--c",   "a--b/c",     "a/b..c", "a/b c",  "a/b:",       "a/b@",    "a/b:Q@",
        "a/b:../x", "a/b@../x", "a/b@x/../y", "a/b@/x", "a/b@x/", "a/b@x:Q",    "a/b:Q/x", "a/b-",
        "-a/b",     "a:Q/b",    "a/b@x/.y",   "a/b\n",  "a/b@-x", "\xc3\xa4/b",
    };
    char longest[600];
    struct hub_name name;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (hub_name_parse(&name, texts[i]))
            fail_msg("'%s' is a name", texts[i]);
    for (const char *head = "abc"; *head != '\0'; head++) { // too long: ORG, NAME and QUANT
        memset(longest, 'x', sizeof longest);
        memcpy(longest + (*head == 'a' ? 97 : 5), "/", 1);
        memcpy(longest + (*head == 'c' ? 20 : 590), ":", 1);
        longest[595] = '\0';
        assert_false(hub_name_parse(&name, longest));
    }
}

static void test_paths_are_no_names(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_hub_names_XXXXXX";
    struct hub_name name;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_true(hub_name_is(&name, "org/name"));
    assert_false(hub_name_is(&name, "org/name.gguf"));
    assert_int_equal(mkdir("org", 0700), 0);
    assert_false(hub_name_is(&name, "org/none")); // a mistyped path
    assert_int_equal(mkdir("org/name", 0700), 0);
    assert_false(hub_name_is(&name, "org/name"));
    assert_int_equal(rmdir("org/name") + rmdir("org") + rmdir(folder), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_paths_are_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
