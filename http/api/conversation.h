// SPDX-License-Identifier: Apache-2.0
// A conversation in the form that chat templates read, the same for every request shape.
// chat_turns.c, responses_turns.c and messages_turns.c fill it; prompt.c renders it. It makes the
// checks that all shapes share: a tool result answers an earlier call, and each call once; the
// calls of one turn have different ids; system messages are only where the template accepts them.
// Owner: the generation, until conversation_end.
#pragma once

#include "http/api/fields.h"
#include "runtime/text/chat.h"

enum { CONVERSATION_MESSAGES_MAX = 100000 };

struct conversation {
    struct slice *slice; // counts the work, or NULL
    json_t *messages;    // array of {role, content, ...}
    json_t *calls;       // id -> {"name": ..., "answered": bool}
    json_t *turn_ids;    // ids of the calls in the assistant's present turn: id -> true
    bool continued;      // true if the last message is an assistant's that the answer continues
    bool raw_arguments;  // true if a call's arguments are not a JSON object and were kept as text
};

// conversation_begin creates empty JSON values; conversation_end frees them.
void conversation_begin(struct conversation *c, struct slice *slice);
void conversation_end(struct conversation *c);

// Appends a message {role, content} and returns it (borrowed) so that the caller can add keys.
json_t *conversation_add(struct conversation *c, const char *role, struct text content);

// Adds the id to turn_ids. Fails the fields if another call of the turn has it, because a result
// refers to its call by id. path: where the id is.
void conversation_check_id(struct conversation *c, struct fields *f, struct text id,
                           const char *path);

// A tool call of an assistant message.
struct tool_call {
    struct text id, name;
    const json_t *arguments; // object; NULL: arguments_text is used
    struct text arguments_text;
};
// Appends the call to an assistant message that conversation_add returned.
void conversation_add_call(struct conversation *c, json_t *message, const struct tool_call *call);

struct tool_result {
    struct text id, content;
    const char *path; // where the id is, for the error message
};
// Appends a tool message. Fails the fields if no earlier call has this id, or if the call has a
// result already.
void conversation_add_result(struct conversation *c, struct fields *f,
                             const struct tool_result *result);

// Joins neighbouring assistant messages at the end of the conversation; messages with calls are not
// joined.
void conversation_join_tail(struct conversation *c);

// Joins neighbouring messages of one role into one with all of their calls. Tool results are not
// joined; they are moved before the user's text.
void conversation_merge(struct conversation *c);

// If the template does not accept system messages after the first position, joins the leading ones
// into one, and makes later ones text of the user, where they are: if they moved to the front, each
// would change the beginning of the prompt, and the prefix cache would be lost. Returns true if
// there were any: messages of one role may now be neighbours.
bool conversation_settle_system(struct conversation *c, const struct chat_template *chat);

// For templates without tools: describes the tools (NULL: none) in the system message, and makes
// calls text of the assistant and their results text of the user.
void conversation_tools_as_text(struct conversation *c, const json_t *tools);

// Replaces arguments that are text by {"arguments": text}, for templates that require an object.
void conversation_wrap_arguments(struct conversation *c);

// Appends a text on its own line. An empty text adds nothing.
void conversation_line(struct json_buffer *text, struct text more);

json_t *json_string_of(struct text t); // returns a new reference; t must be UTF-8

// Reads the messages of a request into a conversation, which copies their strings. One function for
// each request shape. Runs in on_prepare.

// Chat completions. Sets c->continued if the last message has "prefix": true.
void chat_turns_read(struct conversation *c, struct fields *f);

// Responses: `instructions` and `input`.
void responses_turns_read(struct conversation *c, struct fields *f);

// Messages, with the top-level `system`. Sets c->continued if the last message is an assistant's.
void messages_turns_read(struct conversation *c, struct fields *f);
