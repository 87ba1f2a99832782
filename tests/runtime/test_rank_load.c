// SPDX-License-Identifier: Apache-2.0
// Loading the ranks of a model at the same time, on CPU devices that offer no threads for it: the
// ranks hold the same weights as if they had loaded one after another, they report one common
// progress, and an error of one rank ends the others. Ranks that share threads load one by one.
#include "base/patience.h"
#include "runtime/model/internal.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 2 };
static const uint64_t LONG = 20000000000u; // ns: far more than any load here takes

static char folder[64];
static struct rig rig; // its devices and ranks
static struct device_api api;
static struct model_plan *plan;

// The behavior of ranks. meets: each waits in its first call until all have come. fails: bits of
// ranks whose call `fail_at` fails.
static bool meets;
static uint32_t fails, fail_at;
static _Atomic uint32_t calls[RANKS], finished[RANKS]; // calls of weight_put and weight_finish
static _Atomic uint32_t inside, most; // ranks that are loading now; most of them at once
static _Atomic bool alone;            // true: a rank has waited in vain

static uint32_t rank_of(const struct device *device)
{
    uint32_t r = 0;
    while (rig.ranks[r] != device)
        r++;
    return r;
}

static void await(bool (*reached)(void))
{
    struct patience patience = patience_of(LONG);
    while (!reached() && !patience_ends(&patience))
        usleep(100);
    if (!reached())
        atomic_store(&alone, true);
}

static bool all_came(void)
{
    return atomic_load(&calls[0]) > 0 && atomic_load(&calls[1]) > 0;
}

static bool other_ended(void)
{
    return atomic_load(&calls[1]) >= fail_at && !atomic_load(&plan->parts->others[1]->parts->busy);
}

static enum status put(struct device *device, struct weight *weight, uint32_t row,
                       const struct weight_source *source, struct error *err)
{
    uint32_t rank = rank_of(device), call = atomic_fetch_add(&calls[rank], 1) + 1;
    uint32_t now = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most);
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        continue;
    if (meets && call == 1)
        await(all_came);
    if (meets && fails == 2 && rank == 0 && call == 2)
        await(other_ended);
    enum status status = device_cpu()->weight_put(device, weight, row, source, err);
    atomic_fetch_sub(&inside, 1);
    if (call == fail_at && (fails >> rank & 1))
        return error_set(err, STATUS_DEVICE_FAULT, "rank %u refuses", rank);
    return status;
}

static enum status finish(struct device *device, struct weight *weight, struct error *err)
{
    atomic_fetch_add(&finished[rank_of(device)], 1);
    return device_cpu()->weight_finish(device, weight, err);
}

struct told {
    uint64_t done, total, calls;
};

static void tell(void *context, uint64_t done, uint64_t total)
{
    struct told *told = context;
    atomic_store(&alone, atomic_load(&alone) || done <= told->done || done > total);
    *told = (struct told){done, total, told->calls + 1};
}

// Opens the model. shared: on devices that share threads.
static enum status load(bool shared, struct model **out, struct told *told, struct error *err)
{
    struct model_options options = rig_options();
    options.share.tp_size = RANKS;
    options.devices = rig.ranks;
    api = *device_cpu();
    api.weight_put = put;
    api.weight_finish = finish;
    api.threads = shared ? api.threads : NULL;
    for (uint32_t r = 0; r < RANKS; r++)
        calls[r] = finished[r] = 0;
    inside = most = 0;
    alone = false;
    assert_int_equal(model_plan_open(&plan, folder, &api, rig.ranks[0], &options, err), STATUS_OK);
    return model_open(out, plan, plan->kv_bytes_min, told ? tell : NULL, told, err);
}

static void unload(struct model *model)
{
    model_close(model);
    model_plan_close(plan);
    assert_false(alone);
}

static const void *weights_of(const struct model *model, uint32_t rank)
{
    return (rank > 0 ? model->others[rank] : model)->weights_memory;
}

static void test_ranks_load_at_the_same_time(void **state)
{
    (void)state;
    struct model *serial, *parallel;
    struct error err = {0};
    struct told told = {0};
    meets = false;
    fails = 0;
    assert_int_equal(load(true, &serial, NULL, &err), STATUS_OK);
    struct model_plan *serial_plan = plan;
    assert_int_equal(most, 1);
    meets = true;
    assert_int_equal(load(false, &parallel, &told, &err), STATUS_OK);
    assert_int_equal(most, RANKS);
    assert_int_equal(told.done, told.total);
    assert_int_equal(told.calls, finished[0] + finished[1]);
    assert_int_equal(model_plan_loading(plan), RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        uint64_t bytes = (r > 0 ? plan->parts->others[r] : plan)->parts->weights.bytes;
        assert_memory_equal(weights_of(parallel, r), weights_of(serial, r), bytes);
    }
    unload(parallel);
    plan = serial_plan;
    unload(serial);
}

// Rank 0 continues when rank 1 has failed: it ends the weight that it loads, and no other.
static void test_an_error_ends_the_others(void **state)
{
    (void)state;
    struct model *model;
    struct error err = {0};
    meets = true;
    fails = 2;
    for (fail_at = 1; fail_at <= 5; fail_at += 4) {
        assert_int_equal(load(false, &model, NULL, &err), STATUS_DEVICE_FAULT);
        assert_string_equal(err.text, "rank 1 refuses");
        assert_true(finished[0] <= 2);
        model_plan_close(plan);
        assert_false(alone);
    }
}

static void test_the_first_error_is_reported(void **state)
{
    (void)state;
    struct model *model;
    struct error err = {0};
    meets = true;
    fails = 3;
    fail_at = 1;
    assert_int_equal(load(false, &model, NULL, &err), STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "rank 0 refuses");
    model_plan_close(plan);
    meets = false;
    assert_int_equal(load(true, &model, NULL, &err), STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "rank 0 refuses");
    assert_int_equal(calls[1], 0); // one by one
    model_plan_close(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_load_at_the_same_time),
        cmocka_unit_test(test_an_error_ends_the_others),
        cmocka_unit_test(test_the_first_error_is_reported),
    };
    struct model_options options = rig_options();
    golden_folder(folder, "qwen3", DTYPE_F32);
    rig_open_ranks(&rig, device_cpu(), folder, &options, RANKS);
    int failed = cmocka_run_group_tests_name("rank_load", tests, NULL, NULL);
    rig_close(&rig);
    folder_remove(folder);
    return failed;
}
