// The simulation around one engine: random numbers, clients and what must hold after each step.
#pragma once

#include "scheduler/internal.h"
#include "tests/sim/fake.h"

enum { SIM_GRAMMARS = 6, SIM_VOCAB_MAX = 448, SIM_MASK_WORDS = SIM_VOCAB_MAX / 32 };
enum { SIM_BAD_MAX = 6, SIM_BAD_TOKENS = 3, SIM_OUTPUTS_MAX = 256, SIM_BUDGET_BYTES = 3 };
enum { SIM_CLIENTS = 64, SIM_CHOICES = 14, SIM_PROMPT_MAX = 512, SIM_BIAS_MAX = 4, SIM_KEYS = 4 };

struct dice {
    uint64_t state;
};

static inline uint32_t roll(struct dice *dice, uint32_t sides) // 0 .. sides - 1
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

// Draws of one that waits, a key or a request of one key, and of the others while it was ready: a
// sequence was left to draw that needed nothing but a slot.
struct turn {
    bool ready, stayed; // now; and a request of it was ready before, too
    bool counted;
    uint32_t waiting, tokens; // requests of the key; of the next prompt, or the shortest of them
    uint32_t own, others[SIM_CLIENTS];
};

struct client { // one request as its h2o thread sees it
    bool used, cancelled, over;
    bool dropped; // its last event is there and it is not read for a while
    enum reader reader;
    struct port *port;
    struct request *request;
    struct submit_args args;
    int32_t tokens[SIM_PROMPT_MAX];
    uint32_t starts[SIM_PROMPT_MAX + 1], types[SIM_PROMPT_MAX];
    int32_t stop_ids[16];
    struct token_bias bias[SIM_BIAS_MAX];
    struct sample_params expected; // what the device is told
    struct step_bias bias_expected[SIM_BIAS_MAX];
    struct fake_alone alone[SIM_CHOICES];
    struct matcher matchers[SIM_CHOICES]; // with a grammar: where the answers stand
    uint32_t outputs[SIM_CHOICES];
    int32_t history[SIM_CHOICES][SIM_OUTPUTS_MAX]; // of these, with rules
    uint32_t rules_allowed[SIM_MASK_WORDS];        // of args.rules: ids that may come
    uint32_t rules_count;                          // and sequences that may not
    int32_t rules_bad[SIM_BAD_MAX * SIM_BAD_TOKENS];
    uint32_t rules_start[SIM_BAD_MAX + 1];
    bool budget;             // of args.rules: what comes after `open` is reasoning up to `close`
    struct text open, close; //
    uint32_t budget_tokens;  // that may come inside
    uint32_t spent[SIM_CHOICES];             // of these
    int32_t budget_forced[SIM_BUDGET_BYTES]; // after so many bytes of the close
    bool finished[SIM_CHOICES];
    bool cut[SIM_CHOICES]; // cancelled alone
    uint32_t finishes, drawn, redrawn;
    struct turn turn;
    struct { // while it is the first of its key
        uint64_t ticket;
        uint32_t own;               // draws of its key
        uint32_t draws[SIM_KEYS];   // of other keys, with as many tokens
        uint32_t in_turn[SIM_KEYS]; // of these, as far as can be seen
    } first;
};

struct sim {
    uint64_t seed, now_ns, steps;
    struct dice dice;
    struct fake_options fake;
    struct engine_options options;
    struct model *model;
    struct engine *engine;
    struct grammar *grammars[SIM_GRAMMARS]; // where options has a vocabulary
    struct mask_cache *caches[SIM_GRAMMARS];
    struct waker *waker;
    struct port *ports[4];
    struct client clients[SIM_CLIENTS];
    bool faulty, failed, closing;
    bool late; // a rank will be later than the deadline
    bool idle; // the last step did nothing: the engine sleeps
    uint64_t fault_step;
    uint64_t spoilt_step; // what it writes is not finite; 0: none
    struct {              // the oldest sequence that may move, when last looked at
        uint64_t ticket, launched, settled;
        uint32_t planned_len, output_count, block_count, pending, state, still;
    } oldest;
    struct turn keys[SIM_KEYS];
    bool drawable;    // nothing held up a draw at the end of the last step
    uint32_t undrawn; // steps since then in which one waited and none was drawn
    uint64_t lost;    // ranks
    uint64_t ended, tokens, preemptions, pauses, hits, cancels, cuts, masked,
        forced; // for the summary
};

// grammars.c: what constrained requests of a world may be, and what a client knows of its own.
void grammars_open(struct sim *sim);
void grammars_close(struct sim *sim);
enum next { NEXT_FREE, NEXT_MASKED, NEXT_NOTHING, NEXT_STUCK };
// What may follow in a choice of a client with a grammar; the mask for NEXT_MASKED.
enum next grammar_next(struct client *client, uint32_t choice, uint32_t *mask);
// Which of a row a client's rules leave, tried one by one.
void rules_roll(struct sim *sim, struct client *client);
bool rules_leave(const struct sim *sim, const struct client *client, uint32_t choice,
                 uint32_t *mask);
// The token that a client's budget of reasoning lets come alone, or -1; and a token was drawn.
int32_t budget_only(const struct sim *sim, const struct client *client, uint32_t choice);
void budget_take_token(const struct sim *sim, struct client *client, uint32_t choice);
void grammar_take_token(struct sim *sim, struct client *client, uint32_t choice, int32_t token);

// fake_worker.c: for the order of its work; refuses: so many rows of a hundred whose masks it could
// make are postponed.
void fake_worker_seed(uint64_t seed, uint32_t refuses);

// Ends the process with the seed and the step.
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
void sim_empty(struct sim *sim); // at the end: everything came back

void client_submit(struct sim *sim, struct client *client);
void client_turn(struct sim *sim, struct client *client);
void client_read(struct sim *sim, struct client *client, uint32_t most);
