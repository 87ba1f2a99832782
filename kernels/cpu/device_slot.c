// SPDX-License-Identifier: Apache-2.0
// The device slot; see device_slot.h. The age of a user is the number of releases since its last
// one, or since it joined. All ages differ, so with k users that have work, a user that reaches
// age k is next: no age exceeds k.
#include "kernels/cpu/device_slot.h"

#include <stddef.h>

void device_slot_init(struct device_slot *slot)
{
    *slot = (struct device_slot){.users = NULL};
    pthread_mutex_init(&slot->lock, NULL);
}

void device_slot_deinit(struct device_slot *slot)
{
    pthread_mutex_destroy(&slot->lock);
}

void device_slot_join(struct device_slot *slot, struct device_slot_user *user)
{
    *user = (struct device_slot_user){.next = NULL};
    pthread_cond_init(&user->granted, NULL);
    pthread_mutex_lock(&slot->lock);
    user->last = ++slot->finished; // joining counts as a release, so that no two ages are equal
    user->next = slot->users;
    slot->users = user;
    pthread_mutex_unlock(&slot->lock);
}

// Makes the next user the holder if the slot is free. The next user is the one whose last step is
// longest ago, of those that wait and those that are overdue; an overdue user that does not wait
// yet keeps the others waiting. The caller holds the lock.
static void device_slot_grant(struct device_slot *slot)
{
    if (slot->holder)
        return;
    uint64_t busy = 0;
    for (const struct device_slot_user *u = slot->users; u; u = u->next)
        busy += u->waits || u->announced;
    struct device_slot_user *first = NULL;
    for (struct device_slot_user *u = slot->users; u; u = u->next) {
        bool overdue = u->announced && slot->finished - u->last >= busy;
        if ((u->waits || overdue) && (!first || u->last < first->last))
            first = u;
    }
    if (!first || !first->waits)
        return;
    slot->holder = first;
    first->waits = false;
    pthread_cond_signal(&first->granted);
}

void device_slot_leave(struct device_slot *slot, struct device_slot_user *user)
{
    pthread_mutex_lock(&slot->lock);
    struct device_slot_user **at = &slot->users;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
    device_slot_grant(slot);
    pthread_mutex_unlock(&slot->lock);
    pthread_cond_destroy(&user->granted);
}

void device_slot_acquire(struct device_slot *slot, struct device_slot_user *user)
{
    pthread_mutex_lock(&slot->lock);
    user->waits = true;
    device_slot_grant(slot);
    while (slot->holder != user)
        pthread_cond_wait(&user->granted, &slot->lock);
    user->acquired++;
    pthread_mutex_unlock(&slot->lock);
}

void device_slot_release(struct device_slot *slot, struct device_slot_user *user)
{
    pthread_mutex_lock(&slot->lock);
    slot->holder = NULL;
    user->last = ++slot->finished;
    device_slot_grant(slot);
    pthread_mutex_unlock(&slot->lock);
}

void device_slot_announce(struct device_slot *slot, struct device_slot_user *user, bool more)
{
    pthread_mutex_lock(&slot->lock);
    user->announced = more;
    device_slot_grant(slot);
    pthread_mutex_unlock(&slot->lock);
}
