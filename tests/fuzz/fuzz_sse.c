// SPDX-License-Identifier: Apache-2.0
// Streams that a server sends to the load generator: any bytes, cut at any place, give the same
// events and counts as in one piece, and end as an outcome. Events that are recognized by the form
// of an earlier one count as if each was parsed. The first byte selects the API and the size of the
// pieces.
#include "loadgen/reply.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct bench_histogram gaps;

// Reads the bytes in pieces of this size; learns: false if no form outlives a piece.
static struct bench_reply read_in(enum bench_api api, bool streamed, struct text in, size_t piece,
                                  bool learns)
{
    struct bench_reply r = {.api = api, .streamed = streamed, .gaps = &gaps};
    bench_reply_start(&r);
    for (size_t at = 0; at < in.bytes; at += piece) {
        size_t now = in.bytes - at < piece ? in.bytes - at : piece;
        char *copy = malloc(now); // its bounds are checked
        memcpy(copy, in.at + at, now);
        bool fits = bench_reply_feed(&r, text_span(copy, now), (double)at);
        free(copy);
        r.head.bytes = learns ? r.head.bytes : 0;
        check(fits, "%zu bytes are below the limit", in.bytes);
    }
    bench_reply_end(&r, (double)in.bytes);
    bench_reply_free(&r);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1)
        return 0;
    enum bench_api api = (enum bench_api)(data[0] % BENCH_API_COUNT);
    bool streamed = bench_api_generates(api) && data[0] < 192;
    struct text in = text_span((const char *)data + 1, bytes - 1);
    struct bench_reply whole = read_in(api, streamed, in, bytes, true);
    size_t piece = 1 + data[0] / BENCH_API_COUNT % 7;
    struct bench_reply parts = read_in(api, streamed, in, piece, piece > 1);
    check(whole.events == parts.events && whole.hash == parts.hash, "pieces change the events");
    check(whole.complete == parts.complete && whole.failed == parts.failed &&
              whole.malformed == parts.malformed,
          "pieces change the outcome");
    check(whole.input_tokens == parts.input_tokens && whole.output_tokens == parts.output_tokens,
          "pieces change the usage");
    return 0;
}
