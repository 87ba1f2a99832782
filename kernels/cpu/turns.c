// Device turns; see turns.h. The age of a member is the number of turns since its last turn, or
// since it joined. All ages differ, so with k members that have work, a member that reaches age k
// is next: no age exceeds k.
#include "kernels/cpu/turns.h"

#include <stddef.h>

void turns_open(struct turns *turns)
{
    *turns = (struct turns){.members = NULL};
    pthread_mutex_init(&turns->lock, NULL);
}

void turns_close(struct turns *turns)
{
    pthread_mutex_destroy(&turns->lock);
}

void turns_join(struct turns *turns, struct turns_member *member)
{
    *member = (struct turns_member){.next = NULL};
    pthread_cond_init(&member->called, NULL);
    pthread_mutex_lock(&turns->lock);
    member->last = ++turns->given; // joining counts as a turn, so that no two ages are equal
    member->next = turns->members;
    turns->members = member;
    pthread_mutex_unlock(&turns->lock);
}

// Starts the next turn if it can begin. The next member is the one whose last turn is longest ago,
// of those that wait and those that are overdue; an overdue member that does not wait yet keeps the
// others waiting. The caller holds the lock.
static void turns_call(struct turns *turns)
{
    if (turns->runs)
        return;
    uint64_t busy = 0;
    for (const struct turns_member *m = turns->members; m; m = m->next)
        busy += m->waits || m->more;
    struct turns_member *first = NULL;
    for (struct turns_member *m = turns->members; m; m = m->next) {
        bool overdue = m->more && turns->given - m->last >= busy;
        if ((m->waits || overdue) && (!first || m->last < first->last))
            first = m;
    }
    if (!first || !first->waits)
        return;
    turns->runs = first;
    first->waits = false;
    pthread_cond_signal(&first->called);
}

void turns_leave(struct turns *turns, struct turns_member *member)
{
    pthread_mutex_lock(&turns->lock);
    struct turns_member **at = &turns->members;
    while (*at != member)
        at = &(*at)->next;
    *at = member->next;
    turns_call(turns);
    pthread_mutex_unlock(&turns->lock);
    pthread_cond_destroy(&member->called);
}

void turns_take(struct turns *turns, struct turns_member *member)
{
    pthread_mutex_lock(&turns->lock);
    member->waits = true;
    turns_call(turns);
    while (turns->runs != member)
        pthread_cond_wait(&member->called, &turns->lock);
    member->taken++;
    pthread_mutex_unlock(&turns->lock);
}

void turns_give(struct turns *turns, struct turns_member *member)
{
    pthread_mutex_lock(&turns->lock);
    turns->runs = NULL;
    member->last = ++turns->given;
    turns_call(turns);
    pthread_mutex_unlock(&turns->lock);
}

void turns_more(struct turns *turns, struct turns_member *member, bool more)
{
    pthread_mutex_lock(&turns->lock);
    member->more = more;
    turns_call(turns);
    pthread_mutex_unlock(&turns->lock);
}
