// SPDX-License-Identifier: Apache-2.0
// Grammars of the simulation over tokens of one to three letters, and the state of each client's
// answers in them: matchers that the client owns, in caches that no engine uses.
#include "tests/grammar/matcher_looks.h"
#include "tests/sim/sim.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

enum { LETTERS = 5, TOKEN_BYTES = 3 };

static struct vocabulary *vocabulary_roll(struct sim *sim)
{
    const struct model_facts *f = &sim->fake.facts;
    char bytes[SIM_VOCAB_MAX][TOKEN_BYTES];
    struct text tokens[SIM_VOCAB_MAX], specials[SIM_VOCAB_MAX];
    memset(specials, 0, sizeof specials);
    for (uint32_t i = 0; i < f->vocab; i++) {
        uint32_t length = chance(&sim->dice, 5) ? 0 : 1 + roll(&sim->dice, TOKEN_BYTES);
        for (uint32_t b = 0; b < length; b++)
            bytes[i][b] = (char)('a' + roll(&sim->dice, LETTERS));
        tokens[i] = text_span(bytes[i], length);
        if (length == 0 && chance(&sim->dice, 50))
            specials[i] = text_of("<s>");
    }
    struct vocabulary_args args = {f->vocab, tokens, f->vocab, specials, f->end_ids, f->end_count};
    return vocabulary_create(&args);
}

// By `which`: 0: 3 to 20 letters; 1: some words; 2: nested brackets; 3: free text up to a marker;
// 4: a byte that no token contains; 5: free text that must not end without its marker;
// SIM_OPTIONAL: free text and reasoning with calls, after which the text goes on.
static const struct text call_mark = {"cd", 2}, open_mark = {"ba", 2}, close_mark = {"dd", 2};

static uint32_t optional_calls(struct grammar_builder *b)
{
    uint32_t head, rule, answer = grammar_rule(b, text_of("answer"), &head);
    uint32_t reasoning = grammar_rule(b, text_of("reasoning"), &rule);
    uint32_t call[] = {grammar_repeat(b, grammar_byte(b, 'a', 'b'), 2, 2),
                       grammar_literal(b, text_of("e")), answer};
    struct grammar_marker marks[] = {{call_mark, grammar_join_all(b, call, 3), false},
                                     {open_mark, reasoning, true}};
    struct grammar_marker close = {close_mark, answer, false};
    grammar_rule_set(b, head, grammar_free_part(b, &(struct grammar_free_part){marks, 2, false}));
    grammar_rule_set(b, rule, grammar_free_part(b, &(struct grammar_free_part){&close, 1, false}));
    return answer;
}

// Returns true if each letter is a token that ends no answer.
static bool letters_exist(const struct vocabulary *v)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < vocabulary_size(v); i++) {
        struct text token = vocabulary_token(v, (int32_t)i);
        if (token.bytes == 1)
            seen |= 1u << (token.at[0] - 'a');
    }
    return seen == (1u << LETTERS) - 1;
}

static void watch_open(struct sim *sim)
{
    const struct grammar_marker marks[] = {{call_mark, TOKEN_THEN_GRAMMAR, false},
                                           {open_mark, TOKEN_THEN_REASONING, true}};
    struct token_watch_args args = {.vocabulary = sim->options.vocabulary,
                                    .markers = marks,
                                    .count = 2,
                                    .reasoning_open = open_mark,
                                    .reasoning_close = close_mark,
                                    .call = call_mark};
    if (letters_exist(sim->options.vocabulary))
        sim->watch = token_watch_create(&args);
}

static uint32_t expression(struct grammar_builder *b, uint32_t which)
{
    static const struct text words[] = {{"abc", 3}, {"abcde", 5}, {"eda", 3}, {"c", 1}};
    uint32_t rule, letters = grammar_byte(b, 'a', 'a' + LETTERS - 1);
    struct grammar_marker marker = {.text = text_of("cd"),
                                    .then = grammar_repeat(b, letters, 2, 9)};
    struct grammar_free_part part = {.markers = &marker, .count = 1, .must = which == 5};
    if (which == 0)
        return grammar_repeat(b, letters, 3, 20);
    if (which == 1)
        return grammar_choice(b, words, sizeof words / sizeof *words);
    if (which == 2) {
        uint32_t inside = grammar_rule(b, text_of("inside"), &rule);
        uint32_t open = grammar_literal(b, text_of("a")), close = grammar_literal(b, text_of("b"));
        uint32_t nested = grammar_join(b, open, grammar_join(b, inside, close));
        grammar_rule_set(b, rule, grammar_either(b, nested, grammar_literal(b, text_of("c"))));
        return inside;
    }
    if (which == SIM_OPTIONAL)
        return optional_calls(b);
    if (which == 4)
        return grammar_join(b, grammar_repeat(b, grammar_literal(b, text_of("a")), 0, 5),
                            grammar_literal(b, text_of("z")));
    return grammar_free_part(b, &part);
}

void grammars_open(struct sim *sim)
{
    sim->options.vocabulary = vocabulary_roll(sim);
    for (uint32_t i = 0; i < SIM_GRAMMARS; i++) {
        struct error err;
        struct grammar_builder *b = grammar_builder_create(NULL);
        uint32_t root = expression(b, i);
        check(grammar_finish(b, root, &sim->grammars[i], &err) == STATUS_OK, "%s", err.text);
        struct mask_cache_options options = {.bytes_max = 0};
        sim->caches[i] = mask_cache_create(sim->grammars[i], sim->options.vocabulary, &options);
    }
    watch_open(sim);
}

// The engine must be closed: no other owner holds a reference.
void grammars_close(struct sim *sim)
{
    for (uint32_t i = 0; sim->options.vocabulary && i < SIM_GRAMMARS; i++) {
        mask_cache_destroy(sim->caches[i]);
        sim_check(sim, grammar_owners(sim->grammars[i]) == 1, "grammar %u has %u owners", i,
                  grammar_owners(sim->grammars[i]));
        grammar_unref(sim->grammars[i]);
    }
    sim_check(sim, !sim->watch || token_watch_owners(sim->watch) == 1, "the watch has %u owners",
              token_watch_owners(sim->watch));
    token_watch_unref(sim->watch);
    vocabulary_unref(sim->options.vocabulary);
}

static void phase_enter(struct client *c, uint32_t choice, enum token_phase phase)
{
    struct text bytes;
    struct matcher *m = &c->matchers[choice];
    check(token_watch_entry(c->args.watch, phase, false, &bytes), "no way into phase %d", phase);
    matcher_restart(m);
    check(matcher_accept_bytes(m, bytes), "the entry of phase %d is refused", phase);
}

void grammar_watch(struct client *c, uint32_t choice)
{
    bool call = c->args.watch_phase == TOKEN_CALL;
    phase_enter(c, choice, c->args.watch_phase);
    c->phases[choice] = call ? TOKEN_OPEN : c->args.watch_phase;
}

// Notes a token in an answer with optional calls. The matcher is up to date only inside of calls
// and marks.
static void watch_take_token(struct client *c, uint32_t choice, const struct vocabulary *v,
                             int32_t token)
{
    struct matcher *m = &c->matchers[choice];
    enum token_phase before = c->phases[choice];
    bool text = false;
    if (before < TOKEN_PHASES) {
        c->phases[choice] = token_watch_next(c->args.watch, before, token);
        if (c->phases[choice] != TOKEN_OPEN)
            return;
        phase_enter(c, choice, before);
        text = !matcher_accept(m, token);
    } else if (vocabulary_is_end(v, token)) {
        text = true;
    } else {
        bool free = !matcher_needs_mask(m), bytes = vocabulary_token(v, token).bytes > 0;
        check(matcher_accept(m, token) || (free && !bytes), "token %d does not fit", token);
    }
    if (text)
        phase_enter(c, choice, TOKEN_TEXT);
    for (int at = 0; at < 2 * TOKEN_PHASES; at++) {
        struct text bytes;
        if (token_watch_entry(c->args.watch, (enum token_phase)(at / 2), at % 2, &bytes) &&
            matcher_is_after(m, bytes))
            c->phases[choice] = (enum token_phase)(at / 2);
    }
}

enum next grammar_next(struct client *c, uint32_t choice, uint32_t *mask)
{
    struct matcher *m = &c->matchers[choice];
    memset(mask, 0, SIM_MASK_WORDS * sizeof *mask);
    if (c->args.watch && c->phases[choice] < TOKEN_PHASES)
        return NEXT_FREE;
    if (matcher_mask(m, mask) != MATCHER_OK)
        return NEXT_STUCK;
    if (!matcher_needs_mask(m))
        return NEXT_FREE;
    uint32_t any = 0;
    for (uint32_t i = 0; i < SIM_MASK_WORDS; i++)
        any |= mask[i];
    return any == 0 ? NEXT_NOTHING : NEXT_MASKED;
}

static bool begins(struct text text, struct text with)
{
    return with.bytes > 0 && with.bytes <= text.bytes && memcmp(text.at, with.at, with.bytes) == 0;
}

// Chooses a reasoning budget of a few tokens between short marks. There is a budget only if some
// token begins the closing mark.
static void budget_roll(struct sim *sim, struct client *c)
{
    static const struct text opens[] = {{"a", 1}, {"bc", 2}, {"d", 1}},
                             closes[] = {{"e", 1}, {"cd", 2}, {"aab", 3}};
    struct dice *dice = &sim->dice;
    struct token_budget budget;
    bool inside = chance(dice, 40);
    c->open = inside ? text_span(NULL, 0) : opens[roll(dice, 3)];
    c->close = closes[roll(dice, 3)];
    c->budget_tokens = roll(dice, 6);
    for (uint32_t at = 0; at < SIM_BUDGET_BYTES; at++)
        c->budget_forced[at] = -1;
    for (uint32_t at = 0; at < c->close.bytes; at++)
        for (uint32_t i = 0; i < sim->fake.facts.vocab; i++) {
            struct text rest = text_span(c->close.at + at, c->close.bytes - at);
            if (begins(rest, vocabulary_text(sim->options.vocabulary, (int32_t)i)) &&
                (c->budget_forced[at] < 0 || chance(dice, 30)))
                c->budget_forced[at] = (int32_t)i;
        }
    c->budget = c->budget_forced[0] >= 0 && c->args.rules;
    if (!c->budget)
        return;
    struct token_budget_mark mark = {c->open, BUDGET_OPEN};
    token_budget_make(&budget, &(struct token_budget_args){.tokens_max = c->budget_tokens,
                                                           .marks = &mark,
                                                           .mark_count = !inside,
                                                           .close = c->close,
                                                           .forced = c->budget_forced,
                                                           .inside = inside});
    token_rules_limit(c->args.rules, &budget);
}

void rules_roll(struct sim *sim, struct client *c)
{
    struct dice *dice = &sim->dice;
    uint32_t vocab = sim->fake.facts.vocab;
    int32_t allowed[SIM_VOCAB_MAX];
    uint32_t count = 0;
    bool some = chance(dice, 50);
    memset(c->rules_allowed, 0, sizeof c->rules_allowed);
    for (uint32_t i = 0; i < vocab; i++) {
        if (some && chance(dice, 60))
            continue;
        allowed[count++] = (int32_t)i;
        c->rules_allowed[i / 32] |= 1u << i % 32;
    }
    c->rules_count = roll(dice, SIM_BAD_MAX + 1);
    for (uint32_t i = 0; i < c->rules_count; i++) {
        uint32_t length = 1 + roll(dice, SIM_BAD_TOKENS), from = c->rules_start[i];
        for (uint32_t k = 0; k < length; k++) // few ids, so that such sequences occur
            c->rules_bad[from + k] = count > 0 ? allowed[roll(dice, smaller(count, 4u))] : 0;
        c->rules_start[i + 1] = from + length;
    }
    struct token_rules_args args = {vocab,        allowed,        some ? count : 0,
                                    c->rules_bad, c->rules_start, c->rules_count};
    c->args.rules = token_rules_create(&args);
    memset(c->spent, 0, sizeof c->spent);
    c->budget = false;
    if (chance(dice, 60))
        budget_roll(sim, c);
}

// Scans the entire answer: an opening mark, text up to the next closing mark, an opening mark right
// after it, and so on. Inside reasoning, returns how many bytes of the closing mark the answer ends
// with; otherwise -1.
static int32_t budget_inside(const struct sim *sim, const struct client *c, uint32_t choice)
{
    char answer[SIM_OUTPUTS_MAX * (TOKEN_BYTES + 4)];
    size_t bytes = 0, at = 0;
    for (uint32_t i = 0; i < c->outputs[choice]; i++) {
        struct text own = vocabulary_text(sim->options.vocabulary, c->history[choice][i]);
        memcpy(answer + bytes, own.at, own.bytes);
        bytes += own.bytes;
    }
    for (bool inside = c->open.bytes == 0;; inside = false) {
        struct text rest = text_span(answer + at, bytes - at);
        if (!inside && !begins(rest, c->open))
            return -1;
        at += inside ? 0 : c->open.bytes;
        const char *end = memmem(answer + at, bytes - at, c->close.at, c->close.bytes);
        if (!end)
            break;
        at = (size_t)(end - answer) + c->close.bytes;
    }
    size_t most = smaller(bytes - at, c->close.bytes - 1);
    while (most > 0 && memcmp(answer + bytes - most, c->close.at, most) != 0)
        most--;
    return (int32_t)most;
}

// If reasoning was closed and only a part of the opening mark, or nothing, follows its last close,
// returns the length of that part; otherwise -1.
static int32_t budget_reopens(const struct sim *sim, const struct client *c, uint32_t choice)
{
    char answer[SIM_OUTPUTS_MAX * (TOKEN_BYTES + 4)];
    size_t bytes = 0, at = 0;
    for (uint32_t i = 0; i < c->outputs[choice]; i++) {
        struct text own = vocabulary_text(sim->options.vocabulary, c->history[choice][i]);
        memcpy(answer + bytes, own.at, own.bytes);
        bytes += own.bytes;
    }
    while (begins(text_span(answer + at, bytes - at), c->open)) {
        const char *from = answer + at + c->open.bytes;
        const char *end =
            memmem(from, bytes - (size_t)(from - answer), c->close.at, c->close.bytes);
        if (!end)
            return -1;
        at = (size_t)(end - answer) + c->close.bytes;
    }
    size_t rest = bytes - at;
    return at > 0 && rest < c->open.bytes && memcmp(answer + at, c->open.at, rest) == 0
               ? (int32_t)rest
               : -1;
}

static bool budget_bans(const struct sim *sim, const struct client *c, uint32_t choice,
                        uint32_t token)
{
    struct text own = vocabulary_token(sim->options.vocabulary, (int32_t)token);
    if (!c->budget || c->open.bytes == 0 || c->spent[choice] < c->budget_tokens)
        return false;
    int32_t part = budget_reopens(sim, c, choice);
    return part >= 0 && begins(own, text_span(c->open.at + part, c->open.bytes - (size_t)part));
}

int32_t budget_only(const struct sim *sim, const struct client *c, uint32_t choice)
{
    if (!c->args.rules || !c->budget || c->spent[choice] < c->budget_tokens)
        return -1;
    int32_t inside = budget_inside(sim, c, choice);
    return inside < 0 ? -1 : c->budget_forced[inside];
}

void budget_take_token(const struct sim *sim, struct client *c, uint32_t choice)
{
    c->spent[choice] += c->budget && budget_inside(sim, c, choice) >= 0;
}

static bool sequence_ends(const struct client *c, uint32_t choice, uint32_t which, uint32_t token)
{
    const int32_t *bad = &c->rules_bad[c->rules_start[which]];
    uint32_t length = c->rules_start[which + 1] - c->rules_start[which];
    uint32_t outputs = c->outputs[choice];
    if ((uint32_t)bad[length - 1] != token || outputs + 1 < length)
        return false;
    for (uint32_t i = 0; i + 1 < length; i++)
        if (c->history[choice][outputs + 1 - length + i] != bad[i])
            return false;
    return true;
}

static bool rules_allow(const struct client *c, uint32_t choice, uint32_t token, bool anywhere)
{
    bool allowed = c->rules_allowed[token / 32] >> token % 32 & 1;
    for (uint32_t i = 0; allowed && i < c->rules_count; i++)
        allowed = (anywhere && c->rules_start[i + 1] - c->rules_start[i] > 1) ||
                  !sequence_ends(c, choice, i, token);
    return allowed;
}

bool rules_leave(const struct sim *sim, const struct client *c, uint32_t choice, uint32_t *mask)
{
    uint32_t left[SIM_MASK_WORDS] = {0}, anywhere[SIM_MASK_WORDS] = {0}, any = 0;
    for (uint32_t i = 0; i < sim->fake.facts.vocab; i++) {
        uint32_t bit = 1u << i % 32;
        if ((mask[i / 32] & bit) && rules_allow(c, choice, i, false) &&
            !budget_bans(sim, c, choice, i))
            left[i / 32] |= bit;
        if (rules_allow(c, choice, i, true))
            anywhere[i / 32] |= bit;
        any |= left[i / 32];
    }
    if (any)
        memcpy(mask, left, sizeof left);
    else if (!c->args.grammar)
        memcpy(mask, anywhere, sizeof anywhere);
    return any != 0;
}

void grammar_take_token(struct sim *sim, struct client *c, uint32_t choice, int32_t token)
{
    struct matcher *m = &c->matchers[choice];
    if (c->args.watch) {
        watch_take_token(c, choice, sim->options.vocabulary, token);
        return;
    }
    bool free = !matcher_needs_mask(m);
    bool taken = matcher_accept(m, token);
    bool bytes = vocabulary_token(sim->options.vocabulary, token).bytes > 0;
    sim_check(sim, taken || (free && !bytes), "choice %u: token %d does not fit", choice, token);
}
