// SPDX-License-Identifier: Apache-2.0
// The names of enum device_way.
#include "bench/ways.h"

#include "kernels/ways.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum device_way way;
} names[] = {{"carveouts", WAY_CARVEOUTS},       {"sectors", WAY_SECTORS},
             {"one-communicator", WAY_ONE_COMM}, {"round-apart", WAY_ROUND_APART},
             {"no-windows", WAY_NO_WINDOWS},     {"no-meets", WAY_NO_MEETS},
             {"one-reader", WAY_ONE_READER}};

enum { COUNT = sizeof names / sizeof names[0] };

static bool way_read(const char *name, size_t length, uint32_t *ways)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strlen(names[i].name) == length && memcmp(names[i].name, name, length) == 0) {
            *ways |= names[i].way;
            return true;
        }
    printf("no way is named '%.*s'; there are", (int)length, name);
    for (size_t i = 0; i < COUNT; i++)
        printf(" %s", names[i].name);
    printf("\n");
    return false;
}

bool ways_read(const char *list, uint32_t *ways)
{
    *ways = 0;
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (!way_read(list, length, ways))
            return false;
    }
    return true;
}
