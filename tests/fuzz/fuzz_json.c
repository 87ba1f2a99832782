// SPDX-License-Identifier: Apache-2.0
// Request bodies: for any bytes, json_parse returns a value or an error sentence. A value can be
// written and read back, and is then written identically.
#include "base/status.h"
#include "base/json.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void integers_walk(const json_t *value)
{
    int64_t integer;
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_number(value))
        (void)json_integer_exact(value, &integer);
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, member) // NOLINT: a macro of the library
            integers_walk(member);
    } else {
        json_array_foreach(value, i, member) integers_walk(member);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    json_t *value = NULL, *again = NULL;
    struct error err;
    struct json_buffer out = {0}, same = {0};
    if (json_parse(&value, text_span((const char *)data, bytes), &err) != STATUS_OK) {
        check(err.text[0] != '\0', "an error without a sentence, %zu bytes", bytes);
        return 0;
    }
    integers_walk(value);
    json_put_value(&out, value);
    enum status status = json_parse(&again, text_span(out.at, out.bytes), &err);
    check(status == STATUS_OK, "what was written cannot be read: %s", err.text);
    json_put_value(&same, again); // jansson's json_equal reads keys up to their first NUL
    check(text_equal(text_span(out.at, out.bytes), text_span(same.at, same.bytes)),
          "what was written reads as another value: %.*s", (int)out.bytes, out.at);
    json_decref(again);
    json_decref(value);
    json_buffer_free(&out);
    json_buffer_free(&same);
    return 0;
}
