// SPDX-License-Identifier: Apache-2.0
// The cpu device with waits that take WEFT_PACED_US microseconds longer, linked into weft_paced by
// --wrap=device_cpu: steps of a known duration that use no processor time, for hostile_grammars.py.
#include "kernels/device.h"

#include <stdlib.h>
#include <unistd.h>

const struct device_api *__real_device_cpu(void); // NOLINT: the linker's names
const struct device_api *__wrap_device_cpu(void); // NOLINT

static useconds_t longer_us;

static enum status paced_wait(struct stream *stream, const uint32_t *word, uint32_t value,
                              uint64_t deadline_ns, struct error *err)
{
    usleep(longer_us);
    return __real_device_cpu()->wait(stream, word, value, deadline_ns, err);
}

const struct device_api *__wrap_device_cpu(void)
{
    static struct device_api api;
    const char *longer = getenv("WEFT_PACED_US");
    longer_us = longer ? (useconds_t)strtoul(longer, NULL, 10) : 0;
    api = *__real_device_cpu();
    api.wait = paced_wait;
    return &api;
}
