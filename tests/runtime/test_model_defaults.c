// SPDX-License-Identifier: Apache-2.0
// The sampling defaults of a plan: their source, and the number of penalty rows that they need.
#include "runtime/model/model.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// A default penalty needs a row for each sequence, unless the option sets the number of rows.
static void test_defaults_of_requests(void **state)
{
    (void)state;
    static const char generation[] = "{\"temperature\":0.5,\"repetition_penalty\":1.5}";
    static const struct {
        int from, asked;
        double given; // repetition penalty of the options
        double temperature, penalty;
        uint32_t rows;
    } cases[] = {
        {DEFAULTS_NONE, -1, 1.25, NAN, NAN, 64},  {DEFAULTS_FOLDER, -1, 1.25, 0.5, 1.5, 100},
        {DEFAULTS_FOLDER, 9, 1.25, 0.5, 1.5, 9},  {DEFAULTS_GIVEN, -1, 1.25, 2, 1.25, 100},
        {DEFAULTS_GIVEN, -1, 0.75, 2, 0.75, 100}, {DEFAULTS_GIVEN, -1, 1, 2, 1, 64},
        {DEFAULTS_GIVEN, -1, NAN, 2, NAN, 64},
    };
    struct device *device;
    struct error err;
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    struct device_options on = {.threads = 1, .exact = true};
    assert_int_equal(device_cpu()->open(&device, &on, &err), STATUS_OK);
    file_write(folder, "generation_config.json", generation, strlen(generation));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_options options = rig_options();
        options.max_num_seqs = 100;
        options.max_num_batched_tokens = 200;
        options.load_dummy = true;
        options.penalty_rows = cases[i].asked;
        options.defaults_from = cases[i].from;
        options.defaults =
            (struct model_defaults){.temperature = 2, .repetition_penalty = cases[i].given};
        struct model_plan *plan;
        if (model_plan_open(&plan, folder, device_cpu(), device, &options, &err) != STATUS_OK)
            fail_msg("%s", err.text);
        const struct model_facts *f = &plan->facts;
        double got[] = {f->defaults.temperature, f->defaults.repetition_penalty};
        double want[] = {cases[i].temperature, cases[i].penalty};
        for (int k = 0; k < 2; k++)
            assert_true(isnan(want[k]) ? isnan(got[k]) : got[k] == want[k]);
        assert_int_equal(f->limits.penalty_rows, cases[i].rows);
        uint64_t said = 0;
        for (uint32_t k = 0; k < plan->need.count; k++)
            if (strcmp(plan->need.entry[k].label, "penalty rows") == 0)
                said = plan->need.entry[k].bytes;
        assert_in_range(said, cases[i].rows * f->vocab * 2, cases[i].rows * f->vocab * 2 + 255);
        model_plan_close(plan);
    }
    folder_remove(folder);
    device_cpu()->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults_of_requests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
