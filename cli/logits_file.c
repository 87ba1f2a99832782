// SPDX-License-Identifier: Apache-2.0
// Writing, reading and comparing logits.
#include "cli/logits_file.h"

#include "base/arena.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char MAGIC[8] = "weftlog1";

// Returns the index of the largest logit, the first of equal ones.
static uint32_t best_token(const float *logits, uint32_t vocab)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

// Returns the logarithm of the sum of exp over the logits.
static double log_sum(const float *logits, uint32_t vocab, float top)
{
    double sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)(logits[i] - top));
    return log(sum) + (double)top;
}

static void logits_compare(struct logits_file *f, const float *logits)
{
    const float *other = f->row;
    uint32_t best = best_token(logits, f->vocab), other_best = best_token(other, f->vocab);
    double sum = log_sum(logits, f->vocab, logits[best]);
    double other_sum = log_sum(other, f->vocab, other[other_best]);
    double divergence = 0, difference = 0;
    for (uint32_t i = 0; i < f->vocab; i++) {
        double log_p = (double)other[i] - other_sum, log_q = (double)logits[i] - sum;
        divergence += exp(log_p) * (log_p - log_q);
        difference += fabs((double)logits[i] - (double)other[i]);
    }
    f->divergence += divergence;
    f->difference += difference / f->vocab;
    f->equal += best == other_best;
}

enum status logits_file_open(struct logits_file *f, const char *path, bool compares,
                             const struct logits_head *head, struct error *err)
{
    *f = (struct logits_file){.path = path, .compares = compares, .vocab = head->vocab};
    if (!path)
        return STATUS_OK;
    f->file = fopen(path, compares ? "re" : "we");
    if (!f->file)
        return error_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path,
                         strerror(errno));
    struct logits_head mine = *head, theirs;
    memcpy(mine.magic, MAGIC, sizeof mine.magic);
    mine.zero = 0;
    if (!compares) {
        if (fwrite(&mine, sizeof mine, 1, f->file) != 1)
            return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
        return STATUS_OK;
    }
    f->row = heap_alloc(f->vocab * sizeof *f->row);
    if (fread(&theirs, sizeof theirs, 1, f->file) != 1 ||
        memcmp(theirs.magic, MAGIC, sizeof MAGIC) != 0)
        return error_set(err, STATUS_INVALID,
                         "%s has no logits; 'weft perplexity --write-logits' writes such a file",
                         path);
    if (memcmp(&theirs, &mine, sizeof mine) != 0)
        return error_set(err, STATUS_INVALID,
                         "%s was written with vocabulary %u, window %u, stride %u; here they are "
                         "%u, %u and %u",
                         path, theirs.vocab, theirs.window, theirs.stride, mine.vocab, mine.window,
                         mine.stride);
    return STATUS_OK;
}

enum status logits_file_add(struct logits_file *f, int32_t token, const float *logits,
                            struct error *err)
{
    if (!f->path)
        return STATUS_OK;
    f->count++;
    if (!f->compares) {
        if (fwrite(&token, sizeof token, 1, f->file) != 1 ||
            fwrite(logits, sizeof *logits, f->vocab, f->file) != f->vocab)
            return error_set(err, STATUS_IO, "%s: %s", f->path, strerror(errno));
        return STATUS_OK;
    }
    int32_t other = 0;
    if (fread(&other, sizeof other, 1, f->file) != 1 ||
        fread(f->row, sizeof *f->row, f->vocab, f->file) != f->vocab)
        return error_set(err, STATUS_INVALID, "%s ends after %llu tokens; the text has more",
                         f->path, (unsigned long long)f->count - 1);
    if (other != token)
        return error_set(err, STATUS_INVALID, "%s has logits of another text: token %llu differs",
                         f->path, (unsigned long long)f->count);
    logits_compare(f, logits);
    return STATUS_OK;
}

enum status logits_file_close(struct logits_file *f, enum status so_far, struct error *err)
{
    if (!f->file)
        return so_far;
    bool more = f->compares && so_far == STATUS_OK && fgetc(f->file) != EOF;
    bool failed = fclose(f->file) != 0;
    heap_free(f->row);
    f->file = NULL;
    if (so_far == STATUS_OK && failed && !f->compares)
        return error_set(err, STATUS_IO, "%s: %s", f->path, strerror(errno));
    if (more)
        return error_set(err, STATUS_INVALID, "%s has logits of more tokens than the text",
                         f->path);
    return so_far;
}
