// What a chat template takes, found for a model at load by rendering short conversations: how it is
// told to think or not to, and how much (with each variable that templates are known to read), and
// whether a message may have several calls.
#pragma once

#include "base/text.h"
#include "runtime/text/chat.h"

#include <stdbool.h>
#include <stdint.h>

// Levels of reasoning effort, from little to much.
enum dialect_effort {
    EFFORT_NONE,
    EFFORT_MINIMAL,
    EFFORT_LOW,
    EFFORT_MEDIUM,
    EFFORT_HIGH,
    EFFORT_XHIGH,
    EFFORT_MAX,
    EFFORT_COUNT,
};

struct dialect_switch {              // a row of the table
    const char *variable, *on, *off; // the values are JSON
    const char *sign;                // stands in the source of a template that reads it so, or NULL
};

struct dialect_thinking {
    const struct dialect_switch *by; // NULL: the template's prompt is the same, think or not
    uint32_t efforts;                // bits of the levels that the template takes
};

// Renders some fifteen prompts. Any thread.
void dialect_thinking_find(struct dialect_thinking *out, const struct chat_template *chat,
                           struct text template_source);

// The template renders a message with one call and refuses one with two: an answer with more could
// not be sent back. Renders at most two prompts. Any thread.
bool dialect_one_call(const struct chat_template *chat);

// The row of that variable, for tests. NULL: there is none.
const struct dialect_switch *dialect_switch_of(const char *variable);

const char *dialect_effort_name(enum dialect_effort effort);
// False: no level has that name.
bool dialect_effort_named(struct text name, enum dialect_effort *effort);
// The nearest level but EFFORT_NONE that the template takes, of two the higher one; the level
// itself where it takes none.
enum dialect_effort dialect_effort_nearest(const struct dialect_thinking *t,
                                           enum dialect_effort effort);
