// SPDX-License-Identifier: Apache-2.0
// The file of choices: a head that names card, driver and library, then one record per choice. A
// damaged or foreign file is reported once and rebuilt from its valid records. A writer first
// merges what others have added, writes a new file and renames it, so that no reader sees an
// incomplete file. If two processes write at the same moment, one may lose its newest choice, which
// is then made again.
#include "kernels/cuda/blas.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CACHE_VERSION = 5 };

struct cache_head {
    char magic[8];
    uint32_t version, record_bytes;
    char identity[sizeof((struct blas *)NULL)->identity];
};

static uint64_t record_sum(const struct tuned_choice *record)
{
    const unsigned char *bytes = (const unsigned char *)record;
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < offsetof(struct tuned_choice, sum); i++)
        sum = (sum ^ bytes[i]) * 1099511628211u;
    return sum;
}

const struct tuned_choice *tuned_find(const struct blas *blas, const struct plan_key *key)
{
    for (uint32_t i = 0; i < blas->tuned_count; i++)
        if (memcmp(&blas->tuned[i].key, key, sizeof *key) == 0)
            return &blas->tuned[i];
    return NULL;
}

static struct cache_head head_of(const struct blas *blas)
{
    struct cache_head head;
    memset(&head, 0, sizeof head);
    memcpy(head.magic, "weftprod", sizeof head.magic);
    head.version = CACHE_VERSION;
    head.record_bytes = sizeof(struct tuned_choice);
    memcpy(head.identity, blas->identity, sizeof head.identity);
    return head;
}

// Adds the file's records to those in memory. Returns NULL, or a text on what is wrong with the
// file.
static const char *file_read(struct blas *blas)
{
    FILE *file = fopen(blas->cache, "rb");
    if (!file)
        return NULL; // there is no file yet
    const char *wrong = NULL;
    struct cache_head head;
    struct cache_head want = head_of(blas);
    struct tuned_choice record;
    size_t got = fread(&head, 1, sizeof head, file);
    if (got != sizeof head)
        wrong = "it is too short";
    else if (memcmp(&head, &want, sizeof head) != 0)
        wrong = "it is of another version, card, driver or library";
    while (!wrong && (got = fread(&record, 1, sizeof record, file)) != 0)
        if (got != sizeof record)
            wrong = "its last record is cut off";
        else if (record.sum != record_sum(&record) || record.choice.by >= PRODUCT_BY_COUNT ||
                 record.choice.workspace > BLAS_WORKSPACE)
            wrong = "a record is damaged";
        else if (blas->tuned_count < TUNED_MAX && !tuned_find(blas, &record.key))
            blas->tuned[blas->tuned_count++] = record;
    (void)fclose(file);
    return wrong;
}

// Writes the file. Errors are ignored: later starts are only slower.
static void file_write(const struct blas *blas)
{
    char temporary[sizeof blas->cache + 8];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", blas->cache);
    int fd = mkstemp(temporary);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!file) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    struct cache_head head = head_of(blas);
    bool written =
        fwrite(&head, sizeof head, 1, file) == 1 &&
        fwrite(blas->tuned, sizeof *blas->tuned, blas->tuned_count, file) == blas->tuned_count;
    if (fclose(file) != 0 || !written || rename(temporary, blas->cache) != 0)
        (void)unlink(temporary);
}

void tuned_read(struct blas *blas, const struct device *device)
{
    if (!device->options.cache_folder)
        return;
    int driver = 0;
    (void)call_status(cudaDriverGetVersion(&driver));
    snprintf(blas->identity, sizeof blas->identity, "%s-%u-%d-%zu", device->name,
             device->processors, driver, cublasLtGetVersion());
    char name[sizeof blas->identity];
    memcpy(name, blas->identity, sizeof name);
    for (char *c = name; *c != 0; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '-';
    snprintf(blas->cache, sizeof blas->cache, "%.300s/products-%s.bin",
             device->options.cache_folder, name);
    const char *wrong = file_read(blas);
    if (!wrong)
        return;
    char line[sizeof blas->cache + 128];
    snprintf(line, sizeof line, "%s: %s; keeps %u tuned products, times the others again",
             blas->cache, wrong, blas->tuned_count);
    if (device->options.note)
        device->options.note(device->options.index, line);
    file_write(blas);
}

void tuned_add(struct blas *blas, const struct plan_key *key, const struct blas_plan *plan)
{
    struct tuned_choice record;
    memset(&record, 0, sizeof record);
    record.key = *key;
    record.choice = plan->choice;
    record.sum = record_sum(&record);
    if (blas->cache[0] != 0)
        (void)file_read(blas); // another process may have made the same choice; either is fine
    if (blas->tuned_count < TUNED_MAX && !tuned_find(blas, key))
        blas->tuned[blas->tuned_count++] = record;
    if (blas->cache[0] != 0)
        file_write(blas);
}
