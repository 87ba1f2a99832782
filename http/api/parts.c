// SPDX-License-Identifier: Apache-2.0
// Content parts: see fields.h.
#include "http/api/fields.h"

static const struct field_rule part_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("text"),
    FIELD_READ_BY("refusal"),
    FIELD_HARMLESS("cache_control", "o"),
    FIELD_HARMLESS("prompt_cache_breakpoint", "o"),
    FIELD_HARMLESS("annotations", "a"),
    FIELD_HARMLESS("logprobs", "a"),
};
static const struct field_rules part_rules = FIELD_RULES(part_rows, NULL);

static void part_refuse(struct fields *f, const char *path, struct text type,
                        const struct part_kind *kinds)
{
    static const char *const known[] = {"image_url",  "input_image", "image",   "input_audio",
                                        "audio_url",  "audio",       "video",   "video_url",
                                        "input_file", "file",        "document"};
    struct text shown = text_head(type, 64);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (text_is(type, known[i])) {
            fields_fail(f, HTTP_UNSUPPORTED_CONTENT, path, "is '%.*s', " TEXT_ONLY,
                        (int)shown.bytes, shown.at);
            return;
        }
    }
    fields_fail(f, HTTP_INVALID_VALUE, path, "must be '%s', got '%.*s'", kinds->type,
                (int)shown.bytes, shown.at);
}

static void part_read(struct json_buffer *out, struct fields *f, const json_t *part,
                      const char *path, const struct part_kind *kinds)
{
    struct text type = fields_member_string(f, part, path, "type");
    const struct part_kind *kind = kinds;
    if (!type.at)
        return;
    while (kind->type && !text_is(type, kind->type))
        kind++;
    if (!kind->type) {
        part_refuse(f, fields_path(f, "%s.type", path), type, kinds);
        return;
    }
    json_put_raw(out, fields_member_string(f, part, path, kind->key));
    fields_check_object(f, &part_rules, part, path);
}

void parts_read(struct json_buffer *out, struct fields *f, const json_t *content, const char *path,
                const struct part_kind *kinds)
{
    struct field_path base = fields_path_keep(path);
    size_t i;
    json_t *part;
    if (json_is_string(content)) {
        json_put_raw(out, json_text(content));
        return;
    }
    if (!json_is_array(content)) {
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be a string or an array of text parts");
        return;
    }
    json_array_foreach(content, i, part)
    {
        if (f->failed)
            return;
        part_read(out, f, part, fields_path(f, "%s[%zu]", base.at, i), kinds);
    }
}
