// SPDX-License-Identifier: Apache-2.0
// Encoding speed on one thread: bench_text FOLDER TEXTFILE [SECONDS]. The text is encoded line by
// line and as a whole; prints one JSON object. tools/bench_text.py compares it with another
// library.
#include "runtime/text/tokenizer.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>

struct work {
    const struct tokenizer *t;
    struct arena *arena;
    int32_t *tokens;
    uint32_t token_max;
    uint64_t token_count; // tokens of the last pass
};

static void text_encode(struct work *w, struct text text)
{
    struct error err;
    uint32_t count = 0;
    struct encode_args args = {
        .text = text, .flags = ENCODE_ADDED_TOKENS | ENCODE_SPECIAL, .arena = w->arena};
    enum status status = tokenizer_encode(w->t, &args, w->tokens, w->token_max, &count, &err);
    check(status == STATUS_OK, "%s", err.text);
    w->token_count += count;
    arena_reset(w->arena);
}

static void encode_lines(struct work *w, struct text text)
{
    while (text.bytes > 0) {
        const char *end = memchr(text.at, '\n', text.bytes);
        size_t bytes = end ? (size_t)(end + 1 - text.at) : text.bytes;
        text_encode(w, text_span(text.at, bytes));
        text = text_span(text.at + bytes, text.bytes - bytes);
    }
}

// Runs passes over the text for some seconds. Returns the rate of the best pass in MB/s.
static double encode_measure(struct work *w, struct text text, double seconds,
                             void (*pass)(struct work *, struct text))
{
    double best = 0, start = clock_s();
    do {
        double before = clock_s();
        w->token_count = 0;
        pass(w, text);
        double rate = (double)text.bytes / 1e6 / (clock_s() - before);
        best = rate > best ? rate : best;
    } while (clock_s() - start < seconds);
    return best;
}

int main(int argc, char **argv)
{
    struct error err;
    struct text text;
    struct arena *files = arena_create(0, 0);
    struct work w = {.arena = arena_create(1 << 20, 0)};
    struct tokenizer *t;
    double begin = clock_s();
    if (argc < 3 || tokenizer_open(&t, argv[1], &err) != STATUS_OK ||
        file_read(&text, files, argv[2], 1 << 30, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n",
                argc < 3 ? "usage: bench_text FOLDER TEXTFILE [SECONDS]" : err.text);
        return 2;
    }
    double open_seconds = clock_s() - begin;
    double seconds = argc > 3 ? atof(argv[3]) : 2;
    w.t = t;
    w.token_max = tokenizer_bound(t, text.bytes);
    w.tokens = heap_alloc(w.token_max * sizeof *w.tokens);
    double lines = encode_measure(&w, text, seconds, encode_lines);
    uint64_t line_tokens = w.token_count;
    double whole = encode_measure(&w, text, seconds, text_encode);
    printf("{\"open_seconds\":%.4f,\"bytes\":%zu,\"lines_mb_s\":%.2f,\"line_tokens\":%llu,"
           "\"whole_mb_s\":%.2f,\"whole_tokens\":%llu}\n",
           open_seconds, text.bytes, lines, (unsigned long long)line_tokens, whole,
           (unsigned long long)w.token_count);
    heap_free(w.tokens);
    tokenizer_close(t);
    arena_destroy(w.arena);
    arena_destroy(files);
    return 0;
}
