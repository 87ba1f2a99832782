// SPDX-License-Identifier: Apache-2.0
// Reads vectors of mma and lays them out as fragments; see mma_vectors.h. One thread.
#include "tests/simt/mma_vectors.h"

// Reads the next word of the text, without comments, into word[24].
static bool word_next(FILE *from, char *word)
{
    while (fscanf(from, " %23s", word) == 1) {
        if (word[0] != '#')
            return true;
        for (int c = 0; c != '\n' && c != EOF;)
            c = fgetc(from);
    }
    return false;
}

// Reads a section: its name, then `count` hexadecimal words of `bytes` bytes each.
static bool section_read(FILE *from, const char *name, void *to, size_t count, size_t bytes)
{
    char word[24];
    if (!word_next(from, word) || strcmp(word, name) != 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        char *end;
        if (!word_next(from, word) || strlen(word) != 2 * bytes)
            return false;
        uint32_t value = (uint32_t)strtoul(word, &end, 16);
        if (*end != '\0')
            return false;
        uint16_t half = (uint16_t)value;
        memcpy((char *)to + i * bytes, bytes == 2 ? (const void *)&half : &value, bytes);
    }
    return true;
}

int mma_vector_read(FILE *from, struct mma_vector *out)
{
    char word[24];
    if (!word_next(from, word))
        return 0;
    if (strcmp(word, "vector") != 0 || !word_next(from, word))
        return -1;
    out->bf16 = strcmp(word, "bf16") == 0;
    if ((!out->bf16 && strcmp(word, "f16") != 0) || !word_next(from, out->name) ||
        !section_read(from, "a", out->a, 256, 2) || !section_read(from, "b", out->b, 128, 2) ||
        !section_read(from, "c", out->c, 128, 4))
        return -1;
    for (int i = 0; i < MMA_SUMS; i++)
        if (!section_read(from, mma_rules[i].name, out->want[i], 128, 4))
            return -1;
    return 1;
}

void mma_vector_put(const struct mma_vector *v, uint32_t *words)
{
    memset(words, 0, PROBE_WORDS * sizeof *words);
    for (int l = 0; l < 32; l++) {
        int r = l / 4, t = 2 * (l % 4);
        for (int i = 0; i < 4; i++) {
            const uint16_t *pair = &v->a[r + 8 * (i & 1)][t + 8 * (i >> 1)];
            words[4 * l + i] = pair[0] | (uint32_t)pair[1] << 16;
            words[256 + 4 * l + i] = v->c[r + 8 * (i >> 1)][t + (i & 1)];
        }
        for (int i = 0; i < 2; i++)
            words[128 + 2 * l + i] = v->b[t + 8 * i][r] | (uint32_t)v->b[t + 8 * i + 1][r] << 16;
    }
}

void mma_vector_take(const uint32_t *words, uint32_t result[16][8])
{
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++)
            result[l / 4 + 8 * (i >> 1)][2 * (l % 4) + (i & 1)] = words[4 * l + i];
}

static bool word_is_nan(uint32_t word)
{
    return (word & 0x7FFFFFFF) > 0x7F800000;
}

bool mma_word_fits(enum mma_sums sums, uint32_t want, uint32_t got)
{
    return want == got || (sums == MMA_ROUNDED && word_is_nan(want) && word_is_nan(got));
}
