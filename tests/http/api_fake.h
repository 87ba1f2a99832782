// Doubles for the endpoints' tests: an exchange that records what was sent, a port that plays a
// script, a chat template and a tokenizer simple enough to be checked by eye. Linked instead of the
// server, the scheduler and runtime/text.
//
// The fake template writes "[role]" + content for each message, "(name arguments)" for a call,
// "[tools NAME ...]" where there are any, "[no-think]" or "[think]" where thinking is said to be
// off or on, "[effort LEVEL]", and
// "[assistant]" at the end. The fake tokenizer makes one token of each byte; bytes of the template
// itself become 1000 + byte.
#pragma once

#include "http/api/endpoints.h"
#include "http/counters.h"
#include "runtime/grammar/token_rules.h"

#include <jansson.h>

enum {
    FAKE_END = 256,
    FAKE_BOS = 257,
    FAKE_SEP = 258,
    FAKE_MARK = 259,
    FAKE_SPAN = 316,  // "b<tool": text, and what may begin a call
    FAKE_SPACE = 317, // " ": at the ends of a text nothing
    FAKE_VOCAB = 2000
};

struct fake {
    struct exchange_info info;
    bool gone, offloaded;
    uint32_t compiles;    // calls of exchange_compile that it took
    struct offload job;   // of the last exchange_offload
    void (*worked)(void); // called between its work and its `done`; NULL: nothing happens there
    bool compiles_full;   // what exchange_compile says
    bool compiles_wait;   // its work is left to fake_compile
    struct slice slice;   // of exchange_slice, once .each is set
    size_t send_space;    // result of exchange_send_space
    bool rationed;        // what is written takes of it
    // What was sent.
    int status; // of the answer, 0: none
    char *sent; // NUL-terminated: body, or all events so far
    size_t sent_bytes, sent_room;
    bool streaming, ended;
    uint64_t length;       // of exchange_reply_begin
    uint32_t answers;      // must end as 1
    enum http_error error; // of exchange_fail, or exchange_stream_failed
    uint32_t stream_failures;
    // What was submitted.
    enum admission admission;    // what the next submit says
    uint32_t more_copies, asked; // beside the first; of all, so many were asked
    enum admission said[4];      // with more copies: what each says in place of `admission`
    uint32_t submits, frees, cancels;
    uint32_t choice_cancels, choice_cancelled; // how many, and which was the last
    enum request_kind kind;
    int32_t *tokens;
    uint32_t token_count, sequence_count, choice_count, max_tokens;
    int32_t stop_ids[REQUEST_STOP_IDS_MAX];
    struct token_bias bias[1024];
    uint32_t stop_id_count, bias_count;
    uint32_t starts[2050], type_from[1001];
    uint32_t pool_from;
    bool has_types, ignore_end, prompts_differ, pool_raw;
    uint64_t cache_salt[2];
    struct sampling sampling;
    // Of the last one that was admitted; NULL: none. Counted.
    struct grammar *grammar;
    struct token_rules *rules;
    uint32_t key_id;
    uint64_t deadline_ns;
    uint32_t cached;
    // The script.
    struct token_event events[8192];
    uint32_t event_count, event_next;
    float *values; // [sequences][width]
    // Counters.
    uint32_t params_n, params_max_tokens;
    uint64_t ignored_before; // unknown fields of earlier requests
    uint32_t counted[COUNTED_FINISH_COUNT], counted_tokens, ignored_fields;
};

extern struct fake fake;

struct chat_template {
    const char *by, *shows; // the variable of its switch, and one whose value is in the prompt
    uint32_t efforts;       // levels that it takes
    bool system_inside, refuses, thinks;
    enum status text_fails; // how it fails on arguments that are text
    bool wrapped_fails;     // and that it fails on what is put into an object, too
    bool opens;             // writes "<think>" at the end
    bool silent;            // writes nothing
    bool names;             // writes "<name>" and "#tool_call_id" behind a role
};
struct tokenizer {
    const char *mark; // text of FAKE_MARK, or NULL
    bool decodes_none;
};

extern struct chat_template fake_chat;
extern struct model_facts fake_facts;
extern bool fake_plain;          // the model has the built-in plain template
extern int64_t fake_now;         // the time that the template was told last
void fake_special_in_text(void); // the model takes special tokens in inputs, until fake_end
// Of the model, until fake_end. special NULL: no marker is a special token, else FAKE_MARK has this
// text and is one.
void fake_dialect(const char *name, const char *reasoning);
void fake_decodes_none(void); // a pattern of the decoder takes too long, until fake_end
void fake_one_call(void);     // its template refuses a message with two calls
// The same with a real tokenizer in place of the double, where the test links one.
void fake_dialect_of(const struct tokenizer *t, const char *name, const char *reasoning);
void fake_dialect_special(const char *name, const char *reasoning, const char *special);
// The model has these prompts, a "query" and an empty "document"; standard: the one of inputs that
// name none, or NULL. Until fake_end.
void fake_prompts(const char *standard);
void fake_inputs_max(uint32_t count); // of a request, until fake_end
void fake_dimensions(void);           // of the model's vectors may be fewer, until fake_end
                                      // the model's defaults of sampling hold, until fake_end

void fake_model_name(const char *name); // until fake_end
void fake_models(uint32_t count);       // named a, b, c, ... in place of the one; until fake_end
void fake_vocabulary(struct vocabulary *v); // of the model; the caller's
void fake_grammar_bytes(size_t bytes);      // that all grammars may take, until fake_end
void fake_arena_limit(size_t bytes);        // of the exchange, before its request

// A fresh exchange and model of this kind.
void fake_begin(enum model_kind kind);
// The next one: a generator with this dialect, which thinks, and a window of 4,000 tokens.
void fake_thinker(const char *dialect);
void fake_end(void);   // every JSON value must have been given back
void fake_again(void); // the same model, with its template and form

// For cmocka.
int fake_setup_generator(void **state);
int fake_setup_embedder(void **state);
int fake_setup_reranker(void **state);
int fake_teardown(void **state);

// The route's handler with this body; path as clients call it.
void fake_request(const char *path, const char *body);
void fake_request_bytes(const char *path, struct text body);

// The next events are of this choice; the last finish is that of the request.
void fake_choice(uint32_t choice);
void fake_text(const char *text); // one token for each byte
void fake_token(int32_t token);
void fake_finish(enum finish finish, int32_t token); // token -1: none
// What the last event brings beside its token.
void fake_logprob(float logprob, const struct token_top *tops, uint32_t count);
void fake_ready(void);
void fake_send_space(void);
void fake_compile(bool works); // what waits for it; else somebody else had the same work done
void fake_second(uint64_t seconds);
void fake_gone(void);
void fake_cut(const struct http_failure *failure); // by the server

// Prompt tokens as text, bytes of template and conversation alike; '^' is BOS, '$' is SEP.
char *fake_prompt(void); // to be freed

// What was sent, with ID and 0 in place of ids and times, so that it can be compared.
const char *fake_events(void);

// The answer as JSON; to be decref'ed.
json_t *fake_json(void);
// The member, which must be a string.
const char *fake_string(const json_t *object, const char *name);

// Whether the grammar that was submitted has this text, of bytes alone.
bool fake_grammar_has(const char *text);
