// SPDX-License-Identifier: Apache-2.0
// A port joins one h2o thread and one engine. The h2o thread submits requests, reads events and
// frees requests; the engine thread owns a request from submit to its last finish event. No text
// crosses, only integers. All functions are for the h2o side (one thread per port); none blocks.
#pragma once

#include "base/status.h"
#include "base/waker.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct grammar;     // runtime/grammar/grammar.h
struct token_rules; // runtime/grammar/token_rules.h
struct port;
struct request; // an entry of the port's table; valid from port_submit to port_free

enum {
    REQUEST_STOP_IDS_MAX = 64,
    TOP_LOGPROBS_MAX = 20,
    COPIES_MAX = 16,             // most engines (copies) of one model
    TYPE_FROM_NONE = 0xFFFFFFFF, // no token of the sequence has token type 1
};

enum request_kind { REQUEST_GENERATE, REQUEST_EMBED, REQUEST_SCORE }; // the last two: pooling

// How the tokens of a generation are sampled.
struct sampling {
    uint64_t seed;
    float temperature;     // below 1e-5: greedy
    float top_p;           // 1: off; 0: the top token only
    float min_p;           // 0: off
    uint32_t top_k;        // 0: off
    float repetition;      // 1: off
    float frequency;       // 0: off
    float presence;        // 0: off
    bool logprob;          // report the raw logprob of each sampled token
    uint32_t top_logprobs; // alternatives reported with each token, at most TOP_LOGPROBS_MAX
    // End ids and stop ids are banned before this many output tokens; one sampled nevertheless,
    // because a mask allows nothing else, ends the choice only if the grammar ends there.
    uint32_t output_min;
};

struct token_bias { // a value added to the logit of a token
    int32_t token;
    float value;
};

struct token_top { // an alternative to a sampled token, with its raw logprob
    int32_t token;
    float logprob;
};

// The description of a request. port_submit copies the whole struct, and the engine reads the copy
// (request.h: `args`), so a new member needs no further code in the port. Arrays, grammar, watch
// and rules are borrowed for the call: an admitted request has references to the last three.
struct submit_args {
    enum request_kind kind;
    const int32_t *tokens; // [token_count] prompts of all sequences, concatenated
    uint32_t token_count;
    uint32_t sequence_count; // prompts of a generation; inputs or documents of a pooling request
    const uint32_t *sequence_start; // [sequence_count + 1] prefix sums into tokens
    const uint32_t *type_from; // [sequence_count] position of the first token of type 1, or NULL
    uint32_t choice_count;     // choices per prompt (n), >= 1; 1 for pooling
    uint32_t pool_from;        // vectors: number of leading tokens that a mean leaves out
    bool pool_raw;             // vectors: true if they are not normalised
    uint32_t max_tokens;       // output tokens per choice; reduced to what the context leaves
    struct sampling sampling;
    bool prompts_differ;    // true if the client gave no seed: equal prompts get different seeds
    bool ignore_end;        // true if the model's end ids do not end a choice
    uint32_t stop_id_count; // more ids that end a choice
    const int32_t *stop_ids;
    uint32_t bias_count;
    const struct token_bias *bias;
    // Every answer is a string of this grammar; its end is FINISH_STOP even if ignore_end or
    // output_min would continue. The engine must have a vocabulary (engine.h). NULL: no grammar.
    struct grammar *grammar;
    // Not NULL: the grammar is that of optional calls, which this table finds (masks.h). It ends no
    // answer: end ids count as without it, and the answer goes on without it if it cannot be had.
    struct token_watch *watch;
    uint8_t watch_phase; // enum token_phase in which the answer begins
    // Rules about which ids may be sampled, for the same vocabulary; NULL: none. If a grammar
    // allows none of the ids that the rules allow, only the grammar applies.
    struct token_rules *rules;
    uint64_t cache_salt[2], cache_owner; // requests share cached blocks only if equal; 0: none
    uint32_t key_id;                     // number of the API key; keys are served round-robin
    uint64_t deadline_ns; // CLOCK_MONOTONIC; FINISH_TIMEOUT if not started then; 0: none
    void *owner;          // argument of port_drain's callback
};

// Returns the number of choices of all prompts. event.choice / choice_count is the prompt.
static inline uint32_t submit_choices(const struct submit_args *args)
{
    return args->sequence_count * args->choice_count;
}

// Returns the index of the first token that is not an id from 0 to vocab - 1, or count if there is
// none. vocab 0: the vocabulary is unknown and every id is accepted.
static inline uint32_t tokens_known(const int32_t *tokens, uint32_t count, uint32_t vocab)
{
    uint32_t known = 0;
    while (known < count && (vocab == 0 || (uint32_t)tokens[known] < vocab))
        known++;
    return known;
}

enum admission {
    ADMITTED,
    ADMISSION_BUSY,            // the queue is full: 503 / 529
    ADMISSION_TOO_MANY_TOKENS, // the request alone exceeds max-queued-tokens: 400
    ADMISSION_TOO_MANY_BYTES,  // its results alone exceed max-result-bytes: 400
    ADMISSION_DRAINING,        // the engine is stopping: 503
    ADMISSION_FAILED,          // the engine's device failed: 503
};

// Submits a request to the engine. If ADMITTED, *out is the request, which the caller frees with
// port_free after its last finish event; otherwise *out is not set. The caller has checked the
// arguments against the limits of the model and the engine; a violation ends the process.
enum admission port_submit(struct port *port, const struct submit_args *args,
                           struct request **out) MUST_USE;

// Chooses which of several copies of a model receives the request (see route.h). ports: [count],
// NULL entries are skipped. after: breaks ties; pass an increasing number. Returns the index of the
// port, or count if all are NULL.
uint32_t port_choose(struct port *const *ports, uint32_t count, const struct submit_args *args,
                     uint32_t after);
// Returns a number for `after` of port_choose that increases with each call for any port of the
// same engine. The caller uses a port of the model's first copy.
uint32_t port_route_number(struct port *port);

// Cancels the request in any state before port_free. Each choice, or the pooling request as one,
// still gets exactly one finish event: FINISH_CANCEL unless it ended before.
void port_cancel(struct port *port, struct request *request);
// Cancels one choice of a generation, of which an event must have been read. The choice gets its
// finish event as usual, and the other choices continue.
void port_cancel_choice(struct port *port, struct request *request, uint32_t choice);
// Frees the request. Only after its last finish event was read (port_next).
void port_free(struct port *port, struct request *request);
// Frees unused pages of the port's stores, at most 64 MiB of each per call. Call it each second.
void port_pages_return(struct port *port);
// Sets the argument of port_drain's callback.
void port_owner_set(struct port *port, struct request *request, void *owner);

// How a choice or a pooling request ends: name, and its counter (finished_* in stats.h).
#define FINISH_LIST(X)                                                                             \
    X(STOP, stop)      /* an end id or stop id was sampled (it is in `token`) */                   \
    X(LENGTH, length)  /* max_tokens reached */                                                    \
    X(CONTEXT, length) /* the context window is full */                                            \
    X(CANCEL, cancel)                                                                              \
    X(TIMEOUT, timeout) /* deadline_ns passed in the queue */                                      \
    X(STALLED, cancel)  /* the reader read nothing for 60 s, or parked sequences keep too much */  \
    X(ERROR, error)     /* the device failed, or a result is not finite */                         \
    X(STUCK, error)     /* no token of the model fits the grammar here */                          \
    X(OVER, error)      /* finding the allowed tokens reached a limit of work or memory */         \
    X(CROWDED, error)   /* reached a limit of memory because other answers use it */               \
    X(DONE, pooling)    /* pooling: values are ready */

enum finish {
    FINISH_NONE, // a token, not a finish
#define FINISH_ENUM(name, counted) FINISH_##name,
    FINISH_LIST(FINISH_ENUM)
#undef FINISH_ENUM
        FINISH_COUNT
};

enum event_flag { EVENT_TOKEN = 1, EVENT_LAST = 2 }; // LAST: all choices have finished

struct token_event { // 24 bytes
    uint32_t choice; // choice % n of prompt choice / n, with n = choice_count
    int32_t token;   // valid with EVENT_TOKEN; a finish may contain the token that ended the choice
    float logprob;   // of the raw distribution, if sampling.logprob is set
    uint8_t finish;  // enum finish
    uint8_t flags;   // enum event_flag
    uint16_t top_count; // number of alternatives
    uint32_t index;     // index of the token within its choice
    uint32_t reserved;
};

// Calls on_ready(context, owner, request) for each request with unread events, some of them new.
// Events that on_ready leaves unread are announced again only with a later event.
void port_drain(struct port *port, void (*on_ready)(void *context, void *owner, struct request *),
                void *context);

// Reads the next event of the request; returns false if there is none now. tops (may be NULL)
// receives up to TOP_LOGPROBS_MAX alternatives of this event.
bool port_next(struct port *port, struct request *request, struct token_event *out,
               struct token_top *tops);

// Returns one sequence's pooling result, [output_width] f32, from FINISH_DONE until port_free.
const float *request_values(const struct request *request, uint32_t sequence);

// Numbers for usage and metrics, final after the last finish event. Times: CLOCK_MONOTONIC, ns.
struct request_facts {
    uint32_t prompt_tokens; // tokens of all prompts or inputs
    uint32_t cached_tokens; // prompt tokens in the cache when each prompt's first choice starts
    uint32_t preemptions;   // number of times that one of its sequences was preempted
    uint64_t submitted_ns, started_ns, first_token_ns, finished_ns; // 0: not yet
};
// Copies these numbers; may be called at any time before port_free.
void request_facts_get(const struct request *request, struct request_facts *out);
