// SPDX-License-Identifier: Apache-2.0
// Finds names that are similar to a mistyped one; see near.h. Pure.
#include "cli/near.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

enum { LETTERS_MAX = 63, EDITS_MAX = 2 };

// Returns the Levenshtein distance; UINT32_MAX if a name is too long.
static uint32_t edits_between(const char *from, const char *to)
{
    size_t rows = strlen(from), columns = strlen(to);
    // [c]: distance between the first r letters of `from` and the first c of `to`
    uint32_t edits[LETTERS_MAX + 1];
    if (rows > LETTERS_MAX || columns > LETTERS_MAX)
        return UINT32_MAX;
    for (uint32_t c = 0; c <= columns; c++)
        edits[c] = c;
    for (uint32_t r = 1; r <= rows; r++) {
        uint32_t diagonal = edits[0];
        edits[0] = r;
        for (uint32_t c = 1; c <= columns; c++) {
            uint32_t replaced = diagonal + (from[r - 1] != to[c - 1]);
            diagonal = edits[c];
            edits[c] = smaller(smaller(edits[c] + 1, edits[c - 1] + 1), replaced);
        }
    }
    return edits[columns];
}

void near_offer(struct near *near, const char *name)
{
    uint32_t edits = edits_between(near->given, name);
    if (edits > EDITS_MAX || edits >= strlen(near->given) || (near->name && edits >= near->edits))
        return;
    near->name = name;
    near->edits = edits;
}

struct near_text near_text(const struct near *near, const char *dashes)
{
    struct near_text out = {""};
    if (near->name)
        snprintf(out.at, sizeof out.at, ", did you mean '%s%s'?", dashes, near->name);
    return out;
}
