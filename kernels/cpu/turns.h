// Device turns: streams that share a resource (the threads of a CPU device) use it one at a time,
// and the stream whose last turn is longest ago is next. A stream that announced another turn
// (`more`) is overdue when each of the k streams with work could have had a turn since its last
// one; the others then wait for it. So it gets at least one of every k + 1 turns, however late its
// thread wakes. (With plain order of arrival, a thread with long turns got one turn of six next to
// a thread with short turns: after a long turn the operating system prefers every other thread of
// the process.)
//
// Threads: different threads may use the members of one `turns`, but each member is used by one
// thread at a time.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct turns_member {
    struct turns_member *next;
    pthread_cond_t called;
    uint64_t last;  // `given` at the end of its last turn, or when it joined
    uint64_t taken; // number of turns so far
    bool waits;     // true while it waits in turns_take
    bool more;      // true if it announced another turn
};

struct turns {
    pthread_mutex_t lock;
    struct turns_member *members;
    struct turns_member *runs; // member whose turn it is, or NULL
    uint64_t given;            // number of turns that have ended, plus number of joins
};

void turns_open(struct turns *turns);
void turns_close(struct turns *turns); // after all members have left

void turns_join(struct turns *turns, struct turns_member *member);
void turns_leave(struct turns *turns, struct turns_member *member); // not during its turn

// Blocks until it is the member's turn; turns_give ends the turn.
void turns_take(struct turns *turns, struct turns_member *member);
void turns_give(struct turns *turns, struct turns_member *member);

// Announces whether the member will take another turn. Between two turns with `more` its thread
// must not block, because the other members may be waiting for it.
void turns_more(struct turns *turns, struct turns_member *member, bool more);
