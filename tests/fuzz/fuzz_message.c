// SPDX-License-Identifier: Apache-2.0
// libFuzzer: bytes as a message from another node. A HELLO is compared with facts, a LAUNCH is read
// as a batch; a batch that is accepted is written again as the same bytes.
#include "base/arena.h"
#include "cluster/message.h"
#include "runtime/model/batch_wire.h"
#include "tests/cluster/wire_facts.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void batch_fuzz(const struct node_message *m)
{
    struct error err;
    struct batch *batch = heap_alloc_zeroed(1, batch_bytes(&facts.limits));
    batch_init(batch, &facts.limits);
    if (batch_read(batch, &facts, m->at, m->bytes, &err) == STATUS_OK) {
        check(batch_wire_bytes(batch) == m->bytes, "%zu bytes", m->bytes);
        char *again = heap_alloc(m->bytes);
        batch_write(again, batch);
        check(memcmp(again, m->at, m->bytes) == 0, "a batch of %zu bytes changes", m->bytes);
        check(batch_mask_count(batch) <= facts.limits.rows_max, "a mask out of range");
        heap_free(again);
    }
    heap_free(batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct node_message m;
    struct error err;
    if (message_parse(&m, data, bytes, 3, 2, &err) != STATUS_OK)
        return 0;
    struct text sentence = message_sentence(&m);
    check(!memchr(sentence.at, '\n', sentence.bytes), "a sentence of two lines");
    if (m.head.kind == MESSAGE_HELLO) {
        struct facts own = {0};
        facts_add(&own, "weft", "1");
        facts_add(&own, "blocks", "7");
        enum status status = hello_compare(&own, 3, &m, "node 1", &err);
        check(status == STATUS_OK || !strchr(err.text, '\n'), "a sentence of two lines");
        facts_free(&own);
    }
    if (m.head.kind == MESSAGE_LAUNCH)
        batch_fuzz(&m);
    return 0;
}
