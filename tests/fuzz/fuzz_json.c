// Request bodies: whatever bytes come, json_parse gives a value or an error with a sentence, and
// what it gave can be written and read back to an equal value.
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
    struct json_buffer out = {0};
    if (json_parse(&value, text_span((const char *)data, bytes), &err) != STATUS_OK) {
        check(err.text[0] != '\0', "an error without a sentence, %zu bytes", bytes);
        return 0;
    }
    integers_walk(value);
    json_put_value(&out, value);
    enum status status = json_parse(&again, text_span(out.at, out.bytes), &err);
    check(status == STATUS_OK, "what was written cannot be read: %s", err.text);
    check(json_equal(value, again), "what was written reads as another value: %.*s", (int)out.bytes,
          out.at);
    json_decref(again);
    json_decref(value);
    json_buffer_free(&out);
    return 0;
}
