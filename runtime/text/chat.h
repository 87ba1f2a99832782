// SPDX-License-Identifier: Apache-2.0
// Chat templates: turn the messages of a request into the prompt text.
//
// The template language is the subset of Jinja that model folders use, with white space, tojson and
// the sandbox as published checkpoints expect. A template is parsed once into an immutable program
// that all threads share. A rendering writes only to the caller's arena; it has limits for steps,
// depth and output, and the arena's own limit for memory. Not here: reading model folders,
// tokenizing, and the tool-call dialects of replies.
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

// Limits of one rendering; 0 in a member: the default.
struct chat_limits {
    uint64_t steps_max;      // default 20 million
    size_t output_bytes_max; // default 64 MiB
};

struct chat_input {
    const json_t *variables;    // object: messages, tools, bos_token, ...; must outlive the output
    const char *const *trusted; // names of variables whose strings come from the server, e.g.
                                // "bos_token"; all others are plain
    uint32_t trusted_count;
    int64_t now;         // Unix time in seconds, for strftime_now (UTC)
    struct slice *slice; // the work is charged to it (base/slice.h); NULL: not counted
    struct chat_limits limits;
};

struct chat_output {
    struct text text;
    struct text_segment *segments; // joined they are `text`; adjacent segments differ in `plain`
    uint32_t segment_count;
};

// Parses a template; copies the source. An error names the template's line. Renders short
// conversations to find out what the template accepts. If it reads contents that are lists of
// parts, but not texts, chat_render gives it each text as [{"type": "text", "text": content}].
enum status chat_template_create(struct chat_template **out, struct text source,
                                 struct error *err) MUST_USE;
void chat_template_destroy(struct chat_template *chat); // NULL is allowed

// Renders a template. STATUS_REFUSED: the template called raise_exception; err contains only the
// text it gave. STATUS_UNWANTED: the slice reported that the result is no longer wanted. Any other
// failure (an operation that the values do not allow, a limit) names the line. Output and scratch
// memory are allocated from `arena`; if its limit is reached, the rendering fails.
enum status chat_render(const struct chat_template *chat, const struct chat_input *in,
                        struct arena *arena, struct chat_output *out, struct error *err) MUST_USE;

// Returns true if the template mentions this variable ("tools", "enable_thinking") anywhere.
bool chat_template_uses(const struct chat_template *chat, const char *name);

// Returns true if the template accepts a conversation with a system message in the middle and
// outputs that message's text.
bool chat_template_accepts_late_system(const struct chat_template *chat);

// Returns the source of one template that renders `with` if the request has tools, else `without`.
// The text is in the arena; at == NULL: it is full.
struct text chat_template_choose(struct arena *arena, struct text with, struct text without);

// Returns the source of the template for models without one: the contents, joined by newlines.
struct text chat_template_plain(void);
