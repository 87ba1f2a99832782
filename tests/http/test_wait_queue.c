// SPDX-License-Identifier: Apache-2.0
// The order of a queue, removal from its middle, and the rounds of keys.
#include "http/wait_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ITEMS = 8 };

static struct wait_queue queue;
static struct wait_item items[ITEMS];

static int clear(void **state)
{
    (void)state;
    memset(&queue, 0, sizeof queue);
    memset(items, 0, sizeof items);
    return 0;
}

// Compares the indices of the queued items, in both directions.
static void order_is(const char *wanted)
{
    char forward[ITEMS + 1] = "", backward[ITEMS + 1] = "";
    size_t count = strlen(wanted), n = 0;
    assert_int_equal(queue.count, count);
    for (struct wait_item *at = queue.first; at && n < ITEMS; at = at->after)
        forward[n++] = (char)('0' + (at - items));
    for (struct wait_item *at = queue.last; at && n > 0; at = at->before)
        backward[--n] = (char)('0' + (at - items));
    assert_string_equal(forward, wanted);
    assert_string_equal(backward, wanted);
}

static void test_the_lowest_rank_is_first(void **state)
{
    static const uint64_t ranks[] = {3, 1, 3, 2, 0, 1};
    (void)state;
    for (int i = 0; i < 6; i++)
        wait_push(&queue, &items[i], ranks[i]);
    order_is("415302"); // equal ranks in order of arrival
}

static void test_items_leave_from_every_place(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        wait_push(&queue, &items[i], 0);
    wait_remove(&items[2]);
    order_is("0134");
    wait_remove(&items[0]);
    order_is("134");
    wait_remove(&items[4]);
    order_is("13");
    assert_null(items[4].queue);
    assert_ptr_equal(items[1].queue, &queue);
    wait_remove(&items[1]);
    wait_remove(&items[3]);
    order_is("");
    wait_push(&queue, &items[2], 7);
    order_is("2");
}

static void test_an_item_has_the_place_of_another(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        wait_push(&queue, &items[i], (uint64_t)i);
    wait_insert(&queue, &items[3], &items[0], 1);
    order_is("0312");
    wait_insert(&queue, &items[4], NULL, 0);
    order_is("40312");
    wait_insert(&queue, &items[5], &items[2], 2);
    order_is("403125");
}

static void push_of(const struct wait_rounds *rounds, int index, uint32_t key)
{
    items[index].key = key;
    wait_push(&queue, &items[index], wait_rounds_rank(rounds, &queue, key));
}

static struct wait_item *begin_first(struct wait_rounds *rounds)
{
    struct wait_item *item = queue.first;
    wait_remove(item);
    wait_rounds_begin(rounds, item);
    return item;
}

// A key with many items delays another key by at most one item.
static void test_keys_take_rounds(void **state)
{
    struct wait_rounds rounds = {0};
    (void)state;
    for (int i = 0; i < 4; i++)
        push_of(&rounds, i, 7);
    push_of(&rounds, 4, 8);
    order_is("04123");
    assert_ptr_equal(begin_first(&rounds), &items[0]);
    push_of(&rounds, 5, 8);
    push_of(&rounds, 6, 9); // a new key joins the current round
    order_is("461523");
    for (int i = 0; i < 5; i++)
        begin_first(&rounds);
    order_is("3");
    push_of(&rounds, 7, 7);
    order_is("37");
}

#define TEST(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_lowest_rank_is_first),
        TEST(test_items_leave_from_every_place),
        TEST(test_an_item_has_the_place_of_another),
        TEST(test_keys_take_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
