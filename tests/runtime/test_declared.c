// SPDX-License-Identifier: Apache-2.0
// Which modules a declaration leaves out, and to which it gives another format, in the lists of
// each method, in config.json and in the files of other tools; patterns that are not read.
#include "base/arena.h"
#include "runtime/model/declared.h"
#include "tests/runtime/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ARRAYS(rest)                                                                               \
    "{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":{\"targets\":["       \
    "\"Linear\"],\"weights\":{\"num_bits\":4,\"type\":\"int\",\"group_size\":64}}}," rest "}"
#define TWO_GROUPS                                                                                 \
    "{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":{\"targets\":["       \
    "\"re:.*self_attn.(q|k)_proj\"],\"weights\":{\"num_bits\":8,\"type\":\"float\","               \
    "\"strategy\":\"channel\"}},\"group_1\":{\"targets\":[\"model.layers.0.mlp.up_proj\"],"        \
    "\"weights\":{\"num_bits\":4,\"type\":\"int\",\"group_size\":32}}}}"
#define METHOD(name, rest) "{\"quant_method\":\"" name "\",\"bits\":4,\"group_size\":64," rest "}"
#define LAYER(number, name) "model.layers." #number "." name

// The format of a module: floats, FP8, or the columns of a group of 4-bit integers.
enum { FLOATS = 0, FP8 = 1 };

#define W5 "\\\\w\\\\w\\\\w\\\\w\\\\w"
#define W25 W5 W5 W5 W5 W5
#define W100 "[" W25 W25 W25 W25 "]" // 202 bytes, and 1,002 for POSIX
#define D5 "\\\\d\\\\d\\\\d\\\\d\\\\d"
#define D25 D5 D5 D5 D5 D5

static const struct {
    const char *file, *declaration, *module;
    uint32_t has;
} cases[] = {
    // entire names, or regular expressions from the begin of the name on
    {NULL, ARRAYS("\"ignore\":[\"lm_head\"]"), LAYER(0, "mlp.up_proj"), 64},
    {NULL, ARRAYS("\"ignore\":[\"model.layers.1.mlp.up_proj\"]"), LAYER(1, "mlp.up_proj"), FLOATS},
    {NULL, ARRAYS("\"ignore\":[\"model.layers.1.mlp\"]"), LAYER(1, "mlp.up_proj"), 64},
    {NULL, ARRAYS("\"ignore\":[\"model.layers.1.mlp.up_proj\"]"), LAYER(11, "mlp.up_proj"), 64},
    {NULL, ARRAYS("\"ignore\":[\"re:.*mlp.gate$\"]"), LAYER(1, "mlp.gate_proj"), 64},
    {NULL, ARRAYS("\"ignore\":[\"re:.*mlp\\\\.(gate|up)_proj\"]"), LAYER(1, "mlp.up_proj"), FLOATS},
    {NULL, ARRAYS("\"ignore\":[\"re:layers\"]"), LAYER(1, "mlp.up_proj"), 64},
    {NULL, ARRAYS("\"ignore\":[\"re:model\\\\.layers\\\\.\\\\d+\\\\.self_attn.*\"]"),
     LAYER(17, "self_attn.o_proj"), FLOATS},
    {NULL, ARRAYS("\"ignore\":[\"re:(?:model|m).*?[\\\\d]\\\\.mlp\"]"), LAYER(2, "mlp.up_proj"),
     FLOATS},
    {NULL, ARRAYS("\"ignore\":[\"re:[\\\\w.]+up_proj\"]"), LAYER(2, "mlp.up_proj"), FLOATS},
    {NULL, ARRAYS("\"ignore\":[\"re:[^\\\\s]+[a-c\\\\d]\"]"), LAYER(2, "mlp.up_proj"), FLOATS},
    {NULL, ARRAYS("\"ignore\":[\"re:[\\\\W]+up_proj\"]"), LAYER(2, "mlp.up_proj"), 64},
    {NULL, ARRAYS("\"ignore\":[\"re:" W100 D25 "\"]"), LAYER(2, "mlp.up_proj"), 64},
    {NULL, TWO_GROUPS, LAYER(2, "self_attn.k_proj"), FP8},
    {NULL, TWO_GROUPS, LAYER(0, "mlp.up_proj"), 32},
    {NULL, TWO_GROUPS, LAYER(1, "mlp.up_proj"), FLOATS},
    // patterns that POSIX does not have, or that could use up memory, are ignored
    {NULL, ARRAYS("\"ignore\":[\"re:(?!x).*\"]"), LAYER(1, "mlp.up_proj"), 64},
    {NULL, ARRAYS("\"ignore\":[\"re:(.{1,200}){1,200}\"]"), LAYER(1, "mlp.up_proj"), 64},
    {NULL, ARRAYS("\"ignore\":[\"re:((((((((((.+)+)+)+)+)+)+)+)+)+)+\"]"), LAYER(1, "mlp.up_proj"),
     64},
    {NULL, ARRAYS("\"ignore\":[\"re:((.)+)+\"]"), LAYER(1, "mlp.up_proj"), FLOATS},
    {NULL, ARRAYS("\"ignore\":[\"re:(.)\\\\1*.*\"]"), LAYER(1, "mlp.up_proj"), 64},
    {NULL, ARRAYS("\"ignore\":[\"re:((((\", 7, null, \"re:?\", \"re:\\\\\"]"),
     LAYER(1, "mlp.up_proj"), 64},
    // components of names
    {NULL, METHOD("gptq", "\"modules_to_not_convert\":[\"mlp.gate\"]"), LAYER(1, "mlp.gate_proj"),
     64},
    {NULL, METHOD("gptq", "\"modules_to_not_convert\":[\"layers.1\"]"), LAYER(1, "mlp.up_proj"),
     FLOATS},
    {NULL, METHOD("gptq", "\"modules_to_not_convert\":[\"layers.1\"]"), LAYER(10, "mlp.up_proj"),
     64},
    {NULL, METHOD("gptq", "\"modules_to_not_convert\":[\"model.layers.*.self_attn\"]"),
     LAYER(10, "self_attn.o_proj"), FLOATS},
    {NULL, METHOD("gptq", "\"modules_to_not_convert\":[\"model.layers.*.self_attn\"]"),
     LAYER(10, "mlp.up_proj"), 64},
    {NULL, METHOD("gptq", "\"modules_to_not_convert\":[\"up_proj\"]"), LAYER(10, "mlp.up_proj"),
     FLOATS},
    {NULL, METHOD("gptq", "\"modules_to_not_convert\":[\"*a*a*a*a*a*a*a*a*a*a*a*a*b\"]"),
     LAYER(10, "mlp.up_proj"), 64},
    // any part of the name
    {NULL, METHOD("awq", "\"modules_to_not_convert\":[\"mlp.gate\"]"), LAYER(1, "mlp.gate_proj"),
     FLOATS},
    {NULL, METHOD("awq", "\"modules_to_not_convert\":null"), LAYER(1, "mlp.gate_proj"), 64},
    // other values for some modules
    {NULL, METHOD("gptq", "\"dynamic\":{\"-:.*down_proj\":{},\"+:.*up\":{\"group_size\":32}}"),
     LAYER(1, "mlp.down_proj"), FLOATS},
    {NULL, METHOD("gptq", "\"dynamic\":{\"-:.*down_proj\":{},\"+:.*up\":{\"group_size\":32}}"),
     LAYER(1, "mlp.up_proj"), 32},
    {NULL,
     METHOD("gptq", "\"modules_in_block_to_quantize\":[[\"self_attn.k_proj\"],[\"mlp.up_proj\"]]"),
     LAYER(1, "mlp.up_proj"), 64},
    {NULL,
     METHOD("gptq", "\"modules_in_block_to_quantize\":[[\"self_attn.k_proj\"],[\"mlp.up_proj\"]]"),
     LAYER(1, "mlp.down_proj"), FLOATS},
    {NULL, METHOD("auto-round", "\"extra_config\":{\"model.layers.1.mlp.up_proj\":{\"bits\":16}}"),
     LAYER(1, "mlp.up_proj"), FLOATS},
    {NULL, METHOD("auto-round", "\"extra_config\":{\".*mlp.*\":{\"group_size\":128}}"),
     LAYER(1, "mlp.up_proj"), 128},
    // files of other tools
    {"hf_quant_config.json",
     "{\"quantization\":{\"quant_algo\":\"FP8\",\"exclude_modules\":[\"lm_head\",\"*.self_attn*\"]}"
     "}",
     LAYER(1, "self_attn.k_proj"), FLOATS},
    {"hf_quant_config.json",
     "{\"quantization\":{\"quant_algo\":\"FP8\",\"exclude_modules\":[\"lm_head\",\"*.self_attn*\"]}"
     "}",
     LAYER(1, "mlp.up_proj"), FP8},
    {"hf_quant_config.json",
     "{\"quantization\":{\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{"
     "\"model.layers.1.mlp.up_proj\":{\"quant_algo\":\"FP8\"}}}}",
     LAYER(1, "mlp.up_proj"), FP8},
    {"hf_quant_config.json",
     "{\"quantization\":{\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{"
     "\"model.layers.1.mlp.up_proj\":{\"quant_algo\":\"FP8\"}}}}",
     LAYER(2, "mlp.up_proj"), FLOATS},
    {"quantize_config.json", "{\"bits\":4,\"group_size\":128,\"sym\":true}",
     LAYER(2, "mlp.up_proj"), 128},
    {"quant_config.json", "{\"w_bit\":4,\"q_group_size\":64,\"zero_point\":true}",
     LAYER(2, "mlp.up_proj"), 64},
};

static void test_modules_have_their_formats(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[64], config[2048];
        struct error err;
        struct declaration *d;
        folder_make(folder);
        snprintf(config, sizeof config, "{\"quantization_config\":%s}", cases[i].declaration);
        const char *text = cases[i].file ? "{}" : config;
        file_write(folder, "config.json", text, strlen(text));
        if (cases[i].file)
            file_write(folder, cases[i].file, cases[i].declaration, strlen(cases[i].declaration));
        assert_int_equal(declaration_open(&d, folder, true, &err), STATUS_OK);
        assert_non_null(d);
        const char *const names[] = {"another", cases[i].module};
        struct declared_format format = declaration_format(d, names, 2);
        uint32_t has = !format.quantized             ? FLOATS
                       : format.format == WEIGHT_FP8 ? FP8
                                                     : format.group;
        if (has != cases[i].has)
            fail_msg("%s: %s has %u, not %u", cases[i].declaration, cases[i].module, has,
                     cases[i].has);
        declaration_close(d);
        folder_remove(folder);
    }
}

static void test_folders_without_a_declaration(void **state)
{
    (void)state;
    static const char *const configs[] = {"{}", "{\"quantization_config\":null}", NULL};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        char folder[64];
        struct error err;
        struct declaration *d;
        folder_make(folder);
        if (configs[i])
            file_write(folder, "config.json", configs[i], strlen(configs[i]));
        assert_int_equal(declaration_open(&d, folder, true, &err), STATUS_OK);
        assert_null(d);
        declaration_close(d);
        file_write(folder, "quant_config.json", "{", 1);
        assert_int_equal(declaration_open(&d, folder, true, &err), STATUS_INVALID);
        assert_null(d);
        folder_remove(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules_have_their_formats),
        cmocka_unit_test(test_folders_without_a_declaration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
