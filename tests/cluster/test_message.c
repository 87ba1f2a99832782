// SPDX-License-Identifier: Apache-2.0
// Messages between nodes: what is written can be read, anything else is refused in one sentence,
// and two nodes that differ are described by their first difference. Batches as bytes.
#include "base/arena.h"
#include "base/hash.h"
#include "cluster/message.h"
#include "runtime/model/batch_wire.h"
#include "tests/cluster/wire_facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

static void test_headers(void **state)
{
    (void)state;
    uint8_t bytes[16 + sizeof(struct hash)] = {0};
    struct node_message m;
    struct error err;
    message_head_write(bytes, MESSAGE_RESULT, 1, 2, 99);
    assert_int_equal(message_parse(&m, bytes, sizeof bytes, 2, 3, &err), STATUS_OK);
    assert_int_equal(m.head.kind, MESSAGE_RESULT);
    assert_int_equal(m.head.origin, 1);
    assert_int_equal(m.head.model, 2);
    assert_int_equal(m.head.number, 99);
    assert_ptr_equal(m.at, bytes + 16);
    assert_int_equal(m.bytes, sizeof(struct hash));
    assert_int_equal(message_parse(&m, bytes, 15, 2, 3, &err), STATUS_INVALID);
    assert_string_equal(err.text, "a message of 15 bytes has no header");
    assert_int_equal(message_parse(&m, bytes, 17, 2, 3, &err), STATUS_INVALID);
    assert_int_equal(message_parse(&m, bytes, sizeof bytes, 1, 3, &err), STATUS_INVALID);
    assert_int_equal(message_parse(&m, bytes, sizeof bytes, 2, 2, &err), STATUS_INVALID);
    assert_string_equal(err.text, "a message is of node 1 and model 2, of 2 and 2");
    bytes[4] = MESSAGE_KINDS;
    assert_int_equal(message_parse(&m, bytes, sizeof bytes, 2, 3, &err), STATUS_INVALID);
    bytes[4] = MESSAGE_PING; // has no payload
    assert_int_equal(message_parse(&m, bytes, sizeof bytes, 2, 3, &err), STATUS_INVALID);
    bytes[0] = 'W';
    assert_int_equal(message_parse(&m, bytes, 16, 2, 3, &err), STATUS_INVALID);
    assert_string_equal(err.text, "a message does not come from weft");
}

static void test_sentences_are_one_line(void **state)
{
    (void)state;
    struct node_message m = {.at = "the end", .bytes = 7};
    assert_true(text_is(message_sentence(&m), "the end"));
    m = (struct node_message){.at = "a\nb", .bytes = 3};
    assert_true(text_is(message_sentence(&m), "a sentence that is not plain text"));
    m = (struct node_message){.at = "\xff", .bytes = 1};
    assert_true(text_is(message_sentence(&m), "a sentence that is not plain text"));
}

struct hello {
    uint8_t bytes[4096];
    struct node_message message;
};

static void hello_make(struct hello *hello, uint32_t version, uint32_t nodes, const char *pairs,
                       size_t bytes)
{
    struct error err;
    struct hello_head head = {version, nodes};
    message_head_write(hello->bytes, MESSAGE_HELLO, 1, 0, 0);
    memcpy(hello->bytes + 16, &head, sizeof head);
    memcpy(hello->bytes + 16 + sizeof head, pairs, bytes);
    assert_int_equal(
        message_parse(&hello->message, hello->bytes, 16 + sizeof head + bytes, 2, 1, &err),
        STATUS_OK);
}

static void test_the_first_difference_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *theirs;
        size_t bytes;
        const char *text; // NULL: no difference
    } cases[] = {
        {"weft\0001\0blocks\0007\0", 16, NULL},
        {"weft\0002\0blocks\0008\0", 16,
         "node 1: weft is 2, on node 0 it is 1: start all nodes with the same options and the same "
         "files"},
        {"weft\0001\0blocks\0008\0", 16,
         "node 1: blocks is 8, on node 0 it is 7: start all nodes with the same options and the "
         "same files"},
        {"weft\0001\0length\0007\0", 16,
         "node 1 states 'length', node 0 'blocks': start all nodes with the same models and "
         "options"},
        {"weft\0001\0", 7, "node 1 states other facts than node 0"},
        {"weft\0001\0blocks\0007\0x", 17, "node 1 sends malformed facts"},
        {"weft\0001\0blocks\0007", 15, "node 1 states other facts than node 0"},
        {"we\nt\0001\0blocks\0007\0", 16, "node 1 states other facts than node 0"},
    };
    struct facts own = {0};
    struct hello hello;
    struct error err;
    facts_add(&own, "weft", "1");
    facts_add(&own, "blocks", "7");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hello_make(&hello, MESSAGE_VERSION, 2, cases[i].theirs, cases[i].bytes);
        enum status status = hello_compare(&own, 2, &hello.message, "node 1", &err);
        assert_int_equal(status, cases[i].text ? STATUS_INVALID : STATUS_OK);
        if (cases[i].text)
            assert_string_equal(err.text, cases[i].text);
    }
    hello_make(&hello, MESSAGE_VERSION + 1, 2, own.at, own.bytes);
    assert_int_equal(hello_compare(&own, 2, &hello.message, "node 1", &err), STATUS_INVALID);
    hello_make(&hello, MESSAGE_VERSION, 3, own.at, own.bytes);
    assert_int_equal(hello_compare(&own, 2, &hello.message, "node 1", &err), STATUS_INVALID);
    assert_string_equal(err.text, "node 1: --nnodes is 3, on node 0 it is 2: start all nodes with "
                                  "the same options");
    facts_free(&own);
}

static struct batch *batch_new(void)
{
    struct batch *batch = heap_alloc_zeroed(1, batch_bytes(&facts.limits));
    batch_init(batch, &facts.limits);
    return batch;
}

// A decode row, and a new sequence of three tokens with a history and a bias.
static struct batch *batch_sample(void)
{
    struct batch *b = batch_new();
    batch_clear(b, 7);
    batch_rows(b)[0] = (struct batch_row){1, 1, 9, BATCH_TOKEN_FED, STEP_NO_TYPE, WANT_TOKEN, 2, 0};
    batch_rows(b)[1] = (struct batch_row){3, 3, 3, 0, STEP_NO_TYPE, WANT_TOKEN, BATCH_NO_MASK, 0};
    for (int32_t i = 0; i < 3; i++)
        batch_history(b)[i] = batch_tokens(b)[i] = 97 + i;
    batch_changes(b)[0] = (struct batch_change){3, 0, 19};
    batch_new_sequences(b)[0] = (struct batch_new_sequence){
        3, 0, 2, 1, 0, {.top_p = 1, .bias_count = 1, .penalty_row = 1, .seed = 5}};
    batch_bias(b)[0] = (struct step_bias){4, 1.5f};
    b->row_count = 2;
    b->decode_count = b->change_count = b->new_sequence_count = b->bias_count = 1;
    b->token_count = b->history_count = 3;
    b->computed_count = 4;
    return b;
}

static void test_a_batch_is_read_as_written(void **state)
{
    (void)state;
    struct batch *in = batch_sample(), *out = batch_new();
    struct error err = {.text = ""};
    size_t bytes = batch_wire_bytes(in);
    char *wire = heap_alloc(bytes), *again = heap_alloc(bytes);
    assert_true(bytes <= batch_wire_bytes_max(&facts.limits));
    batch_write(wire, in);
    assert_int_equal(batch_read(out, &facts, wire, bytes, &err), STATUS_OK);
    assert_int_equal(out->step, 7);
    assert_int_equal(batch_mask_count(out), 3);
    assert_memory_equal(batch_rows(in), batch_rows(out), 2 * sizeof(struct batch_row));
    assert_int_equal(batch_bias(out)[0].token, 4);
    batch_write(again, out);
    assert_memory_equal(wire, again, bytes);
    for (size_t less = 0; less < bytes; less++) // a copy of that size: the sanitizer sees its end
    {
        char *cut = heap_alloc(less > 0 ? less : 1);
        memcpy(cut, wire, less);
        assert_int_equal(batch_read(out, &facts, cut, less, &err), STATUS_INVALID);
        heap_free(cut);
    }
    heap_free(wire);
    heap_free(again);
    heap_free(in);
    heap_free(out);
}

// Each line makes one number of the batch too large.
static void test_a_batch_out_of_range_is_refused(void **state)
{
    (void)state;
    struct batch *out = batch_new();
    struct error err;
#define BREAK(change)                                                                              \
    do {                                                                                           \
        struct batch *b = batch_sample();                                                          \
        change;                                                                                    \
        char *wire = heap_alloc(batch_wire_bytes(b));                                              \
        batch_write(wire, b);                                                                      \
        if (batch_read(out, &facts, wire, batch_wire_bytes(b), &err) != STATUS_INVALID)            \
            fail_msg("%s", #change);                                                               \
        heap_free(wire);                                                                           \
        heap_free(b);                                                                              \
    } while (0)
    BREAK(batch_rows(b)[1].slot = 4);
    BREAK(batch_rows(b)[1].q_len = 0);
    BREAK(batch_rows(b)[1].kv_len = 2);
    BREAK(batch_rows(b)[0].kv_len = 65);
    BREAK(batch_rows(b)[1].token_at = 1);
    BREAK(batch_rows(b)[1].token_at = BATCH_TOKEN_FED);
    BREAK(batch_rows(b)[0].want = WANT_NOTHING);
    BREAK(batch_rows(b)[1].want = WANT_VECTOR);
    BREAK(batch_rows(b)[0].mask = 4);
    BREAK(batch_rows(b)[1].pool = 3);
    BREAK(batch_rows(b)[0].q_len = 2);
    BREAK(b->computed_count = 5);
    BREAK(b->decode_count = 3);
    BREAK(b->row_count = 0);
    BREAK(batch_tokens(b)[2] = 100);
    BREAK(batch_tokens(b)[2] = -1);
    BREAK(batch_changes(b)[0].slot = 4);
    BREAK(batch_changes(b)[0].index = 4);
    BREAK(batch_changes(b)[0].block = 20);
    BREAK(batch_new_sequences(b)[0].slot = 4);
    BREAK(batch_new_sequences(b)[0].history_at = 1);
    BREAK(batch_new_sequences(b)[0].history_output = 0xFFFFFFFF);
    BREAK(batch_new_sequences(b)[0].bias_at = 1);
    BREAK(batch_new_sequences(b)[0].params.bias_count = 4);
    BREAK(batch_new_sequences(b)[0].params.flags = SAMPLE_PENALTY;
          batch_new_sequences(b)[0].params.penalty_row = 2);
    BREAK(batch_new_sequences(b)[0].params.top_logprobs = SAMPLE_TOP_MAX + 1);
    BREAK(batch_new_sequences(b)[0].params.stop_count = SAMPLE_STOP_IDS_MAX + 1);
#undef BREAK
    // counts beyond the limits, which no batch can hold
    struct batch *b = batch_sample();
    uint32_t counts[10];
    char wire[4096] = {0};
    batch_write(wire, b);
    for (int i = 0; i < 8; i++) {
        memcpy(counts, wire + 8, 8 * sizeof *counts);
        counts[i] = 0xFFFFFFFF;
        memcpy(wire + 8, counts, 8 * sizeof *counts);
        assert_int_equal(batch_read(out, &facts, wire, sizeof wire, &err), STATUS_INVALID);
        batch_write(wire, b);
    }
    heap_free(b);
    heap_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_sentences_are_one_line),
        cmocka_unit_test(test_the_first_difference_is_named),
        cmocka_unit_test(test_a_batch_is_read_as_written),
        cmocka_unit_test(test_a_batch_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
