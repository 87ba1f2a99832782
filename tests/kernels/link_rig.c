// SPDX-License-Identifier: Apache-2.0
// See link_rig.h.
#include "tests/kernels/link_rig.h"

#include <stdlib.h>
#include <string.h>

static enum status rig_exchange(void *context, void *pieces, const size_t ends[RANKS_MAX])
{
    struct link_seat *seat = context;
    struct link_rig *rig = seat->rig;
    pthread_mutex_lock(&rig->lock);
    uint64_t round = rig->rounds;
    uint32_t side = round % 2; // the other side may still be read
    size_t first = seat->link.first > 0 ? ends[seat->link.first - 1] : 0, end = ends[seat->end - 1];
    size_t all = ends[seat->link.ranks - 1];
    if (rig->size[side] < all) {
        rig->bytes[side] = realloc(rig->bytes[side], all);
        rig->size[side] = all;
    }
    if (end > first)
        memcpy(rig->bytes[side] + first, (char *)pieces + first, end - first);
    if (++rig->arrived == rig->count) {
        rig->arrived = 0;
        rig->rounds++;
        pthread_cond_broadcast(&rig->moved);
    }
    while (rig->rounds == round && !rig->aborted)
        pthread_cond_wait(&rig->moved, &rig->lock);
    bool aborted = rig->aborted;
    if (!aborted && all > 0)
        memcpy(pieces, rig->bytes[side], all);
    pthread_mutex_unlock(&rig->lock);
    return aborted ? STATUS_DEVICE_FAULT : STATUS_OK;
}

static void rig_abort(void *context)
{
    struct link_rig *rig = ((struct link_seat *)context)->rig;
    pthread_mutex_lock(&rig->lock);
    rig->aborted = true;
    pthread_cond_broadcast(&rig->moved);
    pthread_mutex_unlock(&rig->lock);
}

static bool rig_failed(void *context, struct error *err)
{
    struct link_rig *rig = ((struct link_seat *)context)->rig;
    pthread_mutex_lock(&rig->lock);
    bool aborted = rig->aborted;
    pthread_mutex_unlock(&rig->lock);
    if (aborted)
        error_set(err, STATUS_DEVICE_FAULT, "another process is lost");
    return aborted;
}

void link_rig_open(struct link_rig *rig, uint32_t count, const uint32_t *ranks)
{
    *rig = (struct link_rig){.count = count};
    pthread_mutex_init(&rig->lock, NULL);
    pthread_cond_init(&rig->moved, NULL);
    uint32_t first = 0, all = 0;
    for (uint32_t i = 0; i < count; i++)
        all += ranks[i];
    for (uint32_t i = 0; i < count; first += ranks[i++]) {
        struct link_seat *seat = &rig->seats[i];
        *seat = (struct link_seat){.rig = rig, .end = first + ranks[i]};
        seat->link = (struct comm_link){seat, first, all, rig_exchange, rig_abort, rig_failed};
    }
}

void link_rig_close(struct link_rig *rig)
{
    pthread_cond_destroy(&rig->moved);
    pthread_mutex_destroy(&rig->lock);
    free(rig->bytes[0]);
    free(rig->bytes[1]);
}
