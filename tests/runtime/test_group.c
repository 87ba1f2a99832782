// SPDX-License-Identifier: Apache-2.0
// A model split among several ranks, driven through model.h: for any number of ranks the results do
// not depend on neighbours and are close to those of one rank. A rank that fails, or samples
// another token, ends the step with one error. Memory is freed. The golden models run with ranks as
// well (test_golden_ranks).
#include "base/arena.h"
#include "base/json.h"
#include "runtime/model/internal.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <linux/futex.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { VOCAB = 96, VOCAB_MAX = 101, PROMPT = 40, OUTPUTS = 12, LATE_SEEDS = 6 };

static void prompt_fill(int32_t *tokens, uint32_t which)
{
    for (int32_t i = 0; i < PROMPT; i++)
        tokens[i] = (i * 7 + (int32_t)which * 31 + 3) % VOCAB;
}

// Computes a prompt in chunks and then decode steps, with `neighbours` other sequences in the
// batch. Writes the tokens, and the logits of the prompt's end.
static void generate(struct rig *rig, uint32_t neighbours, uint32_t chunk, int32_t *out,
                     float *logits)
{
    static float all[8 * VOCAB_MAX];
    int32_t tokens[8][PROMPT];
    struct rig_sequence s[8];
    for (uint32_t i = 0; i <= neighbours; i++) {
        prompt_fill(tokens[i], i);
        s[i] = (struct rig_sequence){i, tokens[i], PROMPT - (i > 0) * i, 0, STEP_NO_TYPE};
    }
    while (s[0].computed < PROMPT) {
        rig_begin(rig);
        for (uint32_t i = 0; i <= neighbours; i++)
            if (s[i].computed < s[i].count)
                rig_prefill(rig, &s[i], chunk, WANT_TOKEN);
        struct model_output done = rig_step(rig, all);
        if (s[0].computed == PROMPT) {
            memcpy(logits, all, rig->facts->vocab * sizeof *logits);
            out[0] = done.results[0].token;
        }
    }
    for (uint32_t n = 1; n < OUTPUTS; n++) {
        rig_begin(rig);
        for (uint32_t i = 0; i <= neighbours; i++)
            rig_decode(rig, &s[i]);
        out[n] = rig_step(rig, NULL).results[0].token;
    }
}

static bool dummy;    // load random weights
static bool emulated; // not on device cpu: fewer tests

static void generate_with(const char *folder, uint32_t ranks, uint32_t neighbours, uint32_t chunk,
                          int32_t *out, float *logits)
{
    struct model_options options = rig_options();
    options.load_dummy = dummy;
    struct rig rig;
    rig_open_ranks(&rig, rig_device(), folder, &options, ranks);
    assert_int_equal(rig.facts->ranks, ranks);
    generate(&rig, neighbours, chunk, out, logits);
    rig_close(&rig);
}

// Checks that the logits equal those of one rank except for rounding. Prints the first token that
// differs, if any: two tokens that are almost equally likely may change places.
static void beside_one(const char *label, uint32_t ranks, uint32_t vocab, const int32_t *tokens,
                       const int32_t *one_tokens, const float *logits, const float *one)
{
    float most = 0;
    for (uint32_t i = 0; i < vocab; i++)
        most = fmaxf(most, fabsf(one[i]));
    assert_true(most > 0);
    for (uint32_t i = 0; i < vocab; i++)
        assert_true(fabsf(one[i] - logits[i]) <= 1e-4f * most);
    uint32_t same = 0;
    while (same < OUTPUTS && tokens[same] == one_tokens[same])
        same++;
    if (same < OUTPUTS)
        printf("%s, %u ranks: token %u is the first that differs, %d, of one rank %d\n", label,
               ranks, same, tokens[same], one_tokens[same]);
    else
        printf("%s, %u ranks: the %d tokens of one rank\n", label, ranks, OUTPUTS);
}

// For each number of ranks the results are bit-equal alone, in chunks and with neighbours, and
// equal to one rank's except for rounding.
static void test_results_do_not_depend_on_neighbours(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "qwen2", "qwen3", "llama-tied"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        char folder[64];
        float one[VOCAB], alone[VOCAB], other[VOCAB];
        int32_t tokens[OUTPUTS], same[OUTPUTS], one_tokens[OUTPUTS];
        golden_folder(folder, families[f], DTYPE_F32);
        generate_with(folder, 1, 0, PROMPT, one_tokens, one);
        for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
            generate_with(folder, ranks, 0, PROMPT, tokens, alone);
            generate_with(folder, ranks, 0, 7, same, other);
            assert_memory_equal(alone, other, sizeof alone);
            assert_memory_equal(tokens, same, sizeof tokens);
            generate_with(folder, ranks, 5, 11, same, other);
            assert_memory_equal(alone, other, sizeof alone);
            assert_memory_equal(tokens, same, sizeof tokens);
            beside_one(families[f], ranks, VOCAB, tokens, one_tokens, alone, one);
        }
        folder_remove(folder);
    }
}

static uint32_t layers = 2; // of unequal_folder

static void unequal_folder(char *folder, uint32_t heads, uint32_t kv_heads, bool tied)
{
    char config[512];
    snprintf(config, sizeof config,
             "{\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":52,"
             "\"intermediate_size\":100,\"num_hidden_layers\":%u,\"num_attention_heads\":%u,"
             "\"num_key_value_heads\":%u,\"head_dim\":16,\"max_position_embeddings\":128,"
             "\"rms_norm_eps\":1e-6,\"vocab_size\":101,\"tie_word_embeddings\":%s,"
             "\"torch_dtype\":\"float32\",\"eos_token_id\":2}",
             layers, heads, kv_heads, tied ? "true" : "false");
    folder_make(folder);
    file_write(folder, "config.json", config, strlen(config));
}

// Sizes that no number of ranks divides, KV heads that several ranks hold, every number of ranks.
static void test_unequal_parts(void **state)
{
    (void)state;
    static const struct {
        uint32_t ranks, heads, kv_heads;
        bool tied;
    } cases[] = {{3, 6, 1, true},  {3, 6, 3, false}, {5, 5, 1, false}, {6, 6, 3, true},
                 {7, 7, 1, false}, {8, 8, 2, false}, {2, 6, 2, true},  {4, 8, 2, false}};
    dummy = true;
    for (size_t i = 0; i < (emulated ? 1 : sizeof cases / sizeof *cases); i++) {
        char folder[64], label[64];
        float one[VOCAB_MAX], alone[VOCAB_MAX], other[VOCAB_MAX];
        int32_t tokens[OUTPUTS], same[OUTPUTS], one_tokens[OUTPUTS];
        snprintf(label, sizeof label, "%u heads, %u of keys", cases[i].heads, cases[i].kv_heads);
        unequal_folder(folder, cases[i].heads, cases[i].kv_heads, cases[i].tied);
        generate_with(folder, 1, 0, PROMPT, one_tokens, one);
        generate_with(folder, cases[i].ranks, 0, PROMPT, tokens, alone);
        generate_with(folder, cases[i].ranks, 4, 9, same, other);
        assert_memory_equal(alone, other, sizeof alone);
        assert_memory_equal(tokens, same, sizeof tokens);
        beside_one(label, cases[i].ranks, VOCAB_MAX, tokens, one_tokens, alone, one);
        folder_remove(folder);
    }
    dummy = false;
}

// The plan of all ranks is the sum of their allocations, and all of it is freed. A step allocates
// nothing, also if its logits are read.
static uint64_t taken, given;

static enum status counting_alloc(struct device *device, void **out, size_t bytes,
                                  struct error *err)
{
    taken += bytes;
    return device_cpu()->memory_alloc(device, out, bytes, err);
}

static void counting_free(struct device *device, void *at, size_t bytes)
{
    given += at ? bytes : 0;
    device_cpu()->memory_free(device, at, bytes);
}

static void test_plan_includes_all_ranks(void **state)
{
    (void)state;
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    struct device_api api = *device_cpu();
    api.memory_alloc = api.host_alloc = counting_alloc;
    api.memory_free = api.host_free = counting_free;
    struct model_options options = rig_options();
    struct rig rig;
    taken = given = 0;
    rig_open_ranks(&rig, &api, folder, &options, 2);
    uint64_t scratch = 0; // memory that the devices allocate for themselves
    for (uint32_t i = 0; i < rig.plan->need.count; i++)
        if (strncmp(rig.plan->need.entry[i].label, "scratch", 7) == 0)
            scratch += rig.plan->need.entry[i].bytes;
    assert_int_equal(taken,
                     rig.plan->bytes - scratch + rig.facts->block_bytes * rig.facts->block_count);
    assert_int_equal(rig.facts->block_count,
                     rig.facts->blocks_per_sequence_max * rig.facts->limits.slots_max);
    uint64_t opened_with = taken;
    int32_t tokens[PROMPT];
    float logits[VOCAB];
    prompt_fill(tokens, 0);
    struct rig_sequence s = {0, tokens, PROMPT, 0, STEP_NO_TYPE};
    rig_begin(&rig);
    rig_prefill(&rig, &s, PROMPT, WANT_TOKEN);
    rig_step(&rig, logits);
    assert_int_equal(taken, opened_with);
    rig_close(&rig);
    assert_int_equal(taken, given);
    folder_remove(folder);
}

struct load {
    uint64_t done, total;
};

static void load_told(void *context, uint64_t done, uint64_t total)
{
    struct load *load = context;
    assert_true(done > load->done && done <= total);
    assert_int_equal(total, load->total);
    load->done = done;
}

// Unequal ranks are planned like each rank by itself, and report one common load progress. A copy
// uses the weights of the first model and allocates no memory for them.
static void test_ranks_are_planned_one_by_one(void **state)
{
    (void)state;
    enum { RANKS = 3 };
    char folder[64];
    struct rig rig;
    struct error err;
    struct load load = {0};
    struct model_plan *plan, *copy_plan, *alone;
    struct model *model, *copy;
    struct model_options options = rig_options();
    options.load_dummy = true;
    unequal_folder(folder, 6, 3, false);
    rig_open_ranks(&rig, device_cpu(), folder, &options, RANKS);
    options.share.tp_size = RANKS;
    options.devices = rig.ranks;
    assert_int_equal(model_plan_open(&plan, folder, device_cpu(), rig.ranks[0], &options, &err),
                     STATUS_OK);
    options.copy_of = plan;
    assert_int_equal(
        model_plan_open(&copy_plan, folder, device_cpu(), rig.ranks[0], &options, &err), STATUS_OK);
    options.copy_of = NULL;
    options.devices = NULL;
    uint64_t bytes[RANKS];
    for (uint32_t r = 0; r < RANKS; r++) {
        options.share.tp_rank = r;
        assert_int_equal(
            model_plan_open(&alone, folder, device_cpu(), rig.ranks[r], &options, &err), STATUS_OK);
        uint64_t weights = alone->parts->weights.bytes;
        bytes[r] = alone->bytes;
        load.total += alone->parts->weights.load_bytes;
        assert_int_equal(model_plan_bytes(plan, r), bytes[r]);
        assert_int_equal(model_plan_bytes(copy_plan, r), bytes[r] - weights);
        model_plan_close(alone);
    }
    assert_int_not_equal(bytes[1], bytes[2]);
    uint64_t kv = plan->kv_bytes_min;
    assert_int_equal(model_open(&model, plan, kv, load_told, &load, &err), STATUS_OK);
    assert_int_equal(load.done, load.total);
    assert_int_equal(model_open(&copy, copy_plan, kv, NULL, NULL, &err), STATUS_OK);
    model_close(copy);
    model_close(model);
    model_plan_close(copy_plan);
    model_plan_close(plan);
    rig_close(&rig);
    folder_remove(folder);
}

// Devices whose ops misbehave on the stream of one rank.
static enum odd_kind {
    ODD_NOTHING,
    ODD_FAILS,
    ODD_FAILS_ALONE, // and the other ranks hang
    ODD_DIFFERS,
    ODD_HANGS,
    ODD_HANGS_SAMPLING,
    ODD_LATE
} odd;
static const struct stream *odd_stream;
static const struct device_api *real;
static _Atomic bool odd_held;        // hanging ranks continue when it is false
static uint64_t odd_dice[RANKS_MAX]; // random state of each rank's delays
static struct stream *opened[RANKS_MAX];
static uint32_t opened_count;
static _Atomic uint32_t odd_aborts; // calls of comm_abort

static void odd_hang(void)
{
    while (atomic_load(&odd_held))
        usleep(1000);
}

// Delays a rank by a random time.
static void odd_late(const struct stream *stream)
{
    uint32_t rank = 0;
    while (opened[rank] != stream)
        rank++;
    odd_dice[rank] = odd_dice[rank] * 6364136223846793005u + 1442695040888963407u;
    uint32_t late = (uint32_t)(odd_dice[rank] >> 56);
    if (emulated)
        usleep(late * 4);
    else if (late < 128)
        for (uint32_t i = 0; i < late / 8; i++)
            sched_yield();
    else
        usleep(late);
}

static void odd_late_from(uint64_t seed)
{
    odd = ODD_LATE;
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
        odd_dice[rank] = seed * RANKS_MAX + rank;
}

static enum status odd_gemm(struct stream *stream, const struct gemm_args *args)
{
    if (stream == odd_stream && (odd == ODD_FAILS || odd == ODD_FAILS_ALONE))
        return STATUS_DEVICE_FAULT;
    if (odd == ODD_FAILS_ALONE || (stream == odd_stream && odd == ODD_HANGS))
        odd_hang();
    if (odd == ODD_LATE)
        odd_late(stream);
    return real->ops->gemm(stream, args);
}

static enum status odd_sample(struct stream *stream, const struct sample_args *args)
{
    if (stream == odd_stream && odd == ODD_HANGS_SAMPLING)
        odd_hang();
    enum status status = real->ops->sample(stream, args);
    if (stream == odd_stream && odd == ODD_DIFFERS && args->count > 0)
        args->result[args->count - 1].token ^= 1;
    return status;
}

struct group_view { // a rig on these devices
    struct rig rig;
    struct device_api api;
    struct op_table ops;
};

static enum status odd_stream_open(struct device *device, struct stream **out,
                                   const struct stream_limits *limits, struct error *err)
{
    enum status status = real->stream_open(device, out, limits, err);
    opened[opened_count++] = *out;
    return status;
}

static void odd_abort(struct comm *comm)
{
    atomic_fetch_add(&odd_aborts, 1);
    real->comm_abort(comm);
}

static enum status odd_replay(struct stream *stream, struct graph *graph)
{
    if (odd == ODD_LATE)
        odd_late(stream);
    return real->graph_launch(stream, graph);
}

static void odd_open(struct group_view *v, const char *folder, uint32_t ranks)
{
    struct model_options options = rig_options();
    options.load_dummy = dummy;
    real = rig_device();
    v->ops = *real->ops;
    v->ops.gemm = odd_gemm;
    v->ops.sample = odd_sample;
    v->api = *real;
    v->api.ops = &v->ops;
    v->api.graph_launch = odd_replay;
    v->api.stream_open = odd_stream_open;
    v->api.comm_abort = odd_abort;
    opened_count = 0;
    atomic_store(&odd_aborts, 0);
    odd_stream = NULL;
    odd = ODD_NOTHING;
    rig_open_ranks(&v->rig, &v->api, folder, &options, ranks);
    assert_int_equal(opened_count, ranks);
}

static void step_prepare(struct rig *rig, struct rig_sequence *s)
{
    rig_begin(rig);
    rig_prefill(rig, s, PROMPT, WANT_TOKEN);
}

// Checks that another model of the device can acquire the device slot, without model_drop.
static void slot_is_free(struct rig *rig)
{
    struct error err;
    struct stream *other;
    assert_false(rig->model->slot_held); // otherwise device_slot_acquire would block forever
    assert_int_equal(device_cpu()->stream_open(rig->device, &other, &rig->model->limits, &err),
                     STATUS_OK);
    device_cpu()->device_slot_acquire(other);
    device_cpu()->device_slot_release(other);
    device_cpu()->stream_close(other);
}

// Whichever rank fails, the step ends with its error, no rank waits for it, and the device slot is
// free.
static void test_a_rank_that_fails_ends_the_step(void **state)
{
    (void)state;
    char folder[64];
    int32_t tokens[PROMPT];
    golden_folder(folder, "llama", DTYPE_F32);
    prompt_fill(tokens, 0);
    for (uint32_t rank = 0; rank < 3; rank += 1 + (rank == 0)) {
        struct group_view v;
        struct error err;
        char words[64];
        struct rig_sequence s = {0, tokens, PROMPT, 0, STEP_NO_TYPE};
        odd_open(&v, folder, 4);
        odd_stream = opened[rank];
        odd = ODD_FAILS;
        step_prepare(&v.rig, &s);
        assert_int_equal(model_launch(v.rig.model, v.rig.batch, &err), STATUS_DEVICE_FAULT);
        snprintf(words, sizeof words, "rank %u of 4: the device refused a forward pass", rank);
        assert_string_equal(err.text, words);
        slot_is_free(&v.rig);
        rig_close(&v.rig);
    }
    folder_remove(folder);
}

static void test_disagreeing_ranks_are_detected(void **state)
{
    (void)state;
    char folder[64];
    int32_t tokens[PROMPT];
    golden_folder(folder, "llama", DTYPE_F32);
    prompt_fill(tokens, 0);
    struct group_view v;
    struct error err;
    struct model_output out;
    struct rig_sequence s[2] = {{0, tokens, PROMPT, 0, STEP_NO_TYPE},
                                {1, tokens, PROMPT - 1, 0, STEP_NO_TYPE}};
    odd_open(&v, folder, 2);
    rig_begin(&v.rig);
    for (int i = 0; i < 2; i++)
        rig_prefill(&v.rig, &s[i], PROMPT, WANT_TOKEN);
    rig_step(&v.rig, NULL);
    odd_stream = opened[1];
    odd = ODD_DIFFERS; // in the second row
    rig_begin(&v.rig);
    for (int i = 0; i < 2; i++)
        rig_decode(&v.rig, &s[i]);
    assert_int_equal(model_launch(v.rig.model, v.rig.batch, &err), STATUS_OK);
    assert_int_equal(model_sample(v.rig.model, NULL, 0, &err), STATUS_OK);
    assert_int_equal(model_collect(v.rig.model, &out, UINT64_MAX, &err), STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "rank 1 of 2 has other results than rank 0 in step 1");
    assert_int_equal(odd_aborts, 1);
    odd = ODD_NOTHING; // the model stays failed
    assert_int_equal(model_launch(v.rig.model, v.rig.batch, &err), STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "rank 1 of 2 has other results than rank 0 in step 1");
    rig_close(&v.rig);
    folder_remove(folder);
}

static const uint64_t HANG_NS = 3000000000;

// A rank that hangs is abandoned at the deadline and named, wherever it hangs. The device slot is
// free then, and the rank does no harm when it continues.
static void test_a_rank_that_hangs_ends_the_step(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank, ranks;
        bool sampling;
    } cases[] = {{1, 2, false}, {0, 2, false}, {0, 2, true}};
    char folder[64];
    int32_t tokens[PROMPT];
    golden_folder(folder, "llama", DTYPE_F32);
    prompt_fill(tokens, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct group_view v;
        struct error err;
        char words[96];
        struct rig_sequence s = {0, tokens, PROMPT, 0, STEP_NO_TYPE};
        odd_open(&v, folder, cases[i].ranks);
        odd_stream = opened[cases[i].rank];
        odd = cases[i].sampling ? ODD_HANGS_SAMPLING : ODD_HANGS;
        atomic_store(&odd_held, true);
        step_prepare(&v.rig, &s);
        if (!cases[i].sampling)
            model_step_deadline(v.rig.model, HANG_NS);
        enum status status = model_launch(v.rig.model, v.rig.batch, &err);
        assert_int_equal(status, cases[i].sampling ? STATUS_OK : STATUS_TIMEOUT);
        if (status == STATUS_OK) {
            model_step_deadline(v.rig.model, HANG_NS); // only now: the launch must succeed
            status = model_sample(v.rig.model, NULL, 0, &err);
        }
        assert_int_equal(status, STATUS_TIMEOUT);
        snprintf(words, sizeof words, "rank %u of %u did not end step 0 within 3.0 s",
                 cases[i].rank, cases[i].ranks);
        assert_string_equal(err.text, words);
        assert_int_equal(model_failed_rank(v.rig.model), cases[i].rank);
        assert_true(odd_aborts > 0); // the other ranks end now, before the late one
        slot_is_free(&v.rig);
        atomic_store(&odd_held, false);
        rig_close(&v.rig);
    }
    folder_remove(folder);
}

// If one rank fails and another one hangs because of it, the step's error is the fault.
static void test_fault_precedes_timeout(void **state)
{
    (void)state;
    char folder[64];
    int32_t tokens[PROMPT];
    golden_folder(folder, "llama", DTYPE_F32);
    prompt_fill(tokens, 0);
    struct group_view v;
    struct error err;
    struct rig_sequence s = {0, tokens, PROMPT, 0, STEP_NO_TYPE};
    odd_open(&v, folder, 2);
    odd_stream = opened[1];
    odd = ODD_FAILS_ALONE;
    atomic_store(&odd_held, true);
    step_prepare(&v.rig, &s);
    model_step_deadline(v.rig.model, HANG_NS);
    assert_int_equal(model_launch(v.rig.model, v.rig.batch, &err), STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "rank 1 of 2: the device refused a forward pass");
    slot_is_free(&v.rig);
    atomic_store(&odd_held, false);
    rig_close(&v.rig);
    folder_remove(folder);
}

// Fakes the waits and the clock of this program for a machine that is paused: the first wait takes
// an hour by the clock, the next one lets the hanging rank continue.
static _Atomic bool pausing;
static _Atomic uint32_t pause_waits;
static _Atomic uint64_t paused_s;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int failed = __real_clock_gettime(clock, out);
    out->tv_sec += (time_t)atomic_load(&paused_s);
    return failed;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    bool bounded = number == SYS_futex && a[1] == FUTEX_WAIT_BITSET_PRIVATE && a[3] != 0;
    if (!bounded || !atomic_load(&pausing))
        return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (atomic_fetch_add(&pause_waits, 1) == 0)
        atomic_store(&paused_s, 3600);
    else
        atomic_store(&odd_held, false);
    usleep(1000);
    return -1;
}

// An hour in which no part of the program ran does not count as time that a rank took.
static void test_a_pause_of_the_machine_loses_no_rank(void **state)
{
    (void)state;
    char folder[64];
    int32_t tokens[PROMPT];
    golden_folder(folder, "llama", DTYPE_F32);
    prompt_fill(tokens, 0);
    struct group_view v;
    struct error err = {.text = ""};
    struct rig_sequence s = {0, tokens, PROMPT, 0, STEP_NO_TYPE};
    odd_open(&v, folder, 2);
    odd_stream = opened[1];
    odd = ODD_HANGS;
    atomic_store(&odd_held, true);
    step_prepare(&v.rig, &s);
    atomic_store(&pausing, true);
    enum status status = model_launch(v.rig.model, v.rig.batch, &err);
    atomic_store(&pausing, false);
    atomic_store(&odd_held, false);
    assert_string_equal(err.text, "");
    assert_int_equal(status, STATUS_OK);
    assert_true(pause_waits > 1);
    assert_int_equal(odd_aborts, 0);
    model_drop(v.rig.model);
    assert_int_equal(odd_aborts, 1); // so that no rank waits on the device while others compute
    rig_close(&v.rig);
    folder_remove(folder);
}

// Ranks with random delays give the same results, also if they replay graphs.
static void test_late_ranks_change_no_result(void **state)
{
    (void)state;
    char folder[64];
    int32_t tokens[OUTPUTS], same[OUTPUTS];
    float alone[VOCAB], other[VOCAB];
    struct group_view v;
    golden_folder(folder, "qwen3", DTYPE_F32);
    for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
        generate_with(folder, ranks, 0, PROMPT, tokens, alone);
        odd_open(&v, folder, ranks);
        for (uint64_t seed = 1; seed <= (emulated ? 2 : LATE_SEEDS); seed++) {
            odd_late_from(seed);
            generate(&v.rig, (uint32_t)seed % 4, 9, same, other);
            assert_memory_equal(alone, other, sizeof alone);
            assert_memory_equal(tokens, same, sizeof tokens);
        }
        rig_close(&v.rig);
    }
    folder_remove(folder);
}

// Ranks of a deep model wait for each other between layers, on devices that queue them. A rank that
// fails or hangs before it comes ends the step of the one that waits.
static void test_ranks_meet_in_deep_models(void **state)
{
    (void)state;
    static const enum odd_kind ends[] = {ODD_FAILS, ODD_HANGS};
    for (size_t i = 0; i < 2; i++) {
        char folder[64];
        int32_t tokens[PROMPT];
        struct group_view v;
        struct error err = {.text = ""};
        struct rig_sequence s = {0, tokens, PROMPT, 0, STEP_NO_TYPE};
        layers = 9;
        dummy = true;
        unequal_folder(folder, 4, 2, true);
        prompt_fill(tokens, 0);
        odd_open(&v, folder, 2);
        odd_late_from(i + 1);
        step_prepare(&v.rig, &s);
        assert_int_equal(model_launch(v.rig.model, v.rig.batch, &err), STATUS_OK);
        assert_int_equal(model_sample(v.rig.model, NULL, 0, &err), STATUS_OK);
        struct model_output out;
        assert_int_equal(model_collect(v.rig.model, &out, UINT64_MAX, &err), STATUS_OK);
        odd_stream = opened[1];
        odd = ends[i];
        atomic_store(&odd_held, true);
        model_step_deadline(v.rig.model, HANG_NS);
        s.computed = 0;
        step_prepare(&v.rig, &s);
        assert_int_equal(model_launch(v.rig.model, v.rig.batch, &err),
                         i == 0 ? STATUS_DEVICE_FAULT : STATUS_TIMEOUT);
        assert_memory_equal(err.text, "rank 1 of 2", 11);
        atomic_store(&odd_held, false);
        odd = ODD_NOTHING;
        rig_close(&v.rig);
        folder_remove(folder);
    }
    layers = 2;
    dummy = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_do_not_depend_on_neighbours),
        cmocka_unit_test(test_unequal_parts),
        cmocka_unit_test(test_plan_includes_all_ranks),
        cmocka_unit_test(test_ranks_are_planned_one_by_one),
        cmocka_unit_test(test_a_rank_that_fails_ends_the_step),
        cmocka_unit_test(test_disagreeing_ranks_are_detected),
        cmocka_unit_test(test_a_rank_that_hangs_ends_the_step),
        cmocka_unit_test(test_fault_precedes_timeout),
        cmocka_unit_test(test_a_pause_of_the_machine_loses_no_rank),
        cmocka_unit_test(test_late_ranks_change_no_result),
    };
    const struct CMUnitTest on_gpus[] = {cmocka_unit_test(test_unequal_parts),
                                         cmocka_unit_test(test_ranks_meet_in_deep_models),
                                         cmocka_unit_test(test_late_ranks_change_no_result)};
    emulated = rig_device() != device_cpu();
    if (emulated)
        return rig_device_usable() ? cmocka_run_group_tests(on_gpus, NULL, NULL) : 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
