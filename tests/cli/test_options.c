// SPDX-License-Identifier: Apache-2.0
// Option tables: every row of the real tables accepts its range and refuses values outside it, with
// the option's name in the sentence; model arguments with options after the folder.
#include "cli/settings.h"
#include "cli/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
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
    struct options_parse_args args = {argc,  argv,           tables,   fields, 3,
                                      arena, &p->positional, &p->help, NULL};
    return options_parse(&args, err);
}

static void test_values(void **state)
{
    (void)state;
    struct parsed p;
    struct error err;
    assert_int_equal(
        parse(
            &p,
            "a --port 9000 --dtype=int8 b --no-enable-prefix-caching --exact "
            "--kv-cache-memory 2G --api-key k1 --api-key k2 --allowed-origins http://a --http2 off "
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
    assert_int_equal(p.serve.allowed_origins.count, 1);
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
    refused("--port 2.0", "--port must be a whole number from 0 to 65535, got '2.0'");
    refused("--port 2e3", "--port must be a whole number from 0 to 65535, got '2e3'");
    refused("--port 0x50", "--port must be a whole number from 0 to 65535, got '0x50'");
    refused("--port +80", "--port must be a whole number from 0 to 65535, got '+80'");
    refused("--port -1", "--port");
    refused("--port 1.5", "--port");
    refused("--port x", "--port");
    refused("--port", "--port needs a value");
    refused("--dtype int3", "auto, float32, bfloat16, float16, int8");
    refused("--kv-cache-memory 3Q", "--kv-cache-memory");
    refused("--nothing", "unknown option --nothing");
    refused("--no-port", "unknown option --no-port (see --help)");
    refused("-x", "unknown option -x (see --help)");
    refused("--enable-prefix-caching=perhaps", "true or false");
    refused("--kv-share nan", "--kv-share");
    refused("--step-stretch -1", "--step-stretch");
    refused("--step-stretch nan", "--step-stretch");
    refused("--no-exact=true", "--no-exact accepts no value");
}

// A suggestion differs in at most two letters. The nearest name is suggested, of several the first.
static void test_suggested_names(void **state)
{
    (void)state;
    refused("--prot", "unknown option --prot, did you mean '--port'? (see --help)");
    refused("--prt", "did you mean '--port'?");
    refused("--dtypes=int8", "unknown option --dtypes, did you mean '--dtype'? (see --help)");
    refused("--kv-share1x 1", "did you mean '--kv-share'?");
    refused("--kv-share12x 1", "unknown option --kv-share12x (see --help)");
    refused("--no-exat", "unknown option --no-exat, did you mean '--no-exact'? (see --help)");
    refused("--no-prot", "unknown option --no-prot (see --help)"); // --port is not a flag
    refused("--h", "unknown option --h (see --help)");
    struct near near = {.given = "abcd"};
    static const char *const names[] = {"abcdefg", "xycd", "bcd", "abc", "ab"};
    static const char *const nearest[] = {NULL, "xycd", "bcd", "bcd", "bcd"};
    for (int i = 0; i < 5; i++) {
        near_offer(&near, names[i]);
        assert_true(near.name == nearest[i] || strcmp(near.name, nearest[i]) == 0);
    }
    assert_string_equal(near_text(&near, "-").at, ", did you mean '-bcd'?");
    char longer[65] = "";
    memset(longer, 'x', 64);
    near = (struct near){.given = longer};
    near_offer(&near, longer);
    assert_null(near.name);
    near = (struct near){.given = "no"};
    near_offer(&near, "of"); // no letter in common
    assert_null(near.name);
}

static void test_devices(void **state)
{
    (void)state;
    struct parsed p;
    struct error err;
    assert_int_equal(parse(&p, "--device cuda:3,0,63 --data-parallel-size 3", &err), STATUS_OK);
    assert_int_equal(p.model.device.kind, DEVICE_CUDA);
    assert_int_equal(p.model.device.count, 3);
    assert_int_equal(p.model.device.at[0], 3);
    assert_int_equal(p.model.device.at[1], 0);
    assert_int_equal(p.model.device.at[2], 63);
    assert_int_equal(p.model.data_parallel_size, 3);
    assert_int_equal(parse(&p, "--device simt:1 --device=auto", &err), STATUS_OK);
    assert_int_equal(p.model.device.kind, DEVICE_AUTO);
    assert_int_equal(p.model.device.count, 0);
    refused("--device cpu:0", "--device: 'cpu' accepts no numbers, got 'cpu:0'");
    refused("--device auto:1", "'auto' accepts no numbers");
    refused("--device gpu:1", "auto, cpu, cuda, simt, got 'gpu'");
    static const char *const bad[] = {"",
                                      "x",
                                      "1,",
                                      ",1",
                                      "1,1",
                                      "64",
                                      "-1",
                                      "+1",
                                      "0x1",
                                      "1;2",
                                      "99999999999999999999",
                                      "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[128];
        snprintf(line, sizeof line, "--device cuda:%s", bad[i]);
        refused(line, "accepts at most 16 numbers from 0 to 63, each once");
    }
    assert_int_equal(parse(&p, "--device cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", &err),
                     STATUS_OK);
    assert_int_equal(p.model.device.count, OPTION_DEVICES_MAX);
    struct model_spec spec;
    assert_int_equal(
        model_spec_parse(&spec, "m,device=cuda:1\\,2,data-parallel-size=2", &p.model, arena, &err),
        STATUS_OK);
    assert_int_equal(spec.settings.device.count, 2);
    assert_int_equal(spec.settings.device.at[1], 2);
    assert_int_equal(spec.settings.data_parallel_size, 2);
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
static void test_zero_is_the_default(void **state)
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
    assert_int_equal(spec.names.count, 1);
    assert_int_equal(model_spec_parse(&spec, "x=m,served-model-name=gpt-5,served-model-name=b/c",
                                      &all, arena, &err),
                     STATUS_OK);
    assert_string_equal(spec.id, "gpt-5");
    assert_int_equal(spec.names.count, 3);
    assert_string_equal(spec.names.at[1], "b/c");
    assert_string_equal(spec.names.at[2], "x");
    assert_int_equal(model_spec_parse(&spec, "m,served-model-name=", &all, arena, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "served-model-name"));
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
    assert_int_equal(model_spec_parse(&spec, "m,device=cuda:0,1", &all, arena, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "'1': a comma inside a value is written '\\,'"));
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

// Exactly the 64-bit integers are accepted, without rounding.
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

// Default values equal those in the help text.
static void test_defaults(void **state)
{
    (void)state;
    struct parsed p;
    struct error err;
    assert_int_equal(parse(&p, "", &err), STATUS_OK);
    assert_string_equal(p.serve.host, "127.0.0.1");
    assert_int_equal(p.serve.port, 8000);
    assert_int_equal(p.serve.api_keys.count, 0);
    assert_null(p.serve.api_key_file);
    assert_int_equal(p.serve.http_threads, 1);
    assert_null(p.serve.ssl_certfile);
    assert_null(p.serve.ssl_keyfile);
    assert_int_equal(p.serve.http2, 2); // auto
    assert_true(p.serve.shutdown_timeout == 30);
    assert_int_equal(p.serve.connections_max, 16384);
    assert_int_equal(p.serve.max_body_memory, 0);
    assert_null(p.device.device_library);
    assert_null(p.device.device_cache);
    assert_int_equal(p.device.exact, -1);
    assert_int_equal(p.device.overlap_kernels, 1);
    assert_int_equal(p.device.threads, 0);
    assert_int_equal(p.device.log_level, 2); // info
    assert_int_equal(p.device.log_format, 0);
    assert_int_equal(p.model.device.kind, DEVICE_AUTO);
    assert_int_equal(p.model.device.count, 0);
    assert_int_equal(p.model.data_parallel_size, 1);
    assert_int_equal(p.model.dtype, 0);
    assert_int_equal(p.model.kv_cache_dtype, 0);
    assert_int_equal(p.model.max_model_len, 0);
    assert_int_equal(p.model.max_num_seqs, 0);
    assert_int_equal(p.model.max_num_batched_tokens, 0);
    assert_int_equal(p.model.block_size, 0);
    assert_int_equal(p.model.kv_cache_memory, 0);
    assert_true(p.model.kv_share == 1);
    assert_true(p.model.step_stretch == -1);
    assert_null(p.model.chat_template);
    assert_null(p.model.generation_config);
    assert_false(has_sampling_defaults(&p.model));
    assert_int_equal(p.model.rerank_prompt, 0);
    assert_int_equal(p.model.special_tokens_in_text, -1);
    assert_int_equal(p.model.max_queued_requests, 2048);
    assert_int_equal(p.model.max_queued_tokens, 0);
    assert_int_equal(p.model.max_result_bytes, 256 << 20);
    assert_true(p.model.enable_prefix_caching);
    assert_int_equal(p.model.load_format, 0);
}

// Every option sets its field and no other: each is given a different value.
static void test_every_option_has_its_field(void **state)
{
    (void)state;
    struct parsed p;
    struct error err;
    assert_int_equal(
        parse(&p,
              "--device simt --dtype float16 --kv-cache-dtype bfloat16 --max-model-len 11 "
              "--max-num-seqs 12 --max-num-batched-tokens 13 --block-size 14",
              &err),
        STATUS_OK);
    assert_int_equal(p.model.device.kind, DEVICE_SIMT);
    assert_int_equal(p.model.device.count, 0);
    assert_int_equal(p.model.dtype, 3);
    assert_int_equal(p.model.kv_cache_dtype, 2);
    assert_int_equal(p.model.max_model_len, 11);
    assert_int_equal(p.model.max_num_seqs, 12);
    assert_int_equal(p.model.max_num_batched_tokens, 13);
    assert_int_equal(p.model.block_size, 14);
    struct model_options options;
    model_settings_to_options(&p.model, &options);
    assert_int_equal(options.dtype, DTYPE_F16);
    assert_int_equal(options.kv_dtype, DTYPE_BF16);
    assert_int_equal(options.max_model_len, 11);
    assert_int_equal(options.max_num_seqs, 12);
    assert_int_equal(options.max_num_batched_tokens, 13);
    assert_int_equal(options.block_size, 14);
    assert_false(options.load_dummy);
    assert_int_equal(options.rerank, 0);
    assert_int_equal(options.penalty_rows, -1);
    assert_int_equal(p.model.max_n, 8);
    assert_int_equal(p.model.max_prompts, 128);
    assert_int_equal(
        parse(&p,
              "--kv-cache-memory 15 --kv-share 16 --step-stretch 17 --chat-template a "
              "--generation-config auto --rerank-prompt yes-no --special-tokens-in-text "
              "--max-queued-requests 18 --max-queued-tokens 19 --max-result-bytes 2K "
              "--load-format dummy --max-n 20 --max-prompts 22 --penalty-rows 21 "
              "--default-prompt-name q --max-client-batch-size 23",
              &err),
        STATUS_OK);
    model_settings_to_options(&p.model, &options);
    assert_int_equal(options.penalty_rows, 21);
    assert_int_equal(p.model.max_n, 20);
    assert_int_equal(p.model.max_prompts, 22);
    assert_string_equal(p.model.default_prompt_name, "q");
    assert_int_equal(p.model.max_client_batch_size, 23);
    assert_int_equal(p.model.kv_cache_memory, 15);
    assert_true(p.model.kv_share == 16);
    assert_true(p.model.step_stretch == 17);
    assert_string_equal(p.model.chat_template, "a");
    assert_string_equal(p.model.generation_config, "auto");
    assert_true(has_sampling_defaults(&p.model));
    assert_int_equal(p.model.rerank_prompt, 2);
    assert_int_equal(p.model.special_tokens_in_text, 1);
    assert_int_equal(p.model.max_queued_requests, 18);
    assert_int_equal(p.model.max_queued_tokens, 19);
    assert_int_equal(p.model.max_result_bytes, 2048);
    assert_int_equal(p.model.load_format, 1);
    model_settings_to_options(&p.model, &options);
    assert_true(options.load_dummy);
    assert_int_equal(options.rerank, 2);
    assert_int_equal(options.kv_dtype, -1);
    for (int i = 5; i <= 6; i++) { // fp8, fp8_e4m3
        p.model.kv_cache_dtype = i;
        model_settings_to_options(&p.model, &options);
        assert_int_equal(options.kv_dtype, DTYPE_E4M3);
    }
    assert_int_equal(parse(&p,
                           "--device-library b --device-cache c --threads 21 --log-level error "
                           "--no-overlap-kernels "
                           "--log-format json --host d --port 22 --api-key-file e",
                           &err),
                     STATUS_OK);
    assert_string_equal(p.device.device_library, "b");
    assert_string_equal(p.device.device_cache, "c");
    assert_int_equal(p.device.overlap_kernels, 0);
    assert_int_equal(p.device.threads, 21);
    assert_int_equal(p.device.log_level, 0);
    assert_int_equal(p.device.log_format, 1);
    assert_string_equal(p.serve.host, "d");
    assert_int_equal(p.serve.port, 22);
    assert_string_equal(p.serve.api_key_file, "e");
    assert_int_equal(parse(&p,
                           "--http-threads 23 --ssl-certfile f --ssl-keyfile g --http2 on "
                           "--ssl-ciphers h --core-dumps --prefix-cache-scope all "
                           "--max-connections 24 --max-body-memory 64M --payload-limit 2M",
                           &err),
                     STATUS_OK);
    assert_int_equal(p.serve.http_threads, 23);
    assert_string_equal(p.serve.ssl_certfile, "f");
    assert_string_equal(p.serve.ssl_keyfile, "g");
    assert_string_equal(p.serve.ssl_ciphers, "h");
    assert_int_equal(p.serve.core_dumps, 1);
    assert_int_equal(p.model.prefix_cache_scope, 0);
    assert_int_equal(p.serve.http2, 0);
    assert_int_equal(p.serve.connections_max, 24);
    assert_int_equal(p.serve.max_body_memory, 64 << 20);
    assert_int_equal(p.serve.payload_limit, 2 << 20);
}

static void test_bytes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},       {"1", 1},       {"1000", 1000},  {"1K", 1024},         {"1k", 1024},
        {"1KB", 1024},  {"1KiB", 1024}, {"3M", 3 << 20}, {"2G", 2ull << 30},   {"1T", 1ull << 40},
        {"1.5K", 1536}, {"0.5k", 512},  {"1e3", 1000},   {"1024T", 1ull << 50}};
    static const char *const wrong[] = {"",    "K",    "1B",   "1X",    "1KX", "1KiBs",
                                        "-1K", "1.3",  "0.3K", "1025T", "inf", "nan",
                                        "1Ki", "1kib", "1e99", "1e999"};
    (void)state;
    char line[64];
    struct parsed p;
    struct error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(line, sizeof line, "--kv-cache-memory %s", good[i].text);
        if (parse(&p, line, &err) != STATUS_OK || p.model.kv_cache_memory != good[i].bytes)
            fail_msg("%s: %llu", good[i].text, (unsigned long long)p.model.kv_cache_memory);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(line, sizeof line, "--kv-cache-memory=%s", wrong[i]);
        if (parse(&p, line, &err) != STATUS_INVALID)
            fail_msg("%s: %llu", wrong[i], (unsigned long long)p.model.kv_cache_memory);
    }
}

// The forms of flags, and the separator between options and other words.
static void test_forms(void **state)
{
    static const struct {
        const char *line;
        bool caching;
        int exact;
    } flags[] = {{"--enable-prefix-caching", true, -1},
                 {"--no-enable-prefix-caching", false, -1},
                 {"--enable-prefix-caching=false", false, -1},
                 {"--enable-prefix-caching=off", false, -1},
                 {"--no-enable-prefix-caching --enable-prefix-caching=on", true, -1},
                 {"--no-enable-prefix-caching --enable-prefix-caching=true", true, -1},
                 {"--exact=off", true, 0},
                 {"--exact", true, 1},
                 {"--exact --no-exact", true, 0}};
    (void)state;
    struct parsed p;
    struct error err;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        assert_int_equal(parse(&p, flags[i].line, &err), STATUS_OK);
        assert_int_equal(p.model.enable_prefix_caching, flags[i].caching);
        assert_int_equal(p.device.exact, flags[i].exact);
        assert_int_equal(p.positional.count, 0);
    }
    assert_int_equal(parse(&p, "--enable-prefix-caching a", &err), STATUS_OK);
    assert_int_equal(p.positional.count, 1); // a flag does not use the next word
    assert_int_equal(parse(&p, "- -- -v --help -h --", &err), STATUS_OK);
    assert_int_equal(p.positional.count, 5);
    assert_string_equal(p.positional.at[0], "-");
    assert_string_equal(p.positional.at[4], "--");
    assert_false(p.help);
    assert_int_equal(p.device.log_level, 2);
    assert_int_equal(parse(&p, "-v", &err), STATUS_OK);
    assert_int_equal(p.device.log_level, 3); // debug
    assert_int_equal(parse(&p, "a -h", &err), STATUS_OK);
    assert_true(p.help);
    assert_int_equal(parse(&p, "--port 1 --port=2", &err), STATUS_OK); // the last one wins
    assert_int_equal(p.serve.port, 2);
    assert_int_equal(parse(&p, "--host --port 1", &err), STATUS_OK); // a value like an option
    assert_string_equal(p.serve.host, "--port");
    assert_int_equal(parse(&p, "--chat-template a=b=c", &err), STATUS_OK);
    assert_string_equal(p.model.chat_template, "a=b=c");
    assert_int_equal(parse(&p, "--chat-template=a=b", &err), STATUS_OK);
    assert_string_equal(p.model.chat_template, "a=b");
    refused("--enable-prefix-caching=no",
            "--enable-prefix-caching must be true or false, got 'no'");
    refused("--no-", "unknown option --no- (see --help)");
    refused("---port", "unknown option ---port, did you mean '--port'? (see --help)");
    refused("-port", "unknown option -port, did you mean '--port'? (see --help)");
    refused("--dtype", "--dtype needs a value");
    refused("--dtype int3",
            "--dtype must be one of auto, float32, bfloat16, float16, int8, int4, fp8, got 'int3'");
    refused("--max-body-memory 1M", "--max-body-memory must be a number from 67108864 to ");
    refused("--shutdown-timeout 1e9", "--shutdown-timeout must be a number from 0 to 86400");
    refused("--http-threads 0", "--http-threads must be a whole number from 1 to 64, got '0'");
}

// Folders and names of models on a command line.
static void test_names_of_models(void **state)
{
    static const struct {
        const char *text, *id, *folder;
    } names[] = {{"a", "a", "a"},
                 {"/a/b", "b", "/a/b"},
                 {"a/b//", "b", "a/b//"},
                 {"x=a/b", "x", "a/b"},
                 {"x=a=b", "x", "a=b"},
                 {"a\\,b", "a,b", "a,b"},
                 {"x=a\\,b,dtype=int8", "x", "a,b"},
                 {"a\\b", "a\\b", "a\\b"}};
    (void)state;
    struct model_settings all;
    model_settings_init(&all);
    struct model_spec spec;
    struct error err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(model_spec_parse(&spec, names[i].text, &all, arena, &err), STATUS_OK);
        if (strcmp(spec.id, names[i].id) != 0 || strcmp(spec.folder, names[i].folder) != 0)
            fail_msg("%s: '%s' in '%s'", names[i].text, spec.id, spec.folder);
    }
    static const char *const wrong[] = {
        "=a",          "x=",           "",       ",dtype=int8", "x=,dtype=int8", "a,", "/",
        "a,nothing=1", "a,dtype=int3", "a,dtype"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (model_spec_parse(&spec, wrong[i], &all, arena, &err) == STATUS_OK)
            fail_msg("%s is taken", wrong[i]);
    assert_int_equal(model_spec_parse(&spec, "m,dtype=int3", &all, arena, &err), STATUS_INVALID);
    assert_ptr_equal(strstr(err.text, "model 'm': "), err.text);
    assert_int_equal(
        model_spec_parse(&spec, "m,special-tokens-in-text,kv-share=2", &all, arena, &err),
        STATUS_OK);
    assert_int_equal(spec.settings.special_tokens_in_text, 1);
    assert_true(spec.settings.kv_share == 2);
    assert_true(all.kv_share == 1); // only of that model
    assert_int_equal(model_spec_find(&spec, "/tmp", &all, arena, &err), STATUS_OK);
    assert_string_equal(spec.id, "tmp");
    assert_int_equal(model_spec_find(&spec, "/tmp/.", &all, arena, &err), STATUS_OK);
    assert_string_equal(spec.id, "tmp");
    assert_int_equal(model_spec_find(&spec, "/tmp/..", &all, arena, &err), STATUS_OK);
    assert_string_equal(spec.id, ""); // the root has no name
    assert_int_equal(model_spec_find(&spec, "", &all, arena, &err), STATUS_INVALID);
}

static void test_sampling_defaults(void **state)
{
    (void)state;
    struct parsed p;
    struct error err;
    assert_int_equal(parse(&p, "--generation-config a.json", &err), STATUS_OK);
    assert_true(has_sampling_defaults(&p.model));
    assert_int_equal(parse(&p, "--generation-config none", &err), STATUS_OK);
    assert_false(has_sampling_defaults(&p.model));
}

// Commands other than serve lack the options of serving, but have those that influence a result.
static void test_options_of_one_request(void **state)
{
    static const char *const none[] = {"served-model-name",     "kv-share",
                                       "step-stretch",          "generation-config",
                                       "max-queued-requests",   "max-queued-tokens",
                                       "max-result-bytes",      "enable-prefix-caching",
                                       "prefix-cache-scope",    "max-n",
                                       "max-prompts",           "penalty-rows",
                                       "max-client-batch-size", "data-parallel-size",
                                       "tool-call-grammar",     "kv-events",
                                       "kv-events-replay",      "kv-events-topic"};
    static const char *const some[] = {"device",
                                       "dtype",
                                       "max-model-len",
                                       "chat-template",
                                       "rerank-prompt",
                                       "default-prompt-name",
                                       "special-tokens-in-text",
                                       "load-format",
                                       "kv-cache-memory",
                                       "max-num-batched-tokens"};
    (void)state;
    struct model_settings settings;
    struct error err;
    model_settings_init(&settings);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(
            option_assign(&session_options_table, &settings, none[i], "1", arena, &err),
            STATUS_INVALID);
        assert_non_null(strstr(err.text, "unknown"));
    }
    assert_int_equal(session_options_table.count + sizeof none / sizeof *none,
                     model_options_table.count);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        enum status status =
            option_assign(&session_options_table, &settings, some[i], "?", arena, &err);
        assert_true(status == STATUS_OK || !strstr(err.text, "unknown"));
    }
}

static void test_key_of_the_environment(void **state)
{
    (void)state;
    unsetenv("WEFT_API_KEY");
    assert_null(options_environment_key());
    setenv("WEFT_API_KEY", "", 1);
    assert_null(options_environment_key());
    setenv("WEFT_API_KEY", "x", 1);
    assert_string_equal(options_environment_key(), "x");
    unsetenv("WEFT_API_KEY");
}

int main(void)
{
    arena = arena_create(0, 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults),
                                       cmocka_unit_test(test_every_option_has_its_field),
                                       cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_forms),
                                       cmocka_unit_test(test_names_of_models),
                                       cmocka_unit_test(test_sampling_defaults),
                                       cmocka_unit_test(test_options_of_one_request),
                                       cmocka_unit_test(test_key_of_the_environment),
                                       cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_every_number_row),
                                       cmocka_unit_test(test_suggested_names),
                                       cmocka_unit_test(test_devices),
                                       cmocka_unit_test(test_model_argument),
                                       cmocka_unit_test(test_zero_is_the_default),
                                       cmocka_unit_test(test_integers)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_destroy(arena);
    return failed;
}
