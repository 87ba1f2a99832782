// SPDX-License-Identifier: Apache-2.0
// A plugin that first offers no device, then a device of another ABI, then one of the right ABI.
// For tests/kernels/test_device.c.
#include "kernels/device.h"

const struct device_api *weft_device_plugin(void);

const struct device_api *weft_device_plugin(void)
{
    static struct device_api other = {.abi = DEVICE_ABI + 1, .name = "odd"};
    static const struct device_api same = {.abi = DEVICE_ABI, .name = "odd"};
    static int calls;
    calls++;
    return calls == 1 ? NULL : calls == 2 ? &other : &same;
}
