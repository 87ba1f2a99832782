// One conversation as the chat template sees it, whichever shape it arrived in. chat_turns.c,
// responses_turns.c and messages_turns.c fill it; prompt.c renders it. Checks that all shapes
// share: every tool result answers a call made before, once; calls of one turn have ids that
// differ; system messages stand where the template takes them. Owner: the call; ended by
// conversation_end.
#pragma once

#include "http/api/fields.h"
#include "runtime/text/chat.h"

enum { CONVERSATION_MESSAGES_MAX = 100000 };

struct conversation {
    struct slice *slice; // that the work is counted in, or NULL
    json_t *messages;    // array of {role, content, ...}
    json_t *calls;       // id -> {"name": ..., "answered": bool}
    json_t *turn_ids;    // of calls of the assistant's present turn: id -> true
    bool continued;      // the last message is an assistant's, to be continued
    bool raw_arguments;  // some call's arguments are not a JSON object and stay text
};

void conversation_begin(struct conversation *c, struct slice *slice);
void conversation_end(struct conversation *c);

// Appends {role, content} and returns it (borrowed) for further keys.
json_t *conversation_add(struct conversation *c, const char *role, struct text content);

// The id of a call as it is read, path: of the id. Those of one turn differ: a result names its
// call.
void conversation_check_id(struct conversation *c, struct fields *f, struct text id,
                           const char *path);

// A call of an assistant message (borrowed from conversation_add). arguments: object, or text.
struct tool_call {
    struct text id, name;
    const json_t *arguments; // object, or NULL: then the text counts
    struct text arguments_text;
};
void conversation_add_call(struct conversation *c, json_t *message, const struct tool_call *call);

struct tool_result {
    struct text id, content;
    const char *path; // of the id
};
void conversation_add_result(struct conversation *c, struct fields *f,
                             const struct tool_result *result);

// Joins the assistant messages at the end into one (not those with calls).
void conversation_join_tail(struct conversation *c);

// Neighbours of one role become one message, with all of their calls (not tool results, which
// come first).
void conversation_merge(struct conversation *c);

// System messages after the first place move to the front unless the template takes them. True:
// some did, so messages of one role may be neighbours that were none before.
bool conversation_settle_system(struct conversation *c, const struct chat_template *chat);

// Arguments that are not an object become {"arguments": text}, for templates that need one.
void conversation_wrap_arguments(struct conversation *c);

// Adds a text in a line of its own; an empty one adds nothing.
void conversation_line(struct json_buffer *text, struct text more);

json_t *json_string_of(struct text t); // new reference
