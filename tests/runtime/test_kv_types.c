// SPDX-License-Identifier: Apache-2.0
// Which types of keys and values a device has, and what they take.
#include "base/json.h"
#include "runtime/model/internal.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct device *device;
static struct error err;
static char folder[64];
static struct device_api planned; // the device to plan for

static void put(const char *patch)
{
    json_t *golden = golden_read("llama"), *more = json_loads(patch, 0, NULL);
    json_object_update(json_object_get(golden, "config"), more);
    if (folder[0])
        folder_remove(folder);
    folder_make(folder);
    golden_folder_write(folder, golden, DTYPE_F32, 1);
    json_decref(more);
    json_decref(golden);
}

// Plans a model in int8 with this type of keys and values. Returns the bytes of a KV block.
static uint64_t planned_bytes(int given, enum dtype want)
{
    struct model_options options = rig_options();
    struct model_plan *plan;
    options.dtype = DTYPE_I8;
    options.load_dummy = true;
    options.kv_dtype = given;
    if (model_plan_open(&plan, folder, &planned, device, &options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(plan->facts.kv_dtype, want);
    uint64_t bytes = plan->facts.block_bytes;
    model_plan_close(plan);
    return bytes;
}

static void refused(int given, const char *words)
{
    struct model_options options = rig_options();
    struct model_plan *plan = NULL;
    options.dtype = DTYPE_I8;
    options.load_dummy = true;
    options.kv_dtype = given;
    enum status status = model_plan_open(&plan, folder, &planned, device, &options, &err);
    if (status != STATUS_UNSUPPORTED || plan || !strstr(err.text, words))
        fail_msg("%s: %s, not %s", status_name(status), err.text, words);
}

static void facts_of_16_bits(const struct device *at, struct device_facts *out)
{
    device_cpu()->facts(at, out);
    out->activation[DTYPE_I8] = DTYPE_BF16;
    out->kv_int8 = false;
    out->kv_fp8 = true;
}

// A device that computes in 16 bits stores keys and values in that type or in fp8, which takes half
// the bytes.
static void test_devices_of_16_bits(void **state)
{
    (void)state;
    planned = *device_cpu();
    planned.facts = facts_of_16_bits;
    put("{}");
    assert_int_equal(planned_bytes(-1, DTYPE_BF16), 2 * planned_bytes(DTYPE_E4M3, DTYPE_E4M3));
    refused(DTYPE_F32, "--kv-cache-dtype float32: this device computes in bfloat16 and keeps keys "
                       "and values in that type or in fp8; leave it out");
    refused(DTYPE_I8, "--kv-cache-dtype int8: this device keeps keys and values of 8 bits as fp8 "
                      "only; give fp8");
    put("{\"head_dim\":24}");
    refused(DTYPE_E4M3, "--kv-cache-dtype fp8: the heads have 24 columns, and fp8 needs a multiple "
                        "of 16; leave it out");
}

static void test_cpu_has_no_fp8(void **state)
{
    (void)state;
    planned = *device_cpu();
    put("{}");
    refused(DTYPE_E4M3, "--kv-cache-dtype fp8: this device keeps keys and values of 8 bits as int8 "
                        "only; give int8");
}

static int begin(void **state)
{
    (void)state;
    struct device_options options = {.threads = 1, .exact = true};
    return device_cpu()->open(&device, &options, &err) == STATUS_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    folder_remove(folder);
    device_cpu()->close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_of_16_bits),
        cmocka_unit_test(test_cpu_has_no_fp8),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
