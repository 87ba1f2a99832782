// SPDX-License-Identifier: Apache-2.0
// Doubles for the endpoint tests: an exchange that records what is sent, a port that plays scripted
// events, and a chat template and a tokenizer simple enough to check by eye. Linked in place of the
// server, the scheduler and runtime/text.
//
// The fake template writes "[role]" + content for each message, "(name arguments)" for a call,
// "[tools NAME ...]" if there are tools, "[no-think]" or "[think]" if the request turns thinking
// off or on, "[effort LEVEL]", and "[assistant]" at the end. The fake tokenizer makes one token of
// each byte; a byte of the template itself becomes token 1000 + byte.
#pragma once

#include "http/api/endpoints.h"
#include "http/counters.h"
#include "runtime/grammar/token_rules.h"
#include "runtime/grammar/token_watch.h"

#include <jansson.h>

enum {
    FAKE_END = 256,
    FAKE_BOS = 257,
    FAKE_SEP = 258,
    FAKE_MARK = 259,
    FAKE_SPAN = 316,  // "b<tool": text followed by a possible start of a call
    FAKE_SPACE = 317, // " ", or nothing at either end of a text
    // Fill-in-the-middle marks: repository, prefix, suffix, middle, file. fake_prompt writes them
    // as "`", "{", "|", "}" and "~".
    FAKE_REPO = 352,
    FAKE_PREFIX = 379,
    FAKE_SUFFIX = 380,
    FAKE_MIDDLE = 381,
    FAKE_FILE = 382,
    FAKE_VOCAB = 2000
};

struct fake {
    struct exchange_info info;
    bool gone, offloaded;
    uint32_t compiles;    // number of accepted exchange_compile calls
    struct offload job;   // job of the last exchange_offload
    void (*worked)(void); // called between the job's work and its `done`; NULL: not called
    bool compiles_full;   // true if exchange_compile refuses
    bool compiles_wait;   // true if compile jobs wait for fake_compile
    struct slice slice;   // slice of exchange_slice, if .each is set
    size_t send_space;    // result of exchange_send_space
    bool rationed;        // true if written bytes reduce send_space
    // Response
    int status; // response status, 0: none
    char *sent; // response body, or all events so far; NUL-terminated
    size_t sent_bytes, sent_room;
    bool streaming, ended;
    uint64_t length;       // announced by exchange_reply_begin
    uint32_t answers;      // number of responses; must be 1 at the end
    enum http_error error; // error of exchange_fail or exchange_stream_failed
    uint32_t stream_failures;
    // Submitted request
    enum admission admission;    // result of the next submit
    uint32_t more_copies, asked; // copies besides the first; copies tried so far
    enum admission said[4];      // if more_copies > 0: result of each copy, in place of `admission`
    uint32_t submits, frees, cancels;
    uint32_t choice_cancels, choice_cancelled; // number of cancelled choices; index of the last one
    enum request_kind kind;
    int32_t *tokens;
    uint32_t token_count, sequence_count, choice_count, max_tokens;
    int32_t stop_ids[REQUEST_STOP_IDS_MAX];
    struct token_bias bias[1024];
    uint32_t stop_id_count, bias_count;
    uint32_t starts[2050], type_from[1001];
    uint32_t pool_from;
    bool has_types, ignore_end, prompts_differ, pool_raw;
    uint64_t cache_salt[2], cache_owner;
    struct sampling sampling;
    // Grammar and rules of the last admitted request, or NULL. Counted references.
    struct grammar *grammar;
    struct token_rules *rules;
    // phase in which the last request begins; TOKEN_UNWATCHED: it has no grammar of optional calls
    enum token_phase watch_phase;
    uint32_t key_id;
    uint64_t deadline_ns;
    uint32_t cached;
    // Script
    struct token_event events[8192];
    uint32_t event_count, event_next;
    float *values; // [sequences][width]
    // Counters
    uint32_t params_n, params_max_tokens;
    uint64_t ignored_before; // unknown fields in earlier requests of the process
    uint32_t counted[COUNTED_FINISH_COUNT], counted_tokens, ignored_fields;
};

extern struct fake fake;

struct chat_template {
    const char *by, *shows; // variables: that switches thinking; that the prompt shows
    uint32_t efforts;       // reasoning efforts that the template accepts
    bool system_inside, refuses, thinks;
    enum status text_fails; // error for arguments that are a string
    bool wrapped_fails;     // true if string arguments wrapped in an object fail, too
    bool opens;             // true if it writes "<think>" at the end
    bool silent;            // true if it writes nothing
    bool names;             // true if it writes "<name>" and "#tool_call_id" after a role
};
struct tokenizer {
    const char *mark; // text of FAKE_MARK, or NULL
    bool decodes_none;
    unsigned infill; // bits of fake_infill: 1 marks, 2 middle, 4 files
};

extern struct chat_template fake_chat;
extern struct model_facts fake_facts;
extern bool fake_plain;          // true if the model uses the built-in plain template
extern int64_t fake_now;         // the time last passed to the template
void fake_special_in_text(void); // accepts special tokens in inputs, until fake_end
// Sets the model's dialect and its reasoning parser until fake_end. If special is NULL, no marker
// is a special token; otherwise FAKE_MARK has this text and is special.
void fake_dialect(const char *name, const char *reasoning);
// Gives the vocabulary fill-in-the-middle marks, until fake_end. middle: Qwen's, with a mark for
// the middle, else Codestral's; files: also those of repositories and files.
void fake_infill(bool middle, bool files);
void fake_decodes_none(void);  // makes decoding fail: its pattern takes too long; until fake_end
void fake_generic_calls(void); // its template has no tools, until fake_end
void fake_one_call(void);      // makes the template refuse messages with two calls
// Sets the dialect with a real tokenizer in place of the double, if the test links one.
void fake_dialect_of(const struct tokenizer *t, const char *name, const char *reasoning);
void fake_dialect_special(const char *name, const char *reasoning, const char *special);
// Gives the model two prompts, "query" and an empty "document", until fake_end. standard: the
// default prompt of inputs, or NULL.
void fake_prompts(const char *standard);
void fake_inputs_max(uint32_t count); // inputs per request, until fake_end
void fake_dimensions(void);           // allows fewer dimensions than the model's, until fake_end

void fake_model_name(const char *name); // until fake_end
void fake_models(uint32_t count);       // models named a, b, c, ... in place of one; until fake_end
void fake_vocabulary(struct vocabulary *v); // the model's; owned by the caller
struct vocabulary *fake_bytes(void);        // a vocabulary of all single bytes, and an end id
// Lets grammars hold from the markers of optional calls on, with the dialect set before; until
// fake_end.
void fake_watch(void);
void fake_grammar_bytes(size_t bytes); // limit of all grammars together, until fake_end
void fake_arena_limit(size_t bytes);   // limit of the exchange's arena; before the request

// Starts a fresh exchange and a model of this kind.
void fake_begin(enum model_kind kind);
// Ends the fake and starts a generator with this dialect, thinking, and a window of 4,000 tokens.
void fake_thinker(const char *dialect);
void fake_end(void);   // fails if a JSON value is not freed
void fake_again(void); // fresh exchange; keeps model, template and dialect

// For cmocka.
int fake_setup_generator(void **state);
int fake_setup_embedder(void **state);
int fake_setup_reranker(void **state);
int fake_teardown(void **state);

// Runs the route's handler on this body. path: as clients send it.
void fake_request(const char *path, const char *body);
void fake_request_bytes(const char *path, struct text body);

// Sets the choice of the next events. The last finish event is the request's.
void fake_choice(uint32_t choice);
void fake_text(const char *text); // one token per byte
void fake_token(int32_t token);
void fake_finish(enum finish finish, int32_t token); // token -1: none
// Adds log probabilities to the last event.
void fake_logprob(float logprob, const struct token_top *tops, uint32_t count);
void fake_ready(void);
void fake_send_space(void);
void fake_compile(bool works); // runs the waiting job; false: only completes it, as a duplicate
void fake_second(uint64_t seconds);
void fake_gone(void);
void fake_cut(const struct http_failure *failure); // by the server

// Returns the prompt tokens as text, template bytes as plain bytes; '^' is BOS, '$' is SEP.
char *fake_prompt(void); // to be freed

// Returns what was sent, with ids and times replaced by ID and 0 for comparison. Static buffer.
const char *fake_events(void);

// Returns the response body as JSON; the caller calls json_decref.
json_t *fake_json(void);
// Returns the member, which must be a string.
const char *fake_string(const json_t *object, const char *name);

// Returns whether the submitted grammar accepts this text, written in single-byte tokens.
bool fake_grammar_has(const char *text);
