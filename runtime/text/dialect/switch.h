// SPDX-License-Identifier: Apache-2.0
// Properties of a chat template, found at model load by rendering short conversations: how
// reasoning is switched on and off and its effort is set (with each variable that templates are
// known to read), and if a message may have several calls.
#pragma once

#include "base/text.h"
#include "runtime/text/chat.h"

#include <stdbool.h>
#include <stdint.h>

// Levels of reasoning effort, ascending.
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

struct dialect_switch {              // a variable that switches reasoning
    const char *variable, *on, *off; // on, off: values as JSON
    const char *sign;                // text that the template must contain, or NULL
};

struct dialect_thinking {
    const struct dialect_switch *by; // NULL: no known variable changes the prompt
    uint32_t efforts;                // bitmap of the levels that the template accepts
};

// Fills *out for a template: renders a short prompt with each known variable on and off to find one
// that changes it, then with each level of effort. About fifteen prompts. Any thread.
void dialect_thinking_find(struct dialect_thinking *out, const struct chat_template *chat,
                           struct text template_source);

// Returns true if the template renders a message with one call and refuses one with two, so that an
// answer with more calls could not be sent back. Renders at most two prompts. Any thread.
bool dialect_one_call(const struct chat_template *chat);

// Returns the first row with that variable, for tests; NULL: none.
const struct dialect_switch *dialect_switch_of(const char *variable);

const char *dialect_effort_name(enum dialect_effort effort); // static
// Returns false if no level has that name.
bool dialect_effort_named(struct text name, enum dialect_effort *effort);
// Returns the nearest level above EFFORT_NONE that the template accepts, the higher one of two;
// `effort` if it accepts none.
enum dialect_effort dialect_effort_nearest(const struct dialect_thinking *t,
                                           enum dialect_effort effort);
