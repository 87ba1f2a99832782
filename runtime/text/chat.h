// Chat templates: a request's messages in, the prompt text out.
//
// The template language is the subset of Jinja that model folders use, with white space, tojson
// and the sandbox set as published checkpoints expect. A template is parsed once into an immutable
// program that all threads share; a rendering writes only into the caller's arena and has limits
// for steps, depth and output, and the arena's own limit for memory. What is not here: reading
// model folders, tokenizing, tool-call dialects of the answer.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/text.h"
#include "runtime/text/segment.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct chat_template;

// 0 in a field: the default.
struct chat_limits {
    uint64_t steps_max;      // default 20 million
    size_t output_bytes_max; // default 64 MiB
};

struct chat_input {
    const json_t *variables;    // object: messages, tools, bos_token, ...; must outlive the output
    const char *const *trusted; // variables whose strings are the server's own, e.g. "bos_token"
    uint32_t trusted_count;
    int64_t now;         // unix seconds, for strftime_now (UTC)
    struct slice *slice; // the work is counted in it; NULL: it is not shared
    struct chat_limits limits;
};

struct chat_output {
    struct text text;
    struct text_segment *segments; // joined they are the text; neighbours differ in `plain`
    uint32_t segment_count;
};

// The error names the line. The source is copied.
enum status chat_template_open(struct chat_template **out, struct text source,
                               struct error *err) MUST_USE;
void chat_template_close(struct chat_template *chat); // NULL is allowed

// STATUS_REFUSED: the template called raise_exception, and err holds its text and nothing else.
// Any other failure (an operation that the values do not allow, a limit) names the line. Output
// and scratch memory come from the arena, whose limit, if it has one, ends the rendering.
enum status chat_render(const struct chat_template *chat, const struct chat_input *in,
                        struct arena *arena, struct chat_output *out, struct error *err) MUST_USE;

// Whether the template mentions this variable ("tools", "enable_thinking") anywhere.
bool chat_template_uses(const struct chat_template *chat, const char *name);

// True: the template renders a conversation with a system message in the middle, and that
// message's text comes out.
bool chat_template_takes_system_inside(const struct chat_template *chat);

// Source of the template for models that bring none: the contents, joined by a newline.
struct text chat_template_plain(void);
