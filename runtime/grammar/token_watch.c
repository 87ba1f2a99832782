// SPDX-License-Identifier: Apache-2.0
// The table of token_watch.h. It is made by the automaton that also becomes the free part of the
// grammar, so both agree about every byte.
#include "runtime/grammar/token_watch.h"

#include "base/arena.h"
#include "runtime/grammar/finder.h"

#include <stdatomic.h>
#include <string.h>

enum {
    STEP_BITS = 2,
    STEP_OPEN = 3,
    ENTRIES = TOKEN_OPEN,
    ENTRY_MAX = GRAMMAR_MARKER_BYTES_MAX + 1
};

struct token_watch {
    _Atomic uint32_t owners;
    uint32_t vocab;
    uint8_t *steps; // [vocab] STEP_BITS for each phase
    struct {        // texts that lead into each phase, the second one character longer
        char bytes[ENTRY_MAX];
        size_t count;
        bool known;
    } entries[ENTRIES][2];
};

// The automata of free text and of reasoning.
struct watching {
    struct finder text, reasoning;
};

static uint32_t root_of(const struct watching *g, enum token_phase phase)
{
    return phase == TOKEN_HEAD ? g->text.head : (uint32_t)NODE_TEXT;
}

static enum token_phase phase_after(uint32_t then)
{
    return then == TOKEN_THEN_GRAMMAR ? TOKEN_OPEN
           : then == TOKEN_THEN_PART  ? TOKEN_HEAD
                                      : TOKEN_REASONING;
}

// Returns the phase after the bytes.
static enum token_phase phase_step(const struct watching *g, enum token_phase phase,
                                   struct text bytes)
{
    uint32_t at = root_of(g, phase);
    for (size_t i = 0; i < bytes.bytes; i++) {
        const struct finder *f = phase == TOKEN_REASONING ? &g->reasoning : &g->text;
        at = f->nodes[at].to[(uint8_t)bytes.at[i]];
        if (f->nodes[at].complete) {
            phase = phase_after(f->nodes[at].then);
            if (phase == TOKEN_OPEN)
                return phase;
            at = root_of(g, phase);
        } else if (phase == TOKEN_HEAD && at == NODE_TEXT) {
            phase = TOKEN_TEXT;
        }
    }
    return at == root_of(g, phase) ? phase : TOKEN_OPEN;
}

// A head without markers of its own is text.
static enum token_phase phase_plain(const struct watching *g, enum token_phase phase)
{
    return phase == TOKEN_HEAD && g->text.head == NODE_TEXT ? TOKEN_TEXT : phase;
}

static void steps_make(struct token_watch *w, const struct watching *g, const struct vocabulary *v)
{
    w->vocab = vocabulary_size(v);
    w->steps = heap_alloc(w->vocab + 1);
    for (uint32_t id = 0; id < w->vocab; id++) {
        struct text bytes = vocabulary_token(v, (int32_t)id);
        unsigned steps = 0;
        for (enum token_phase phase = 0; phase < TOKEN_PHASES; phase++) {
            enum token_phase to = phase_step(g, phase_plain(g, phase), bytes);
            if (vocabulary_is_end(v, (int32_t)id) && phase == TOKEN_HEAD)
                to = TOKEN_TEXT;
            unsigned step = to == TOKEN_OPEN ? STEP_OPEN : (unsigned)phase_plain(g, to);
            steps |= step << STEP_BITS * phase;
        }
        w->steps[id] = (uint8_t)steps;
    }
}

// Sets the entries of the phase `to`: the text, and the text with a character of the alphabet that
// leads from there into the phase again.
static void entry_set(struct token_watch *w, const struct watching *g, const uint32_t *alphabet,
                      enum token_phase to, struct text text)
{
    check(text.bytes < ENTRY_MAX, "a marker of %zu bytes", text.bytes);
    for (int more = 0; more < 2; more++) {
        memcpy(w->entries[to][more].bytes, text.at, text.bytes);
        w->entries[to][more].count = text.bytes + (size_t)more;
    }
    w->entries[to][0].known = true;
    for (char c = '\n'; c <= '~' && to < TOKEN_PHASES && !w->entries[to][1].known; c++) {
        bool written = !alphabet || (alphabet[c / 32] >> c % 32 & 1);
        w->entries[to][1].bytes[text.bytes] = c;
        w->entries[to][1].known =
            written && phase_step(g, phase_plain(g, to), text_span(&c, 1)) == phase_plain(g, to);
    }
}

// Any character that the model can write and that begins no marker leads into text.
static void entries_make(struct token_watch *w, const struct watching *g,
                         const struct token_watch_args *args)
{
    const uint32_t *alphabet = vocabulary_alphabet(args->vocabulary, true);
    entry_set(w, g, alphabet, TOKEN_HEAD, text_of(""));
    for (char c = '!'; c <= '~' && !w->entries[TOKEN_TEXT][0].known; c++)
        if ((!alphabet || (alphabet[c / 32] >> c % 32 & 1)) &&
            phase_step(g, phase_plain(g, TOKEN_HEAD), text_span(&c, 1)) == TOKEN_TEXT)
            entry_set(w, g, alphabet, TOKEN_TEXT, text_span(&c, 1));
    if (args->reasoning_open.bytes > 0)
        entry_set(w, g, alphabet, TOKEN_REASONING, args->reasoning_open);
    if (args->call.bytes > 0)
        entry_set(w, g, alphabet, TOKEN_CALL, args->call);
}

struct token_watch *token_watch_create(const struct token_watch_args *args)
{
    struct token_watch *w = heap_alloc_zeroed(1, sizeof *w);
    struct watching g = {.text = {.b = NULL}, .reasoning = {.b = NULL}};
    struct grammar_marker close = {.text = args->reasoning_close, .then = TOKEN_THEN_PART};
    atomic_init(&w->owners, 1);
    finder_fill(&g.text, args->markers, args->count);
    finder_fill(&g.reasoning, &close, args->reasoning_close.bytes > 0);
    steps_make(w, &g, args->vocabulary);
    entries_make(w, &g, args);
    finder_free(&g.text);
    finder_free(&g.reasoning);
    return w;
}

struct token_watch *token_watch_ref(struct token_watch *w)
{
    // relaxed: the caller already holds a reference, so nothing has to be ordered
    atomic_fetch_add_explicit(&w->owners, 1, memory_order_relaxed);
    return w;
}

void token_watch_unref(struct token_watch *w)
{
    // acq_rel: all accesses by other owners happen before the last owner frees it
    if (!w || atomic_fetch_sub_explicit(&w->owners, 1, memory_order_acq_rel) != 1)
        return;
    heap_free(w->steps);
    heap_free(w);
}

uint32_t token_watch_owners(const struct token_watch *w)
{
    return atomic_load_explicit(&w->owners, memory_order_acquire);
}

enum token_phase token_watch_next(const struct token_watch *w, enum token_phase phase,
                                  int32_t token)
{
    check(token >= 0 && (uint32_t)token < w->vocab, "token %d of %u", token, w->vocab);
    unsigned step = w->steps[token] >> STEP_BITS * phase & STEP_OPEN;
    return step == STEP_OPEN ? TOKEN_OPEN : (enum token_phase)step;
}

bool token_watch_entry(const struct token_watch *w, enum token_phase phase, bool more,
                       struct text *bytes)
{
    *bytes = text_span(w->entries[phase][more].bytes, w->entries[phase][more].count);
    return w->entries[phase][more].known;
}
