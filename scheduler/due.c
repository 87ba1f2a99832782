// SPDX-License-Identifier: Apache-2.0
// The heap of due.h. Engine thread only.
#include "scheduler/due.h"

#include "base/status.h"
#include "scheduler/request.h"

static void entry_set(struct due_heap *heap, uint32_t at, struct due due)
{
    heap->entry[at] = due;
    due.request->run.due_index = at + 1;
}

// Moves `due` up or down from the free entry `at` to its position in the heap.
static void entry_settle(struct due_heap *heap, uint32_t at, struct due due)
{
    while (at > 0 && due.at_ns < heap->entry[(at - 1) / 2].at_ns) {
        entry_set(heap, at, heap->entry[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (uint32_t child = 2 * at + 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && heap->entry[child + 1].at_ns < heap->entry[child].at_ns)
            child++;
        if (due.at_ns <= heap->entry[child].at_ns)
            break;
        entry_set(heap, at, heap->entry[child]);
        at = child;
    }
    entry_set(heap, at, due);
}

void due_put(struct due_heap *heap, struct request *request, uint64_t at_ns)
{
    uint32_t place = request->run.due_index;
    uint32_t at = place > 0 ? place - 1 : heap->count++;
    entry_settle(heap, at, (struct due){at_ns, request});
}

void due_drop(struct due_heap *heap, struct request *request)
{
    uint32_t place = request->run.due_index;
    if (place == 0)
        return;
    check(heap->entry[place - 1].request == request, "place %u is another request's", place);
    request->run.due_index = 0;
    struct due last = heap->entry[--heap->count];
    if (last.request != request)
        entry_settle(heap, place - 1, last);
}
