// SPDX-License-Identifier: Apache-2.0
// Exact mode of the CUDA sources, under the emulator and through model.h: the logits of a sequence
// have the same bits alone, among changing neighbours, for every way to cut its tokens into chunks,
// after its tokens are computed again, and from blocks that another sequence wrote while decoding.
// Steps in flight and replayed graphs change no token. No product runs through cuBLASLt.
// With WEFT_TEST_RANKS a model that this number of ranks share must give the same bits: on the CPU,
// or, for fewer tests, on the emulated GPUs if WEFT_TEST_DEVICE is simt.
// The reference is the simplest run: alone, the prompt in one piece, no graphs, no step in flight.
#include "base/arena.h"
#include "base/json.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"
#include "tests/runtime/simt_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t ranks; // number of ranks; 0: the model is not split
static bool on_cpu, small;
static const char *only; // golden model of the only case that runs; NULL: all

enum { VOCAB = 96, PROMPT = 70, OUTPUTS = 30, LENGTH_MAX = 1200, ROWS = 12, BLOCK = 16 };

struct model_case {
    const char *label;
    const char *golden; // config and weights; NULL: `config` with random weights
    const char *config;
    int dtype; // -1: as stored, bfloat16
    uint32_t prompt, outputs;
    uint32_t heads;
    bool fp8; // keys and values are e4m3
};

// Products with more than one part of 512; grouped heads; int8, float32 and float16 as well as
// bfloat16; keys and values in fp8; experts, whose rows in a step depend on the neighbours.
static const struct model_case cases[] = {
    {"QK norm, head dim 24", "qwen3", NULL, -1, PROMPT, OUTPUTS, 4, false},
    {"sliding window", "mistral", NULL, -1, PROMPT, OUTPUTS, 4, false},
    {"int8, keys and values in fp8", "qwen2", NULL, DTYPE_I8, PROMPT, OUTPUTS, 4, true},
    {"float32", "llama", NULL, DTYPE_F32, PROMPT, OUTPUTS, 4, false},
    {"experts", "qwen3-moe", NULL, -1, PROMPT, OUTPUTS, 4, false},
    {"three parts of K", NULL,
     "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":576,"
     "\"intermediate_size\":1056,\"num_hidden_layers\":1,\"num_attention_heads\":9,"
     "\"num_key_value_heads\":3,\"max_position_embeddings\":2048,\"rms_norm_eps\":1e-6,"
     "\"vocab_size\":96,\"tie_word_embeddings\":true,\"torch_dtype\":\"float16\"}",
     -1, PROMPT, OUTPUTS, 9, false},
};
static const struct model_case across_parts = {
    "keys across 1,024",
    NULL,
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,"
    "\"intermediate_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"max_position_embeddings\":2048,\"rms_norm_eps\":1e-6,"
    "\"vocab_size\":96,\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\"}",
    -1,
    1019,
    10,
    2,
    false};
// With a number of heads that two, three and four ranks can share.
static const struct model_case across_parts_shared = {
    "keys across 1,024",
    NULL,
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,"
    "\"intermediate_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":12,"
    "\"head_dim\":16,\"num_key_value_heads\":1,\"max_position_embeddings\":2048,"
    "\"rms_norm_eps\":1e-6,\"vocab_size\":96,\"tie_word_embeddings\":true,"
    "\"torch_dtype\":\"bfloat16\"}",
    -1,
    1019,
    10,
    12,
    false};

static bool is_left_out(const struct model_case *of)
{
    return only && (!of->golden || strcmp(of->golden, only) != 0);
}

static const struct model_case *first_case(void)
{
    const struct model_case *of = cases;
    while (is_left_out(of))
        of++;
    return of;
}

struct bench {
    const struct model_case *of;
    char folder[64];
    int32_t tokens[LENGTH_MAX];   // the prompt, then the tokens that the reference sampled
    float logits[OUTPUTS][VOCAB]; // [i]: after prompt + i tokens
    struct rig rig;
};

static struct model_options bench_options(const struct bench *b)
{
    struct model_options options = rig_options();
    options.dtype = b->of->dtype;
    options.kv_dtype = b->of->fp8 && !on_cpu ? DTYPE_E4M3 : -1;
    options.load_dummy = !b->of->golden;
    options.max_num_seqs = ROWS;
    options.max_model_len = b->of->prompt > PROMPT ? LENGTH_MAX : 256;
    options.block_size = BLOCK;
    return options;
}

static void folder_fill(struct bench *b)
{
    folder_make(b->folder);
    if (!b->of->golden) {
        file_write(b->folder, "config.json", b->of->config, strlen(b->of->config));
        return;
    }
    json_t *golden = golden_read(b->of->golden);
    json_object_set_new(json_object_get(golden, "config"), "max_position_embeddings",
                        json_integer(2048));
    golden_folder_write(b->folder, golden, DTYPE_BF16, 1);
    json_decref(golden);
}

static void bench_start_with(struct bench *b, const struct simt_device_switches *switches,
                             const struct model_options *options)
{
    if (ranks > 0)
        rig_open_ranks(&b->rig, on_cpu ? device_cpu() : simt_device(switches), b->folder, options,
                       ranks);
    else
        rig_open_on(&b->rig, simt_device(switches), b->folder, options);
    assert_int_equal(b->rig.facts->vocab, VOCAB);
}

static void bench_start(struct bench *b, const struct simt_device_switches *switches)
{
    struct model_options options = bench_options(b);
    bench_start_with(b, switches, &options);
}

// Closes the model. Checks that the emulator reported nothing and no product ran through cuBLASLt.
static void bench_stop(struct bench *b)
{
    struct simt_device_counts counts = {0};
    if (!on_cpu)
        counts = simt_device_read();
    rig_close(&b->rig);
    assert_string_equal(on_cpu ? "" : simt_device_report(), "");
    assert_int_equal(counts.reports, 0);
    assert_int_equal(counts.blas_calls, 0);
}

static struct rig_sequence sequence(uint32_t row, const int32_t *tokens, uint32_t count)
{
    return (struct rig_sequence){row, tokens, count, 0, STEP_NO_TYPE};
}

// Feeds the tokens of the sequence in chunks. Writes the logits of the last token.
static void feed(struct bench *b, struct rig_sequence *s, uint32_t chunk, float *logits)
{
    rig_prompt_logits(&b->rig, s, chunk, logits);
}

static int32_t decode(struct bench *b, struct rig_sequence *s, float *logits)
{
    rig_begin(&b->rig);
    rig_decode(&b->rig, s);
    return rig_step(&b->rig, logits).results[0].token;
}

static void same_bits(const struct bench *b, const float *got, uint32_t output, const char *how)
{
    const float *want = b->logits[output];
    for (uint32_t i = 0; i < VOCAB; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s, %s: logit %u after %u outputs is %a, alone it is %a", b->of->label, how,
                     i, output, (double)got[i], (double)want[i]);
}

// Checks two more decode steps of a sequence for which `output` outputs were computed.
static void same_from_here(struct bench *b, struct rig_sequence *s, uint32_t output,
                           const char *how)
{
    float logits[VOCAB];
    for (uint32_t i = 0; i < 2; i++) {
        int32_t token = decode(b, s, logits);
        same_bits(b, logits, output + 1 + i, how);
        if (output + 1 + i < b->of->outputs)
            assert_int_equal(token, b->tokens[b->of->prompt + output + 1 + i]);
    }
}

static void reference_make(struct bench *b)
{
    uint32_t prompt = b->of->prompt;
    for (uint32_t i = 0; i < prompt; i++)
        b->tokens[i] = (int32_t)(3 + (i * 37 + i * i % 11) % (VOCAB - 3));
    bench_start(b, &(struct simt_device_switches){.exact = true});
    struct rig_sequence s = sequence(0, b->tokens, prompt);
    while (s.computed < prompt) {
        rig_begin(&b->rig);
        rig_prefill(&b->rig, &s, 512, WANT_TOKEN);
        struct model_output out = rig_step(&b->rig, s.computed == prompt ? b->logits[0] : NULL);
        if (s.computed == prompt)
            b->tokens[prompt] = out.results[0].token;
    }
    for (uint32_t i = 1; i < b->of->outputs; i++)
        b->tokens[prompt + i] = decode(b, &s, b->logits[i]);
    assert_int_equal(simt_device_read().replays, 0);
    bench_stop(b);
    uint32_t distinct = 0; // a model that repeats itself would prove little
    for (uint32_t i = 1; i < b->of->outputs; i++)
        distinct += memcmp(b->logits[i], b->logits[i - 1], sizeof b->logits[i]) != 0;
    assert_int_equal(distinct, b->of->outputs - 1);
}

static struct bench *bench_make(const struct model_case *of)
{
    struct bench *b = heap_alloc_zeroed(1, sizeof *b);
    b->of = of;
    folder_fill(b);
    reference_make(b);
    return b;
}

static void bench_end(struct bench *b)
{
    folder_remove(b->folder);
    heap_free(b);
}

// The prompt and half of the outputs are fed as one prompt in equal chunks; then it decodes with
// graphs. Every size from 1 to 64 for the first model, some for the others.
static void chunks_keep_bits(struct bench *b)
{
    static float logits[VOCAB];
    uint64_t some = 1ull << 63 | 1ull << 32 | 1ull << 15 | 1ull << 6 | 7; // 64 33 16 7 3 2 1
    uint64_t sizes = b->of == cases && (ranks == 0 || on_cpu) ? UINT64_MAX : some;
    uint32_t half = b->of->outputs / 2;
    for (uint32_t chunk = 1; chunk <= 64; chunk++) {
        if ((sizes >> (chunk - 1) & 1) == 0)
            continue;
        char how[32];
        snprintf(how, sizeof how, "chunks of %u", chunk);
        struct rig_sequence s = sequence(chunk % ROWS, b->tokens, b->of->prompt + half);
        feed(b, &s, chunk, logits);
        same_bits(b, logits, half, how);
        same_from_here(b, &s, half, how);
    }
}

// The row decodes while other rows start, decode and end: 1 to 9 decode rows, then also prompts of
// up to 90 tokens in the same step (the wide product), with the row at every position among them.
static void neighbours_keep_bits(struct bench *b)
{
    static float logits[ROWS * VOCAB];
    static int32_t other[ROWS][PROMPT + OUTPUTS];
    struct rig_sequence beside[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t i = 0; i < PROMPT + OUTPUTS; i++)
            other[r][i] = (int32_t)(3 + (r * 53 + i * 29) % (VOCAB - 3));
        beside[r] = sequence(r, other[r], 3 + 7 * r);
    }
    struct rig_sequence s = sequence(ROWS - 1, b->tokens, b->of->prompt);
    rig_begin(&b->rig); // ten prompts precede it in the step
    for (uint32_t r = 0; r < ROWS - 2; r++)
        rig_prefill(&b->rig, &beside[r], PROMPT, WANT_TOKEN);
    rig_prefill(&b->rig, &s, 11, WANT_TOKEN);
    rig_step(&b->rig, NULL);
    feed(b, &s, 59, logits);
    same_bits(b, logits, 0, "a prompt begun among ten");
    for (uint32_t i = 1; i < 20; i++) {
        uint32_t decoding = i % (ROWS - 2), place = i % (decoding + 1);
        rig_begin(&b->rig);
        for (uint32_t r = 0; r < decoding; r++) {
            if (r == place)
                rig_decode(&b->rig, &s);
            rig_decode(&b->rig, &beside[(r + i) % (ROWS - 2)]);
        }
        if (place == decoding)
            rig_decode(&b->rig, &s);
        if (i % 3 == 0) { // a new prompt each time, whose chunk does not complete it
            beside[ROWS - 2] = sequence(ROWS - 2, other[i % ROWS], PROMPT + OUTPUTS);
            rig_prefill(&b->rig, &beside[ROWS - 2], i * 9 % 89 + 1, WANT_TOKEN);
        }
        rig_step(&b->rig, logits);
        same_bits(b, logits + place * VOCAB, i, "among neighbours");
    }
}

// Preemption: another sequence overwrites the row and blocks, then all tokens are computed again.
static void recompute_keeps_bits(struct bench *b)
{
    static float logits[VOCAB];
    static int32_t other[PROMPT + OUTPUTS];
    for (uint32_t i = 0; i < PROMPT + OUTPUTS; i++)
        other[i] = (int32_t)(3 + i * 41 % (VOCAB - 3));
    struct rig_sequence s = sequence(2, b->tokens, b->of->prompt);
    feed(b, &s, 64, logits);
    for (uint32_t i = 1; i < 9; i++)
        decode(b, &s, logits);
    struct rig_sequence robber = sequence(2, other, PROMPT + OUTPUTS);
    feed(b, &robber, 64, logits);
    s = sequence(2, b->tokens, b->of->prompt + 9);
    feed(b, &s, 64, logits);
    same_bits(b, logits, 9, "computed again");
    same_from_here(b, &s, 9, "computed again");
}

// Gives the new row the donor's first blocks, like the prefix cache.
static void blocks_borrow(struct bench *b, struct rig_sequence *s, uint32_t donor, uint32_t blocks)
{
    const struct model_facts *f = b->rig.facts;
    struct batch *batch = b->rig.batch;
    struct batch_new_sequence *new = &batch_new_sequences(batch)[batch->new_sequence_count++];
    *new = (struct batch_new_sequence){.slot = s->row};
    new->params = (struct sample_params){.top_p = 1, .repetition = 1, .penalty_row = STEP_NO_ROW};
    for (uint32_t i = 0; i < blocks; i++)
        batch_changes(batch)[batch->change_count++] = (struct batch_change){
            s->row, i, f->block_count - 1 - (i * f->limits.slots_max + donor)};
    s->computed = blocks * BLOCK;
}

static void warm_blocks_keep_bits(struct bench *b)
{
    static float logits[VOCAB];
    struct rig_sequence donor = sequence(5, b->tokens, b->of->prompt);
    feed(b, &donor, 33, logits);
    for (uint32_t i = 1; i < b->of->outputs; i++)
        decode(b, &donor, logits);
    // Blocks of the prompt, of prompt and outputs, and of decode steps only; one token is left, or
    // more.
    uint32_t whole = (b->of->prompt + b->of->outputs - 3) / BLOCK;
    assert_true(whole * BLOCK >= b->of->prompt + BLOCK || b->of->prompt > PROMPT);
    for (uint32_t blocks = whole; blocks + 3 > whole; blocks--) {
        uint32_t output = whole * BLOCK + 1 - b->of->prompt;
        struct rig_sequence s = sequence(6 + blocks % 3, b->tokens, b->of->prompt + output);
        rig_begin(&b->rig);
        blocks_borrow(b, &s, donor.row, blocks);
        rig_prefill(&b->rig, &s, LENGTH_MAX, WANT_TOKEN);
        rig_step(&b->rig, logits);
        same_bits(b, logits, output, "from borrowed blocks");
        if (output + 2 < b->of->outputs)
            same_from_here(b, &s, output, "from borrowed blocks");
    }
}

static void test_bits_never_change(void **state)
{
    (void)state;
    uint32_t run = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (ranks > 0 && cases[i].heads % ranks != 0)
            continue; // they cannot be split
        if (is_left_out(&cases[i]))
            continue;
        if (run > 0 && (small || (ranks > 0 && !on_cpu)))
            break;
        run++;
        struct bench *b = bench_make(&cases[i]);
        bench_start(b, &(struct simt_device_switches){.exact = true, .graphs = true});
        chunks_keep_bits(b);
        neighbours_keep_bits(b);
        recompute_keeps_bits(b);
        warm_blocks_keep_bits(b);
        struct simt_device_counts counts = {0};
        if (!on_cpu)
            counts = simt_device_read();
        printf("%-22s bits are those of the run alone; %u graphs, %u replays, %u cuBLASLt calls\n",
               b->of->label, counts.graphs, counts.replays, (unsigned)counts.blas_calls);
        assert_true(on_cpu || (counts.graphs >= 5 && counts.replays > 60));
        bench_stop(b);
        bench_end(b);
    }
    assert_true(run > 0);
}

// The reference decodes across position 1,024; here a longer prompt is cut elsewhere, and uses
// shared blocks.
static void test_bits_across_parts_of_attention(void **state)
{
    (void)state;
    static float logits[VOCAB];
    const struct model_case *of = ranks > 0 ? &across_parts_shared : &across_parts;
    assert_true(ranks == 0 || of->heads % ranks == 0);
    struct bench *b = bench_make(of);
    bench_start(b, &(struct simt_device_switches){.exact = true, .graphs = true});
    struct rig_sequence s = sequence(3, b->tokens, b->of->prompt + 3);
    feed(b, &s, 64, logits);
    same_bits(b, logits, 3, "chunks of 64");
    for (uint32_t i = 4; i < b->of->outputs; i++) {
        decode(b, &s, logits);
        same_bits(b, logits, i, "decode over 1,024");
    }
    static const uint32_t shared[] = {63, 64};
    for (size_t i = 0; i < 2; i++) { // a chunk across position 1,024, and one after it
        struct rig_sequence t = sequence(4, b->tokens, b->of->prompt + 9);
        rig_begin(&b->rig);
        blocks_borrow(b, &t, s.row, shared[i]);
        rig_prefill(&b->rig, &t, LENGTH_MAX, WANT_TOKEN);
        rig_step(&b->rig, logits);
        same_bits(b, logits, 9, "from borrowed blocks");
    }
    bench_stop(b);
    bench_end(b);
}

// Decodes rows with one step in flight: each launch precedes the collect of the last step.
static void draw_ahead(struct bench *b, int32_t out[OUTPUTS][ROWS], uint32_t rows)
{
    struct rig_sequence s[ROWS];
    rig_begin(&b->rig);
    for (uint32_t r = 0; r < rows; r++) {
        s[r] = sequence(r, b->tokens + r, 5 + r);
        rig_prefill(&b->rig, &s[r], PROMPT, WANT_TOKEN);
    }
    rig_launch(&b->rig, NULL);
    for (uint32_t n = 0; n < OUTPUTS; n++) {
        if (n + 1 < OUTPUTS) {
            rig_begin(&b->rig);
            for (uint32_t r = 0; r < rows; r++)
                rig_decode(&b->rig, &s[r]);
            rig_launch(&b->rig, NULL);
        }
        struct model_output got = rig_collect(&b->rig);
        assert_int_equal(got.step, n);
        for (uint32_t r = 0; r < rows; r++)
            out[n][r] = got.results[r].token;
    }
}

static void test_flight_and_graphs_change_no_token(void **state)
{
    (void)state;
    static int32_t want[OUTPUTS][ROWS], got[OUTPUTS][ROWS];
    struct bench *b = bench_make(first_case());
    bench_start(b, &(struct simt_device_switches){.exact = true});
    assert_int_equal(b->rig.facts->steps_in_flight, 1);
    draw_ahead(b, want, 9);
    bench_stop(b);
    static const uint32_t rows[] = {9, 8, 3, 1};
    for (uint32_t i = 0; i < 4; i++) {
        bench_start(b, &(struct simt_device_switches){
                           .exact = true, .graphs = true, .lazy = true, .seed = i * 7});
        draw_ahead(b, got, rows[i]);
        struct simt_device_counts counts = simt_device_read();
        assert_int_equal(counts.replays, (OUTPUTS - 1) * (ranks > 0 ? ranks : 1));
        for (uint32_t n = 0; n < OUTPUTS; n++)
            assert_memory_equal(got[n], want[n], rows[i] * sizeof want[n][0]);
        bench_stop(b);
    }
    bench_end(b);
}

// The counter of cuBLASLt calls works: without exact mode it is not zero. The step is small because
// each bucket's products are timed at startup.
static void test_products_are_counted(void **state)
{
    (void)state;
    static float logits[VOCAB];
    struct bench *b = bench_make(&cases[0]);
    struct model_options options = bench_options(b);
    options.max_num_batched_tokens = 16;
    bench_start_with(b, &(struct simt_device_switches){.exact = false}, &options);
    struct rig_sequence s = sequence(0, b->tokens, b->of->prompt);
    feed(b, &s, 16, logits);
    assert_true(simt_device_read().blas_calls > 0);
    rig_close(&b->rig);
    bench_end(b);
}

// With the argument `small`: only the first model, without the tests across parts of attention and
// of the counter. With the name of a golden model of `cases` the same with that one.
int main(int argc, char **argv)
{
    small = argc > 1;
    only = small && strcmp(argv[1], "small") != 0 ? argv[1] : NULL;
    const char *shared = getenv("WEFT_TEST_RANKS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_never_change),
        cmocka_unit_test(test_bits_across_parts_of_attention),
        cmocka_unit_test(test_flight_and_graphs_change_no_token),
        cmocka_unit_test(test_products_are_counted),
    };
    const struct CMUnitTest on_gpus[] = {tests[0], tests[2]}, on_cores[] = {tests[0], tests[1]};
    ranks = shared ? (uint32_t)strtoul(shared, NULL, 10) : 0;
    on_cpu = ranks > 0 && !getenv("WEFT_TEST_DEVICE");
    if (on_cpu)
        return cmocka_run_group_tests(on_cores, NULL, NULL);
    if (!simt_device_usable())
        return 77;
    if (ranks > 0 || small)
        return cmocka_run_group_tests(on_gpus, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
