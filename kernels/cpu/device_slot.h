// SPDX-License-Identifier: Apache-2.0
// The device slot: streams that share a resource (the threads of a CPU device) run steps one at a
// time; the stream that holds the slot runs, and of those that wait the one whose last step is
// longest ago is next. A stream that announced another step is overdue when each of the k streams
// with work could have held the slot since its last step; the others then wait for it. So it gets
// at least one of every k + 1 steps, however late its thread wakes. (With plain order of arrival, a
// thread with long steps got one step of six next to a thread with short steps: after a long step
// the operating system prefers every other thread of the process.)
//
// Threads: different threads may be users of one slot, but each user belongs to one thread at a
// time.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct device_slot_user {
    struct device_slot_user *next;
    pthread_cond_t granted; // signalled when this user becomes the holder
    uint64_t last;          // `finished` at its last release, or when it joined
    uint64_t acquired;      // number of times it held the slot
    bool waits;             // true while it waits in device_slot_acquire
    bool announced;         // true if it announced that it will acquire the slot again
};

struct device_slot {
    pthread_mutex_t lock;
    struct device_slot_user *users;
    struct device_slot_user *holder; // user that holds the slot, or NULL
    uint64_t finished;               // number of releases, plus number of joins
};

void device_slot_init(struct device_slot *slot);
void device_slot_deinit(struct device_slot *slot); // after all users have left

void device_slot_join(struct device_slot *slot, struct device_slot_user *user);
void device_slot_leave(struct device_slot *slot, struct device_slot_user *user); // not as holder

// Blocks until the user holds the slot; device_slot_release gives the slot to the next user.
void device_slot_acquire(struct device_slot *slot, struct device_slot_user *user);
void device_slot_release(struct device_slot *slot, struct device_slot_user *user);

// Announces whether the user will acquire the slot again. Between two steps with `more` its thread
// must not block, because the other users may be waiting for it.
void device_slot_announce(struct device_slot *slot, struct device_slot_user *user, bool more);
