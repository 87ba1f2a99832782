// SPDX-License-Identifier: Apache-2.0
// Truncated tool arguments: if json_begun accepts a text, it accepts its first half, and
// json_begun_put completes such a text to a JSON object.
#include "http/api/answer.h"

#include "base/status.h"
#include "runtime/text/dialect/scan.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool is_object(struct text text)
{
    struct json_scan scan;
    enum json_scan_step step = JSON_SCAN_MORE;
    json_scan_begin_object(&scan);
    for (size_t i = 0; i < text.bytes; i++) {
        check(step == JSON_SCAN_MORE, "byte %zu follows the end or a fault", i);
        step = json_scan_byte(&scan, text.at[i]);
    }
    return step == JSON_SCAN_DONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct text text = text_span((const char *)data, bytes);
    size_t half = bytes / 2;
    struct json_buffer out = {0};
    if (!json_begun(text))
        return 0;
    check(json_begun(text_span(text.at, half)), "%zu of %zu bytes may not go on", half, bytes);
    json_begun_put(&out, text);
    check(is_object(text_span(out.at, out.bytes)), "no object: %.*s", (int)out.bytes, out.at);
    json_buffer_free(&out);
    return 0;
}
