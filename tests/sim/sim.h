// SPDX-License-Identifier: Apache-2.0
// The simulation around one engine: random numbers, clients and invariants checked after each step.
#pragma once

#include "scheduler/internal.h"
#include "tests/sim/fake.h"
#include "tests/sim/nodes.h"

enum {
    SIM_OPTIONAL = 6, // index of the grammar of optional calls
    SIM_GRAMMARS = 7,
    SIM_VOCAB_MAX = 448,
    SIM_MASK_WORDS = SIM_VOCAB_MAX / 32
};
enum { SIM_BAD_MAX = 6, SIM_BAD_TOKENS = 3, SIM_OUTPUTS_MAX = 256, SIM_BUDGET_BYTES = 3 };
enum { SIM_CLIENTS = 64, SIM_CHOICES = 14, SIM_PROMPT_MAX = 512, SIM_BIAS_MAX = 4, SIM_KEYS = 4 };

struct dice {
    uint64_t state;
};

static inline uint32_t roll(struct dice *dice, uint32_t sides) // returns 0 .. sides - 1
{
    dice->state += 0x9e3779b97f4a7c15u;
    uint64_t x = dice->state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ x >> 31) % sides);
}

static inline bool chance(struct dice *dice, uint32_t percent)
{
    return roll(dice, 100) < percent;
}

enum reader { READER_FAST, READER_SLOW, READER_BURSTS, READER_STOPPED };

// Counts draws (sequences scheduled) of a key, or of one request of a key, and draws of the others
// while it was ready: it had a sequence left that needed nothing except a slot.
struct turn {
    bool ready, stayed; // true if ready now; if it was ready before as well
    bool counted;
    uint32_t waiting, tokens; // waiting requests of the key; tokens of the next prompt, or of the
                              // shortest next prompt of the key
    uint32_t own, others[SIM_CLIENTS];
};

struct client { // a request as its h2o thread sees it
    bool used, cancelled, over;
    bool dropped; // true if its last event is not read for a while
    enum reader reader;
    struct port *port;
    struct request *request;
    struct submit_args args;
    int32_t tokens[SIM_PROMPT_MAX];
    uint32_t starts[SIM_PROMPT_MAX + 1], types[SIM_PROMPT_MAX];
    int32_t stop_ids[16];
    struct token_bias bias[SIM_BIAS_MAX];
    struct sample_params expected; // parameters that the device should receive
    struct step_bias bias_expected[SIM_BIAS_MAX];
    struct fake_alone alone[SIM_CHOICES];
    struct matcher matchers[SIM_CHOICES]; // with a grammar: state of each answer
    enum token_phase phases[SIM_CHOICES]; // with args.watch: phase of each answer
    uint32_t outputs[SIM_CHOICES];
    int32_t history[SIM_CHOICES][SIM_OUTPUTS_MAX]; // with rules: output tokens
    uint32_t rules_allowed[SIM_MASK_WORDS];        // bit set of the ids that args.rules allows
    uint32_t rules_count;                          // number of sequences that they forbid
    int32_t rules_bad[SIM_BAD_MAX * SIM_BAD_TOKENS];
    uint32_t rules_start[SIM_BAD_MAX + 1];
    bool budget; // true if args.rules has a budget: text between `open` and `close` is reasoning
    struct text open, close;                 //
    uint32_t budget_tokens;                  // tokens allowed inside
    uint32_t spent[SIM_CHOICES];             // tokens spent inside
    int32_t budget_forced[SIM_BUDGET_BYTES]; // [n] id to force after n bytes of `close`
    bool finished[SIM_CHOICES];
    bool cut[SIM_CHOICES]; // true if only this choice is cancelled
    uint32_t finishes, drawn, redrawn;
    struct turn turn;
    struct { // valid while the request is the first of its key
        uint64_t ticket;
        uint32_t own;               // draws of its key
        uint32_t draws[SIM_KEYS];   // draws of other keys, with as many tokens
        uint32_t in_turn[SIM_KEYS]; // those of them that were certainly in turn
    } first;
};

struct sim {
    uint64_t seed, now_ns, steps;
    struct dice dice;
    struct fake_options fake;
    struct engine_options options;
    uint32_t node_count;
    struct sim_nodes *nodes; // node_count above 1: the nodes, which own the model; else NULL
    struct model *model;
    struct engine *engine;
    struct grammar *grammars[SIM_GRAMMARS]; // if options has a vocabulary
    struct mask_cache *caches[SIM_GRAMMARS];
    struct token_watch *watch; // for SIM_OPTIONAL; NULL: the vocabulary lacks letters
    struct waker *waker;
    struct port *ports[4];
    struct client clients[SIM_CLIENTS];
    bool faulty, failed, closing;
    bool late; // true if a rank will miss the deadline
    bool idle; // true if the last step did nothing: the engine sleeps
    uint64_t fault_step;
    uint64_t spoilt_step; // step that writes values that are not finite; 0: none
    struct {              // the oldest sequence that is not paused, at the last check
        uint64_t ticket, launched, settled;
        uint32_t planned_len, output_count, block_count, pending, state, still;
    } oldest;
    struct turn keys[SIM_KEYS];
    bool drawable;    // true if nothing prevented a draw at the end of the last step
    uint32_t undrawn; // consecutive steps in which a sequence waited and none was drawn
    uint64_t lost;    // number of late ranks, and of faults of nodes
    uint64_t ended, tokens, preemptions, pauses, hits, cancels, cuts, masked,
        forced; // for the summary
};

// grammars.c: grammars and token rules of the simulation, and the state of each client's answers.
void grammars_open(struct sim *sim);
void grammars_close(struct sim *sim);
enum next { NEXT_FREE, NEXT_MASKED, NEXT_NOTHING, NEXT_STUCK };
// Returns what may follow in a choice with a grammar; for NEXT_MASKED, `mask` contains the ids.
enum next grammar_next(struct client *client, uint32_t choice, uint32_t *mask);
// Begins a choice whose calls are optional, once args are complete.
void grammar_watch(struct client *client, uint32_t choice);
// rules_roll chooses random rules. rules_leave removes from `mask` what they forbid, id by id;
// returns false if nothing would be left.
void rules_roll(struct sim *sim, struct client *client);
bool rules_leave(const struct sim *sim, const struct client *client, uint32_t choice,
                 uint32_t *mask);
// budget_only returns the only token that a client's reasoning budget allows now, or -1.
// budget_take_token and grammar_take_token note a sampled token.
int32_t budget_only(const struct sim *sim, const struct client *client, uint32_t choice);
void budget_take_token(const struct sim *sim, struct client *client, uint32_t choice);
void grammar_take_token(struct sim *sim, struct client *client, uint32_t choice, int32_t token);

// fake_worker.c: seeds the order of its work. refuses: percentage of possible masks that are
// postponed.
void fake_worker_seed(uint64_t seed, uint32_t refuses);

// Ends the process if the condition is false; prints the seed and the step.
#define sim_check(sim, condition, ...)                                                             \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "seed %llu step %llu: ", (unsigned long long)(sim)->seed,              \
                    (unsigned long long)(sim)->steps);                                             \
            check(condition, __VA_ARGS__);                                                         \
        }                                                                                          \
    } while (0)

void sim_invariants(struct sim *sim);
void sim_rests(struct sim *sim); // after an idle step
void sim_empty(struct sim *sim); // at the end: everything was freed

void client_submit(struct sim *sim, struct client *client);
void client_turn(struct sim *sim, struct client *client);
void client_read(struct sim *sim, struct client *client, uint32_t most);
