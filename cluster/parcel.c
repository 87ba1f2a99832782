// SPDX-License-Identifier: Apache-2.0
// See parcel.h.
#include "cluster/parcel.h"

#include "base/arena.h"

void parcels_push(struct parcels *q, struct parcel *parcel)
{
    parcel->next = NULL;
    if (!q->first)
        q->end = &q->first;
    *q->end = parcel;
    q->end = &parcel->next;
    q->count++;
}

struct parcel *parcels_pop(struct parcels *q)
{
    struct parcel *parcel = q->first;
    if (parcel) {
        q->first = parcel->next;
        q->count--;
    }
    return parcel;
}

void parcel_free(struct parcel *parcel)
{
    if (parcel)
        zmq_msg_close(&parcel->frame);
    heap_free(parcel);
}

void parcels_clear(struct parcels *q)
{
    for (struct parcel *parcel; (parcel = parcels_pop(q));)
        parcel_free(parcel);
}
