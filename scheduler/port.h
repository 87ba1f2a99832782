// A port joins one h2o thread and one engine. The h2o thread submits requests, reads events and
// frees requests; the engine thread owns a request from submit to its last finish event. No text
// crosses, only integers.
//
// Every function of this header is for the h2o side (one thread per port). Nothing blocks.
#pragma once

#include "base/status.h"
#include "base/waker.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct grammar;     // runtime/grammar/grammar.h
struct token_rules; // runtime/grammar/token_rules.h
struct port;
struct request; // a number in the port's table; valid from port_submit to port_free

enum {
    REQUEST_STOP_IDS_MAX = 64,
    TOP_LOGPROBS_MAX = 20,
    COPIES_MAX = 16,             // engines of one model
    TYPE_FROM_NONE = 0xFFFFFFFF, // no token of the sequence has token type 1
};

enum request_kind { REQUEST_GENERATE, REQUEST_EMBED, REQUEST_SCORE };

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
    uint32_t output_min;   // before so many outputs end ids and stop ids are banned; one that comes
                           // all the same, because a mask leaves nothing else, ends where the
                           // grammar does and nowhere else
};

struct token_bias { // added to the logit of a token
    int32_t token;
    float value;
};

struct token_top { // an alternative to a sampled token
    int32_t token;
    float logprob;
};

// What the engine needs of a request. port_submit copies it whole, and the engine reads the copy
// (request.h: `asked`), so that a new member arrives by itself; arrays are borrowed for the call,
// and so are grammar and rules, of which an admitted request takes a count that port_free gives
// back.
struct submit_args {
    enum request_kind kind;
    const int32_t *tokens; // prompts of all sequences, one after the other
    uint32_t token_count;
    uint32_t sequence_count;        // prompts of a generation; inputs or documents for pooling
    const uint32_t *sequence_start; // [sequence_count + 1] prefix sums into tokens
    const uint32_t *type_from;      // [sequence_count] first token of type 1, or NULL
    uint32_t choice_count;          // n of each prompt, >= 1; 1 for pooling
    uint32_t pool_from;  // vectors: the first tokens of each input that a mean leaves out
    bool pool_raw;       // vectors: as the pooling gives them, not normalised
    uint32_t max_tokens; // of output per choice; cut to what the context leaves
    struct sampling sampling;
    bool prompts_differ;    // the seed is not the client's: equal prompts draw differently
    bool ignore_end;        // end-of-sequence ids do not end
    uint32_t stop_id_count; // further ids that end
    const int32_t *stop_ids;
    uint32_t bias_count;
    const struct token_bias *bias;
    // Every answer is one of its strings: the engine must have a vocabulary (engine.h). Its end is
    // FINISH_STOP, also where ignore_end or output_min would go on. NULL: free.
    struct grammar *grammar;
    // Which ids may come, of the same vocabulary; NULL: all. Where a grammar leaves nothing of
    // them, the grammar alone holds.
    struct token_rules *rules;
    uint64_t cache_salt[2]; // separates prefix caches; 0, 0 for none
    uint32_t key_id;        // keys are served in turn
    uint64_t deadline_ns;   // CLOCK_MONOTONIC: still queued then -> FINISH_TIMEOUT; 0: none
    void *owner;            // argument of the drain callback
};

// Choices of all prompts of a generation; event.choice counts them by prompt.
static inline uint32_t submit_choices(const struct submit_args *args)
{
    return args->sequence_count * args->choice_count;
}

// How many tokens from the start are ids of a vocabulary of so many (0: not known, all are).
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
    ADMISSION_TOO_MANY_TOKENS, // over max-queued-tokens: 400
    ADMISSION_TOO_MANY_BYTES,  // results over max-result-bytes: 400
    ADMISSION_DRAINING,        // the engine stops: 503
    ADMISSION_FAILED,          // its device failed: 503
};

enum admission port_submit(struct port *port, const struct submit_args *args,
                           struct request **out) MUST_USE;

// Of ports to several copies of one model the one that the request is submitted to: route.h. after:
// number that grows with each request, for equals. ports: [count], NULL: is not asked. Returns its
// place, or count where there is none.
uint32_t port_choose(struct port *const *ports, uint32_t count, const struct submit_args *args,
                     uint32_t after);
// That number: how often it was asked for so far, of any port to the same engine. That of a model
// is the first copy's.
uint32_t port_turn(struct port *port);

// Ends the request in any state. Each choice gets exactly one finish event.
void port_cancel(struct port *port, struct request *request);

// Ends one choice, of which an event was read; it gets its finish event like any other, and the
// other choices go on.
void port_cancel_choice(struct port *port, struct request *request, uint32_t choice);

// Only after the last finish event was read (port_next).
void port_free(struct port *port, struct request *request);

void port_owner_set(struct port *port, struct request *request, void *owner);

// How a choice or an input ends: name, and what it is counted as (finished_* of stats.h).
#define FINISH_LIST(X)                                                                             \
    X(STOP, stop)      /* an end id or stop id was sampled (it is in `token`) */                   \
    X(LENGTH, length)  /* max_tokens reached */                                                    \
    X(CONTEXT, length) /* the context window is full */                                            \
    X(CANCEL, cancel)                                                                              \
    X(TIMEOUT, timeout) /* deadline_ns passed in the queue */                                      \
    X(STALLED, cancel)  /* the reader took nothing for 60 s, or too much is kept for slow ones */  \
    X(ERROR, error)     /* the device failed, a result is not finite */                            \
    X(STUCK, error)     /* no token of the model is what the grammar wants next */                 \
    X(OVER, error)      /* finding what the grammar lets follow met a bound */                     \
    X(CROWDED, error)   /* the same, but other answers have the memory that it needs */            \
    X(DONE, pooling)    /* pooling: values are ready */

enum finish {
    FINISH_NONE, // a token
#define FINISH_ENUM(name, counted) FINISH_##name,
    FINISH_LIST(FINISH_ENUM)
#undef FINISH_ENUM
        FINISH_COUNT
};

enum event_flag { EVENT_TOKEN = 1, EVENT_LAST = 2 }; // LAST: every choice has finished

struct token_event { // 24 bytes
    uint32_t choice; // of prompt choice / n, its choice % n
    int32_t token;   // valid with EVENT_TOKEN; a finish may carry the token that ended it
    float logprob;   // of the raw distribution, where asked for
    uint8_t finish;  // enum finish
    uint8_t flags;   // enum event_flag
    uint16_t top_count;
    uint32_t index; // of the token within its choice
    uint32_t reserved;
};

// Calls on_ready(context, owner, request) once for each request with news.
void port_drain(struct port *port, void (*on_ready)(void *context, void *owner, struct request *),
                void *context);

// Next event of the request; false when there is none now. tops (may be NULL) receives up to
// TOP_LOGPROBS_MAX alternatives of this event.
bool port_next(struct port *port, struct request *request, struct token_event *out,
               struct token_top *tops);

// Pooling results, after FINISH_DONE: [output_width] floats of one sequence.
const float *request_values(const struct request *request, uint32_t sequence);

// For usage and metrics; final once the last finish event was read. Times: CLOCK_MONOTONIC ns.
struct request_facts {
    uint32_t prompt_tokens;
    uint32_t cached_tokens; // of the prompts, each fixed when its first choice starts
    uint32_t preemptions;
    uint64_t submitted_ns, started_ns, first_token_ns, finished_ns;
};
void request_facts_get(const struct request *request, struct request_facts *out);
