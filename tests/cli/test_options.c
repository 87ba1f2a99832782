// Option tables: every row of the real tables accepts its range and refuses what lies outside, with
// the option's name in the sentence; model arguments with options after the folder.
#include "cli/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct parsed {
    struct serve_settings serve;
    struct device_settings device;
    struct model_settings model;
    struct texts positional;
    bool help;
};

static struct arena *arena;

static enum status parse(struct parsed *p, const char *line, struct error *err)
{
    char *argv[32];
    int argc = 0;
    char *rest = (char *)arena_copy(arena, text_of(line)).at;
    for (char *word = strtok_r(rest, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    serve_settings_init(&p->serve);
    device_settings_init(&p->device);
    model_settings_init(&p->model);
    p->help = false;
    const struct option_table tables[] = {serve_options_table, device_options_table,
                                          model_options_table};
    void *const fields[] = {&p->serve, &p->device, &p->model};
    struct options_parse_args args = {argc, argv,  tables,         fields,
                                      3,    arena, &p->positional, &p->help};
    return options_parse(&args, err);
}

static void test_values(void **state)
{
    (void)state;
    struct parsed p;
    struct error err;
    assert_int_equal(parse(&p,
                           "a --port 9000 --dtype=int8 b --no-enable-prefix-caching --exact "
                           "--kv-cache-memory 2G --api-key k1 --api-key k2 --http2 off "
                           "--shutdown-timeout 1.5 -- --c",
                           &err),
                     STATUS_OK);
    assert_int_equal(p.serve.port, 9000);
    assert_int_equal(p.model.dtype, 4);
    assert_false(p.model.enable_prefix_caching);
    assert_int_equal(p.device.exact, 1);
    assert_true(p.model.kv_cache_memory == 2ull << 30);
    assert_int_equal(p.serve.api_keys.count, 2);
    assert_string_equal(p.serve.api_keys.at[1], "k2");
    assert_int_equal(p.serve.http2, 1);
    assert_true(p.serve.shutdown_timeout == 1.5);
    assert_int_equal(p.positional.count, 3);
    assert_string_equal(p.positional.at[2], "--c");
    assert_int_equal(parse(&p, "--no-exact --help", &err), STATUS_OK);
    assert_int_equal(p.device.exact, 0);
    assert_true(p.help);
    assert_int_equal(parse(&p, "", &err), STATUS_OK);
    assert_int_equal(p.device.exact, -1);
}

static void refused(const char *line, const char *says)
{
    struct parsed p;
    struct error err = {0};
    assert_int_equal(parse(&p, line, &err), STATUS_INVALID);
    if (!strstr(err.text, says))
        fail_msg("'%s' gives '%s', which does not say '%s'", line, err.text, says);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("--port 65536", "--port must be a whole number from 0 to 65535, got '65536'");
    refused("--port -1", "--port");
    refused("--port 1.5", "--port");
    refused("--port x", "--port");
    refused("--port", "--port needs a value");
    refused("--dtype int3", "auto, float32, bfloat16, float16, int8");
    refused("--kv-cache-memory 3Q", "--kv-cache-memory");
    refused("--nothing", "unknown option --nothing");
    refused("--no-port", "unknown option --no-port");
    refused("-x", "unknown option -x");
    refused("--enable-prefix-caching=perhaps", "true or false");
    refused("--kv-share nan", "--kv-share");
    refused("--step-stretch -1", "--step-stretch");
    refused("--step-stretch nan", "--step-stretch");
    refused("--no-exact=true", "--no-exact takes no value");
}

static void test_every_number_row(void **state)
{
    (void)state;
    const struct option_table *tables[] = {&serve_options_table, &device_options_table,
                                           &model_options_table};
    for (int t = 0; t < 3; t++) {
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            const struct option_row *row = &tables[t]->rows[i];
            assert_non_null(row->help);
            assert_non_null(row->fallback);
            if (row->kind != OPTION_COUNT && row->kind != OPTION_REAL)
                continue;
            char line[128];
            struct parsed p;
            struct error err;
            snprintf(line, sizeof line, "--%s %.10g", row->name, row->high);
            assert_int_equal(parse(&p, line, &err), STATUS_OK);
            snprintf(line, sizeof line, "--%s %.10g", row->name, row->high * 2 + 1);
            assert_int_equal(parse(&p, line, &err), STATUS_INVALID);
            snprintf(line, sizeof line, "--%s %.10g", row->name, row->low - 1);
            assert_int_equal(parse(&p, line, &err), STATUS_INVALID);
        }
    }
}

// A default that is written "0: ..." can be given as 0.
static void test_zero_stands_for_the_default(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < model_options_table.count; i++) {
        const struct option_row *row = &model_options_table.rows[i];
        if (row->fallback[0] == '0')
            assert_true(row->low == 0);
    }
}

static void test_model_argument(void **state)
{
    (void)state;
    struct model_settings all;
    model_settings_init(&all);
    all.dtype = 1;
    struct model_spec spec;
    struct error err;
    assert_int_equal(model_spec_parse(&spec, "models/a-b/", &all, arena, &err), STATUS_OK);
    assert_string_equal(spec.id, "a-b");
    assert_int_equal(spec.settings.dtype, 1);
    assert_int_equal(model_spec_parse(&spec,
                                      "org/x=models/a\\,b,dtype=int8,max-model-len=77,"
                                      "enable-prefix-caching=false",
                                      &all, arena, &err),
                     STATUS_OK);
    assert_string_equal(spec.id, "org/x");
    assert_int_equal(model_spec_parse(&spec,
                                      "x=models/a\\,b,dtype=int8,max-model-len=77,"
                                      "enable-prefix-caching=false",
                                      &all, arena, &err),
                     STATUS_OK);
    assert_string_equal(spec.id, "x");
    assert_string_equal(spec.folder, "models/a,b");
    assert_int_equal(spec.settings.dtype, 4);
    assert_int_equal(spec.settings.max_model_len, 77);
    assert_false(spec.settings.enable_prefix_caching);
    assert_int_equal(model_spec_parse(&spec, "m,port=1", &all, arena, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "unknown model option 'port'"));
    assert_int_equal(model_spec_parse(&spec, "m,dtype", &all, arena, &err), STATUS_INVALID);
    assert_int_equal(model_spec_parse(&spec, "x=", &all, arena, &err), STATUS_INVALID);
    assert_int_equal(model_spec_parse(&spec, "", &all, arena, &err), STATUS_INVALID);
    struct model_options options;
    model_settings_to_options(&all, &options);
    assert_int_equal(options.dtype, DTYPE_F32);
    all.dtype = 0;
    model_settings_to_options(&all, &options);
    assert_int_equal(options.dtype, -1);
}

struct whole {
    int64_t value;
};

// Every 64-bit number is accepted as it is, and nothing else.
static void test_integers(void **state)
{
    (void)state;
    static const struct option_row row = {
        "seed", OPTION_INTEGER, offsetof(struct whole, value), 0, 0, {0}, "0", "a number"};
    static const struct option_table table = {&row, 1};
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-1", -1},
                {"9007199254740993", 9007199254740993},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {"", "x", "1.5", "1.5e18", "1x", "9223372036854775808", "nan"};
    struct whole got;
    struct error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(option_assign(&table, &got, "seed", good[i].text, arena, &err), STATUS_OK);
        assert_true(got.value == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(option_assign(&table, &got, "seed", bad[i], arena, &err), STATUS_INVALID);
}

int main(void)
{
    arena = arena_create(0, 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_every_number_row),
                                       cmocka_unit_test(test_model_argument),
                                       cmocka_unit_test(test_zero_stands_for_the_default),
                                       cmocka_unit_test(test_integers)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_destroy(arena);
    return failed;
}
