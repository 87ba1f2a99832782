// SPDX-License-Identifier: Apache-2.0
// Doubly linked lists through fields of their items: `first` and `last` are the ends, `next` and
// `previous` the items' fields. An item may be in several lists through different fields.
#pragma once

#include <stddef.h>

#define LIST_APPEND(first, last, item, next, previous)                                             \
    do {                                                                                           \
        (item)->previous = (last);                                                                 \
        (item)->next = NULL;                                                                       \
        *((last) ? &(last)->next : &(first)) = (item);                                             \
        (last) = (item);                                                                           \
    } while (0)

#define LIST_REMOVE(first, last, item, next, previous)                                             \
    do {                                                                                           \
        *((item)->previous ? &(item)->previous->next : &(first)) = (item)->next;                   \
        *((item)->next ? &(item)->next->previous : &(last)) = (item)->previous;                    \
    } while (0)
