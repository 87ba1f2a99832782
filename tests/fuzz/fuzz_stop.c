// SPDX-License-Identifier: Apache-2.0
// Stop strings: the first bytes are strings and cuts, the rest is the text. Output and match are
// the same however the text is cut.
#include "http/api/choice.h"

#include "base/status.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { STRINGS_MAX = 4, PIECE_MAX = 256 };

struct result {
    char text[1 << 16];
    size_t bytes;
    bool found;
    uint32_t which;
};

static void add(struct result *r, struct text text)
{
    check(r->bytes + text.bytes <= sizeof r->text, "more text than there was");
    if (text.bytes > 0)
        memcpy(r->text + r->bytes, text.at, text.bytes);
    r->bytes += text.bytes;
}

static void feed(struct result *r, const struct stop_strings *stops, struct text text, size_t piece)
{
    struct arena *arena = arena_create(0, 0);
    struct stop_scan scan;
    r->bytes = 0;
    check(stop_scan_init(&scan, stops, arena, PIECE_MAX), "an arena without a limit is full");
    for (size_t at = 0, i = 0; at < text.bytes && !scan.found; i++) {
        size_t left = text.bytes - at, own = 1 + (piece * (i + 1)) % PIECE_MAX;
        own = own < left ? own : left;
        add(r, stop_scan_push(&scan, text_span(text.at + at, own), (uint32_t)i));
        at += own;
    }
    add(r, stop_scan_finish(&scan));
    r->found = scan.found;
    r->which = scan.found ? scan.which : 0;
    arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct result one, other;
    struct stop_strings stops = {0};
    size_t at = 2;
    if (bytes < at || bytes > sizeof one.text)
        return 0;
    stops.included = data[0] & 1;
    for (int i = 0; i <= data[0] >> 1 && i < STRINGS_MAX && at < bytes; i++) {
        size_t own = 1 + data[at] % 8, left = bytes - ++at;
        own = own < left ? own : left;
        if (own > 0)
            stops.strings[stops.count++] = text_span((const char *)data + at, own);
        at += own;
    }
    struct text text = text_span((const char *)data + at, bytes - at);
    feed(&one, &stops, text, 0); // byte by byte
    feed(&other, &stops, text, data[1]);
    check(one.bytes == other.bytes && memcmp(one.text, other.text, one.bytes) == 0,
          "the cuts change the text");
    check(one.found == other.found && one.which == other.which, "the cuts change the match");
    return 0;
}
