// SPDX-License-Identifier: Apache-2.0
// Explores every interleaving of the engine's and the reader's steps of the port protocol, for a
// small ring: push, finish, drain, free, refill; pause and free an entry; cancel; sleep and wake on
// both sides. The steps are the functions of base/ring.h and base/flag.h that production uses. Each
// is one indivisible action; test_port_stress under ThreadSanitizer covers the memory order within
// them.
// || Proved for every order: each event of each life arrives once and in order, no ring is
// over-full, and no side sleeps while it has work. With cancels, the reader may cancel each life at
// any time, and every second life ends only by a cancel. With parking, the engine checks a request
// without ring credit only after a notice of the reader. Faults in the order of steps (enum fault)
// show that the search can fail.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/hash.h"
#include "scheduler/ring.h"

#include <string.h>

enum engine_at {
    E_TAKE,
    E_TAKE_LOOK,
    E_NOTICE,
    E_NOTICE_LOWER,
    E_NOTICE_LOOK,
    E_ROOM,
    E_PAUSE,
    E_LOOK,
    E_SLEEP,
    E_READ,
    E_LOWER,
    E_PUSH,
    E_RAISE,
    E_READY,
    E_WAKE,
    E_WRITE,
    E_DONE
};

enum reader_at {
    R_FILL,
    R_SUBMIT,
    R_SUBMIT_RAISE,
    R_SUBMIT_WRITE,
    R_SLEEP,
    R_LOWER,
    R_READ,
    R_POP,
    R_IN_READY,
    R_PEEK,
    R_TAKE,
    R_UNPAUSE,
    R_NOTICE_RAISE,
    R_NOTICE_PUSH,
    R_KICK,
    R_KICK_WRITE,
    R_LATE_LOWER,
    R_CANCEL,
    R_CANCEL_RAISE,
    R_CANCEL_PUSH,
    R_CANCEL_KICK,
    R_CANCEL_WRITE,
    R_DONE
};

enum fault {
    FAULT_NONE,
    FAULT_NO_SECOND_LOOK, // the engine sleeps without looking again after it paused
    FAULT_UNPAUSE_FIRST,  // the reader lowers `paused` before it frees the entry
    FAULT_LOWER_AFTER,    // the reader lowers in_ready after it looked at the ring
    FAULT_CLEAR_FIRST,    // the reader lowers the waker's flag before it reads the eventfd
    FAULT_ANNOUNCE_FIRST, // the engine raises in_ready before it publishes
    FAULT_CANCELS,        // first fault that needs cancels
    FAULT_NO_INTAKE_LOOK = FAULT_CANCELS, // a request is popped without a read of its flag
    FAULT_NOTICE_FIRST,                   // the reader sends the notice before it sets the flag
    FAULT_LOOK_FIRST,              // the engine reads the cancel flag before it lowers in_notices
    FAULT_ALWAYS_PUSH,             // the reader pushes a notice while one is in the ring
    FAULT_PARKS,                   // first fault that needs parking
    FAULT_NO_NOTICE = FAULT_PARKS, // the reader only wakes the engine
    FAULT_NO_PARK_LOOK,            // the engine parks without looking again
    FAULT_COUNT
};

enum { EVENTS = 2 }; // entries of the event ring: one token and one finish

struct place { // state of both threads and everything they share
    struct event_ring events;
    struct token_event event[EVENTS];
    struct number_ring ready, inbound, notices;
    uint32_t ready_entry[1], inbound_entry[1], notices_entry[1];
    _Atomic uint32_t pending, engine_pending, cancel, in_notices;
    uint32_t fd, engine_fd;
    uint32_t engine_at, engine_after, engine_life, sent;
    uint32_t reader_at, reader_after, reader_life, got;
    uint32_t ended;      // 1 if the event just read was a finish
    uint32_t live, over; // engine: 1 if it owns a request; 1 if it must finish it now
    uint32_t parked;     // engine: 1 if it waits for a notice of a free entry
    uint32_t asked;      // reader: 1 if it has cancelled this life
    uint32_t asked_from; // reader: state to continue with after the cancel
};

struct search {
    struct place now;
    uint32_t lives, tokens; // number of consecutive requests, tokens of each
    enum fault fault;
    bool cancels, parks, notices; // notices: cancels or parks
    uint64_t *seen;               // [mask + 1] hashes of visited states; 0: empty
    uint64_t mask, states;
    uint32_t lost;  // states in which both sides sleep and work is left
    uint32_t wrong; // events out of order, finishes without a cancel, over-full rings
};

static void place_init(struct place *p)
{
    memset(p, 0, sizeof *p);
    p->events.event = p->event;
    p->events.ring.mask = EVENTS - 1;
    p->ready.entry = p->ready_entry;
    p->inbound.entry = p->inbound_entry;
    p->notices.entry = p->notices_entry;
    p->reader_at = R_FILL;
    p->reader_after = R_SLEEP;
}

static void engine_sleep(struct place *p, enum engine_at after)
{
    p->engine_at = E_SLEEP;
    p->engine_after = after;
}

static void engine_next(const struct search *s, struct place *p)
{
    if (p->sent <= s->tokens) {
        p->engine_at = s->notices ? E_NOTICE : E_ROOM;
        return;
    }
    p->engine_life++;
    p->engine_at = p->engine_life == s->lives ? E_DONE : E_TAKE;
}

static void engine_rest(const struct search *s, struct place *p, enum engine_at after)
{
    p->parked = s->parks;
    engine_sleep(p, after);
}

static void engine_room(const struct search *s, struct place *p, uint32_t otherwise)
{
    bool finish = p->sent == s->tokens || p->over; // its entry is reserved
    uint32_t after = s->notices ? E_NOTICE : E_ROOM;
    if (s->cancels && p->engine_life % 2 == 1 && finish && !p->over)
        engine_sleep(p, E_NOTICE);
    else if (finish || ring_free(&p->events.ring) >= 2)
        p->engine_at = s->fault == FAULT_ANNOUNCE_FIRST ? E_RAISE : E_PUSH;
    else if (otherwise == E_SLEEP)
        engine_rest(s, p, after);
    else
        p->engine_at = otherwise;
}

static void engine_push(const struct search *s, struct place *p)
{
    uint32_t at = ring_place(&p->events.ring);
    bool finish = p->sent == s->tokens || p->over;
    p->event[at] =
        (struct token_event){.choice = p->engine_life, .index = p->sent, .finish = finish};
    if (finish)
        p->live = p->over = 0;
    ring_publish(&p->events.ring);
    p->sent = finish ? s->tokens + 1 : p->sent + 1;
    if (s->fault == FAULT_ANNOUNCE_FIRST)
        engine_next(s, p);
    else
        p->engine_at = E_RAISE;
}

static void engine_told(const struct search *s, struct place *p)
{
    if (s->fault == FAULT_ANNOUNCE_FIRST)
        p->engine_at = E_PUSH;
    else
        engine_next(s, p);
}

static void engine_look(struct search *s, struct place *p)
{
    if (!p->live || !atomic_load(&p->cancel))
        return;
    s->wrong += !p->asked;
    p->over = 1;
}

static void engine_notices(struct search *s, struct place *p)
{
    uint32_t number;
    bool look_first = s->fault == FAULT_LOOK_FIRST;
    switch ((enum engine_at)p->engine_at) {
    case E_NOTICE:
        if (number_pop(&p->notices, &number))
            p->engine_at = look_first ? E_NOTICE_LOOK : E_NOTICE_LOWER;
        else if (p->live && !p->parked)
            p->engine_at = E_ROOM;
        else
            engine_sleep(p, p->live ? E_NOTICE : E_TAKE);
        break;
    case E_NOTICE_LOWER:
        flag_lower(&p->in_notices);
        p->engine_at = look_first ? E_NOTICE : E_NOTICE_LOOK;
        break;
    case E_NOTICE_LOOK:
        engine_look(s, p);
        p->parked = 0;
        p->engine_at = look_first ? E_NOTICE_LOWER : E_NOTICE;
        break;
    default:
        engine_look(s, p);
        p->engine_at = E_NOTICE;
    }
}

static void engine_act(struct search *s, struct place *p)
{
    uint32_t number;
    switch ((enum engine_at)p->engine_at) {
    case E_TAKE:
        p->sent = 0;
        p->live = number_pop(&p->inbound, &number);
        if (s->notices)
            p->engine_at = p->live && s->fault != FAULT_NO_INTAKE_LOOK ? E_TAKE_LOOK : E_NOTICE;
        else if (p->live)
            p->engine_at = E_ROOM;
        else
            engine_sleep(p, E_TAKE);
        break;
    case E_TAKE_LOOK:
    case E_NOTICE:
    case E_NOTICE_LOWER:
    case E_NOTICE_LOOK:
        engine_notices(s, p);
        break;
    case E_ROOM:
        engine_room(s, p, E_PAUSE);
        break;
    case E_PAUSE:
        flag_raise(&p->events.paused);
        p->engine_at = E_LOOK;
        if (s->fault == FAULT_NO_SECOND_LOOK)
            engine_sleep(p, E_ROOM);
        if (s->fault == FAULT_NO_PARK_LOOK)
            engine_rest(s, p, E_NOTICE);
        break;
    case E_LOOK:
        engine_room(s, p, E_SLEEP);
        break;
    case E_SLEEP: // runs only if the eventfd is readable
    case E_READ:
        p->engine_fd = 0;
        p->engine_at = E_LOWER;
        break;
    case E_LOWER:
        flag_lower(&p->engine_pending);
        p->engine_at = p->engine_after;
        break;
    case E_PUSH:
        engine_push(s, p);
        break;
    case E_RAISE:
        p->engine_at = flag_raise(&p->events.in_ready) ? E_READY : E_WAKE;
        break;
    case E_READY:
        number_push(&p->ready, 0);
        p->engine_at = E_WAKE;
        break;
    case E_WAKE:
        if (flag_raise(&p->pending))
            p->engine_at = E_WRITE;
        else
            engine_told(s, p);
        break;
    case E_WRITE:
        p->fd = 1;
        engine_told(s, p);
        break;
    case E_DONE:
        break;
    }
}

static void reader_event(struct search *s, struct place *p)
{
    uint32_t at;
    if (!ring_peek(&p->events.ring, &at)) {
        p->reader_at = s->fault == FAULT_LOWER_AFTER ? R_LATE_LOWER : R_POP;
        return;
    }
    const struct token_event *event = &p->event[at];
    s->wrong += event->choice != p->reader_life || event->index != p->got;
    p->got++;
    p->ended = event->finish;
    p->reader_at = s->fault == FAULT_UNPAUSE_FIRST ? R_UNPAUSE : R_TAKE;
}

// Continues after an event; after a finish, frees the request and submits the next.
static void reader_next(const struct search *s, struct place *p)
{
    p->reader_at = R_PEEK;
    if (!p->ended)
        return;
    p->ended = 0;
    p->got = 0;
    p->reader_life++;
    p->reader_after = R_PEEK;
    p->reader_at = p->reader_life == s->lives ? R_DONE : R_FILL;
}

static void reader_unpaused(const struct search *s, struct place *p)
{
    if (s->fault == FAULT_UNPAUSE_FIRST)
        p->reader_at = R_TAKE;
    else
        reader_next(s, p);
}

static void notice_push(struct search *s, struct place *p)
{
    if (ring_free(&p->notices.ring) == 0)
        s->wrong++;
    else
        number_push(&p->notices, 0);
}

static void reader_wakes(struct search *s, struct place *p)
{
    switch ((enum reader_at)p->reader_at) {
    case R_FILL:
        atomic_store(&p->cancel, 0);
        p->asked = 0;
        p->reader_at = R_SUBMIT;
        break;
    case R_SUBMIT:
        number_push(&p->inbound, 0);
        p->reader_at = R_SUBMIT_RAISE;
        break;
    case R_SUBMIT_RAISE:
        p->reader_at = flag_raise(&p->engine_pending) ? R_SUBMIT_WRITE : p->reader_after;
        break;
    case R_SUBMIT_WRITE:
        p->engine_fd = 1;
        p->reader_at = p->reader_after;
        break;
    case R_NOTICE_RAISE:
        p->reader_at = flag_raise(&p->in_notices) ? R_NOTICE_PUSH : R_KICK;
        break;
    case R_NOTICE_PUSH:
        notice_push(s, p);
        p->reader_at = R_KICK;
        break;
    case R_KICK:
        if (flag_raise(&p->engine_pending))
            p->reader_at = R_KICK_WRITE;
        else
            reader_unpaused(s, p);
        break;
    default:
        p->engine_fd = 1;
        reader_unpaused(s, p);
    }
}

// Runs the steps of port_cancel, then continues where the reader was.
static void reader_cancels(struct search *s, struct place *p)
{
    bool notice_first = s->fault == FAULT_NOTICE_FIRST;
    uint32_t told = notice_first ? R_CANCEL : p->asked_from;
    switch ((enum reader_at)p->reader_at) {
    case R_CANCEL:
        atomic_store(&p->cancel, 1);
        p->reader_at = notice_first ? p->asked_from : R_CANCEL_RAISE;
        break;
    case R_CANCEL_RAISE:
        p->reader_at = told;
        if (flag_raise(&p->in_notices) || s->fault == FAULT_ALWAYS_PUSH)
            p->reader_at = R_CANCEL_PUSH;
        break;
    case R_CANCEL_PUSH:
        notice_push(s, p);
        p->reader_at = R_CANCEL_KICK;
        break;
    case R_CANCEL_KICK:
        p->reader_at = flag_raise(&p->engine_pending) ? R_CANCEL_WRITE : told;
        break;
    default:
        p->engine_fd = 1;
        p->reader_at = told;
    }
}

static bool may_cancel(const struct search *s, const struct place *p)
{
    bool at = p->reader_at == R_SLEEP || p->reader_at == R_POP || p->reader_at == R_PEEK;
    return s->cancels && at && !p->asked;
}

static void cancel_begin(const struct search *s, struct place *p)
{
    p->asked = 1;
    p->asked_from = p->reader_at;
    p->reader_at = s->fault == FAULT_NOTICE_FIRST ? R_CANCEL_RAISE : R_CANCEL;
}

static void reader_act(struct search *s, struct place *p)
{
    uint32_t number;
    bool clear_first = s->fault == FAULT_CLEAR_FIRST;
    switch ((enum reader_at)p->reader_at) {
    case R_SLEEP: // runs only if the eventfd is readable
        p->reader_at = clear_first ? R_LOWER : R_READ;
        break;
    case R_READ:
        p->fd = 0;
        p->reader_at = clear_first ? R_POP : R_LOWER;
        break;
    case R_LOWER:
        flag_lower(&p->pending);
        p->reader_at = clear_first ? R_READ : R_POP;
        break;
    case R_POP:
        p->reader_at = !number_pop(&p->ready, &number) ? R_SLEEP
                       : s->fault == FAULT_LOWER_AFTER ? R_PEEK
                                                       : R_IN_READY;
        break;
    case R_IN_READY:
        flag_lower(&p->events.in_ready);
        p->reader_at = R_PEEK;
        break;
    case R_LATE_LOWER:
        flag_lower(&p->events.in_ready);
        p->reader_at = R_POP;
        break;
    case R_PEEK:
        reader_event(s, p);
        break;
    case R_TAKE:
        ring_pop(&p->events.ring);
        p->reader_at = R_UNPAUSE;
        if (s->fault == FAULT_UNPAUSE_FIRST)
            reader_next(s, p);
        break;
    case R_UNPAUSE:
        if (flag_lower(&p->events.paused))
            p->reader_at = s->notices && s->fault != FAULT_NO_NOTICE ? R_NOTICE_RAISE : R_KICK;
        else
            reader_unpaused(s, p);
        break;
    case R_CANCEL:
    case R_CANCEL_RAISE:
    case R_CANCEL_PUSH:
    case R_CANCEL_KICK:
    case R_CANCEL_WRITE:
        reader_cancels(s, p);
        break;
    case R_DONE:
        break;
    default:
        reader_wakes(s, p);
    }
}

static bool seen_before(struct search *s)
{
    static const uint64_t key[2] = {11, 12};
    uint64_t hash = hash_bytes(key, &s->now, sizeof s->now).low | 1;
    for (uint64_t at = hash & s->mask;; at = (at + 1) & s->mask) {
        if (s->seen[at] == hash)
            return true;
        if (s->seen[at] != 0)
            continue;
        s->seen[at] = hash;
        s->states++;
        check(s->states < s->mask / 2, "%llu states", (unsigned long long)s->states);
        return false;
    }
}

static void explore(struct search *s)
{
    if (seen_before(s))
        return;
    const struct place *p = &s->now;
    bool engine = p->engine_at != E_DONE && (p->engine_at != E_SLEEP || p->engine_fd > 0);
    bool reader = p->reader_at != R_DONE && (p->reader_at != R_SLEEP || p->fd > 0);
    bool cancel = may_cancel(s, p);
    if (!engine && !reader && !cancel) {
        s->lost += p->engine_at != E_DONE || p->reader_at != R_DONE;
        return;
    }
    struct place before;
    memcpy(&before, &s->now, sizeof before);
    if (engine) {
        engine_act(s, &s->now);
        explore(s);
        memcpy(&s->now, &before, sizeof before);
    }
    if (reader) {
        reader_act(s, &s->now);
        explore(s);
        memcpy(&s->now, &before, sizeof before);
    }
    if (cancel) {
        cancel_begin(s, &s->now);
        explore(s);
        memcpy(&s->now, &before, sizeof before);
    }
}

static void search_run(struct search *s, uint32_t lives, uint32_t tokens, enum fault fault,
                       bool cancels, bool parks)
{
    memset(s, 0, sizeof *s);
    place_init(&s->now);
    s->lives = lives;
    s->tokens = tokens;
    s->fault = fault;
    s->cancels = cancels;
    s->parks = parks;
    s->notices = cancels || parks;
    s->mask = ((uint64_t)1 << 21) - 1;
    s->seen = heap_alloc_zeroed(s->mask + 1, sizeof *s->seen);
    explore(s);
    heap_free(s->seen);
}

static void test_nothing_is_lost(void **state)
{
    (void)state;
    static _Alignas(CACHE_LINE) struct search s;
    static const char *const modes[] = {"", " with cancels", " with parking", " with both"};
    for (uint32_t i = 0; i < 3 * 4 * 4; i++) {
        uint32_t lives = 1 + i / 16, tokens = i / 4 % 4, mode = i % 4;
        if (mode > 0 && lives * tokens > (mode == 3 ? 1 : mode == 1 ? 3 : 4))
            continue; // skipped: millions of states and no new transitions
        search_run(&s, lives, tokens, FAULT_NONE, mode & 1, mode & 2);
        print_message("%u lives of %u tokens%s: %llu states\n", lives, tokens, modes[mode],
                      (unsigned long long)s.states);
        assert_int_equal(s.lost, 0);
        assert_int_equal(s.wrong, 0);
        assert_true(s.states > 20);
    }
}

static void test_faults_are_found(void **state)
{
    (void)state;
    static _Alignas(CACHE_LINE) struct search s;
    for (enum fault fault = FAULT_NO_SECOND_LOOK; fault < FAULT_COUNT; fault++) {
        bool parks = fault >= FAULT_PARKS, cancels = fault >= FAULT_CANCELS && !parks;
        search_run(&s, 2, cancels ? 1 : 3, fault, cancels, parks);
        print_message("fault %d: %u places lost, %u events wrong\n", fault, s.lost, s.wrong);
        assert_true(s.lost + s.wrong > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_faults_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
