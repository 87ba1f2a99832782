// SPDX-License-Identifier: Apache-2.0
// Records the bytes of global memory that a launch reads through the texture cache (ld.global.nc),
// and those it writes: a byte in both sets is undefined on a card, because that cache does not see
// writes.
#include "tests/ptx/internal.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, FIRST_ROOM = 64 };

struct page {
    uint64_t number;             // address / PAGE + 1; 0: free entry
    uint64_t used[2][PAGE / 64]; // a bit per byte
};

struct ptx_readonly {
    struct page *pages; // hash table with open addressing
    uint32_t room, count;
    struct page *last;
};

struct ptx_readonly *ptx_readonly_new(void)
{
    struct ptx_readonly *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    return r;
}

void ptx_readonly_free(struct ptx_readonly *r)
{
    free(r->pages);
    free(r);
}

static struct page *place_of(const struct ptx_readonly *r, uint64_t number)
{
    uint32_t at = (uint32_t)(number * 0x9E3779B97F4A7C15u >> 32) & (r->room - 1);
    while (r->pages[at].number != 0 && r->pages[at].number != number)
        at = (at + 1) & (r->room - 1);
    return &r->pages[at];
}

static void grow(struct ptx_readonly *r)
{
    struct ptx_readonly old = *r;
    r->room = old.room != 0 ? 2 * old.room : FIRST_ROOM;
    r->pages = calloc(r->room, sizeof *r->pages);
    if (!r->pages)
        abort();
    for (uint32_t n = 0; n < old.room; n++)
        if (old.pages[n].number != 0)
            *place_of(r, old.pages[n].number) = old.pages[n];
    free(old.pages);
    r->last = NULL;
}

static struct page *page_of(struct ptx_readonly *r, uint64_t number)
{
    if (r->last && r->last->number == number)
        return r->last;
    if (2 * (r->count + 1) > r->room)
        grow(r);
    struct page *page = place_of(r, number);
    if (page->number == 0) {
        page->number = number;
        r->count++;
    }
    return r->last = page;
}

bool ptx_readonly_use(struct ptx_readonly *r, uint64_t at, uint32_t bytes, bool write)
{
    // aligned and up to 32 bytes, so within one 64-bit word
    struct page *page = page_of(r, at / PAGE + 1);
    uint64_t mask = ((UINT64_C(1) << bytes) - 1) << at % 64;
    page->used[write][at % PAGE / 64] |= mask;
    return (page->used[!write][at % PAGE / 64] & mask) == 0;
}
