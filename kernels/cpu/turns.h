// Turns on a resource that streams share (the threads of a CPU device): one at a time, the stream
// whose last turn is longest ago first. A stream that announced another turn (`more`) is waited for
// once it is overdue, which is when each of the k streams with work could have had a turn since its
// last one. So it gets at least one of every k + 1 turns, however late its thread wakes. (In order
// of arrival alone, a thread with long turns got one turn of six beside one with short turns: after
// a long turn the system prefers every other thread of the process.)
//
// Threads: members of one `turns` may be used by different threads, each member by one at a time.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct turns_member {
    struct turns_member *next;
    pthread_cond_t called;
    uint64_t last;  // number of its last turn, or the number when it joined
    uint64_t taken; // turns so far
    bool waits;     // in turns_take
    bool more;      // announced another turn: it is waited for
};

struct turns {
    pthread_mutex_t lock;
    struct turns_member *members;
    struct turns_member *runs; // whose turn it is
    uint64_t given;            // turns that have ended, and joins
};

void turns_open(struct turns *turns);
void turns_close(struct turns *turns); // all members have left

void turns_join(struct turns *turns, struct turns_member *member);
void turns_leave(struct turns *turns, struct turns_member *member); // not during its turn

// Waits for the member's turn.
void turns_take(struct turns *turns, struct turns_member *member);
void turns_give(struct turns *turns, struct turns_member *member);

// Whether the member goes on taking turns. Between two turns with `more` its thread must not wait
// for anything: the others may be waiting for it.
void turns_more(struct turns *turns, struct turns_member *member, bool more);
