// SPDX-License-Identifier: Apache-2.0
// libFuzzer: bytes as config.json. Rotary frequencies are computed for accepted decoder
// configurations.
#include "base/json.h"
#include "runtime/model/config.h"
#include "runtime/model/rope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct model_config config;
    struct error err;
    json_t *json = NULL;
    if (json_parse(&json, text_span((const char *)data, bytes), &err) != STATUS_OK)
        return 0;
    if (model_config_parse(&config, json, &err) == STATUS_OK &&
        config.arch->family == ARCH_DECODER) {
        double frequencies[CONFIG_ROPE_FACTORS_MAX];
        rope_frequencies(frequencies, &config.ropes[0], config.positions, config.length_max);
    }
    json_decref(json);
    return 0;
}
