// SPDX-License-Identifier: Apache-2.0
// The op lists of the forward passes, walked without a model: no op reads a buffer that was not
// written, or whose memory another buffer has overwritten (layout.c lets wide buffers share
// memory), and none overwrites a buffer that was not read.
#include "base/json.h"
#include "runtime/model/internal.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct span {
    size_t at, bytes;
};

// The state of each buffer: its memory, whether a list wrote it, whether a buffer in the same
// memory overwrote it, and whether it was read.
struct walk {
    struct span spans[BUFFER_COUNT];
    bool written[BUFFER_COUNT], lost[BUFFER_COUNT], read[BUFFER_COUNT];
};

static void walk_read(struct walk *w, enum model_buffer in)
{
    assert_true(w->written[in] && !w->lost[in]);
    w->read[in] = true;
}

static void walk_write(struct walk *w, enum model_buffer out)
{
    for (int i = BUFFER_NONE + 1; i < BUFFER_COUNT; i++) {
        const struct span *a = &w->spans[i], *b = &w->spans[out];
        if (i != (int)out && a->at < b->at + b->bytes && b->at < a->at + a->bytes)
            w->lost[i] = true;
    }
    assert_true(!w->written[out] || w->read[out]);
    w->written[out] = true;
    w->lost[out] = w->read[out] = false;
}

// An op without an output writes its input. begins: no residual is pending, so the first op adds
// none.
static void walk_list(struct walk *w, const struct forward_op *op, bool begins)
{
    for (uint32_t row = 0; op->run; op++, row++) {
        if (op->in != BUFFER_NONE)
            walk_read(w, op->in);
        if (op->add != BUFFER_NONE && !(begins && row == 0))
            walk_read(w, op->add);
        if (op->also != BUFFER_NONE)
            walk_read(w, op->also);
        walk_write(w, op->out != BUFFER_NONE ? op->out : op->in);
    }
}

static void lists_walk(const struct model_plan *plan, bool in_place)
{
    const struct model_layout *at = &plan->parts->layout;
    const struct model_config *c = &plan->parts->config;
    static struct forward_lists lists;
    forward_lists_make(&lists, c);
    size_t act = dtype_bytes(plan->parts->act), tokens = plan->facts.limits.tokens_max * act;
    size_t gated = c->kinds[0].gated, rows = plan->facts.limits.rows_max;
    bool generates = plan->facts.kind == MODEL_GENERATOR;
    struct walk w = {0};
    for (int i = BUFFER_NONE + 1; i < BUFFER_COUNT; i++)
        w.spans[i] = (struct span){at->buffer[i], 1}; // the others share no memory
    w.spans[BUFFER_QKV].bytes = tokens * (c->heads + 2 * c->kv_heads) * c->head_dim;
    w.spans[BUFFER_ATTN].bytes = tokens * c->heads * c->head_dim;
    uint32_t inner = c->experts.shared_width; // columns of a dense part or of the shared expert
    for (uint32_t i = 0; i < c->kind_count; i++)
        inner = !c->kinds[i].experts && c->intermediate > inner ? c->intermediate : inner;
    w.spans[BUFFER_UP].bytes = tokens * inner * (1 + gated);
    w.spans[BUFFER_FFN].bytes = gated * tokens * inner;
    const struct experts_config *e = &c->experts;
    w.spans[BUFFER_EXPERT_UP].bytes = tokens * e->chosen * 2 * e->width;
    w.spans[BUFFER_EXPERT_FFN].bytes = tokens * e->chosen * e->width;
    w.spans[BUFFER_EXPERT_OUT].bytes = e->count > 0 ? tokens * e->chosen * c->hidden : 0;
    w.spans[BUFFER_ROUTER].bytes = tokens / act * e->count * sizeof(float);
    w.spans[BUFFER_ROUTING].bytes = at->routing.bytes;
    w.spans[BUFFER_SHARED_FACTOR].bytes = e->shared_width > 0 ? tokens / act * sizeof(float) : 0;
    w.spans[BUFFER_LOGITS].bytes = generates * rows * c->vocab * sizeof(float);
    walk_list(&w, lists.first, false);
    for (uint32_t layer = 0; layer < c->layers; layer++)
        walk_list(&w, lists.layer[c->layer_kind[layer]], layer == 0);
    walk_list(&w, in_place ? lists.last_in_place : lists.last, false);
    assert_true(w.written[generates ? BUFFER_LOGITS : BUFFER_VALUES]);
}

static void family_walk(struct device *device, const char *family)
{
    char folder[64];
    struct error err;
    struct model_plan *plan;
    struct model_options options = rig_options();
    options.load_dummy = true;
    golden_folder(folder, family, DTYPE_F32);
    if (model_plan_open(&plan, folder, device_cpu(), device, &options, &err) != STATUS_OK)
        fail_msg("%s: %s", family, err.text);
    lists_walk(plan, false);
    if (plan->facts.kind == MODEL_GENERATOR)
        lists_walk(plan, true);
    model_plan_close(plan);
    folder_remove(folder);
}

static void test_no_op_reads_overwritten_buffers(void **state)
{
    (void)state;
    static const char *const families[] = {
        "llama",       "qwen3",        "llama-mean",   "qwen2-classifier", "bert-mean",
        "bert-rerank", "roberta-mean", "qwen2-window", "gemma3",           "olmo2",
        "granite",     "exaone4",      "cohere",       "qwen3-moe",        "qwen2-moe",
        "glm4-moe",    "olmoe",        "gpt-oss"};
    struct error err;
    struct device *device;
    struct device_options options = {.threads = 1, .exact = true};
    assert_int_equal(device_cpu()->open(&device, &options, &err), STATUS_OK);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        family_walk(device, families[i]);
    device_cpu()->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_op_reads_overwritten_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
