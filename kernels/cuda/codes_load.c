// SPDX-License-Identifier: Apache-2.0
// Loads codes of a checkpoint: bands of rows are gathered from the mapped file into a staging
// buffer, in the order of the file, and a kernel stores them in the order of codes.h. A band has
// complete heads if the file has rows of heads in pairs, because the kernel finds its rows within
// the band. Called by the loading thread.
#include "kernels/cuda/loader.h"

#include <string.h>

enum { BAND_ALIGN = 16 }; // the arrays of a band begin at multiples of this

// Runs of bytes at equal distances in the file.
struct runs {
    const char *from;
    size_t step, bytes, count;
};

// A source, and its place in the tensor.
struct codes_source {
    const struct weight_source *source;
    const struct weight_format_facts *facts;
    uint32_t stride, column; // columns of the tensor; the source's first
    uint64_t top;            // rows of the tensor before the source's first
    uint32_t groups;         // scales of a row
};

static struct codes_source source_of(const struct weight_source *source)
{
    struct codes_source s = {.source = source, .facts = weight_format_facts(source->format)};
    s.stride = source->stride > 0 ? source->stride : source->cols;
    s.column = (uint32_t)(source->first % s.stride);
    s.top = source->first / s.stride;
    if (source->int4)
        s.groups = (s.column + source->cols - 1) / source->int4->group -
                   s.column / source->int4->group + 1;
    return s;
}

static size_t scale_bytes(const struct weight_int4 *m)
{
    return m->e2m1 ? 1 : dtype_bytes(m->scale_dtype);
}

// Lists the codes, scales and zero points of rows [first, end) of the file.
static void runs_list(struct runs out[3], const struct codes_source *s, uint64_t first,
                      uint64_t end)
{
    const struct weight_int4 *m = s->source->int4;
    size_t rows = (size_t)(end - first), cols = s->source->cols;
    memset(out, 0, 3 * sizeof *out);
    if (!m) {
        size_t row = (size_t)s->stride / s->facts->elements * s->facts->bytes;
        size_t at = (size_t)s->column / s->facts->elements * s->facts->bytes;
        out[0] = (struct runs){(const char *)s->source->map + first * row + at, row,
                               cols / s->facts->elements * s->facts->bytes, rows};
        return;
    }
    const char *codes = m->codes, *scales = m->scales;
    size_t each = scale_bytes(m), group = s->column / m->group;
    size_t all = (m->k + m->group - 1) / m->group, words = (m->n + 7) / 8;
    size_t word = (size_t)first / 8, band_words = (rows + 7) / 8;
    bool by_row = m->order == INT4_BY_ROW;
    if (by_row)
        out[0] =
            (struct runs){codes + first * (m->k / 2) + s->column / 2, m->k / 2, cols / 2, rows};
    else if (m->order == INT4_AWQ)
        out[0] = (struct runs){codes + ((size_t)s->column * words + word) * 4, words * 4,
                               band_words * 4, cols};
    else
        out[0] = (struct runs){codes + ((size_t)(s->column / 8) * m->n + first) * 4,
                               (size_t)m->n * 4, rows * 4, cols / 8};
    if (by_row)
        out[1] = (struct runs){scales + (first * all + group) * each, all * each, s->groups * each,
                               rows};
    else
        out[1] = (struct runs){scales + (group * m->n + first) * each, m->n * each, rows * each,
                               s->groups};
    if (m->zeros && by_row)
        out[2] = (struct runs){(const char *)m->zeros + (word * all + group) * 4, all * 4,
                               s->groups * (size_t)4, band_words};
    else if (m->zeros)
        out[2] = (struct runs){(const char *)m->zeros + (group * words + word) * 4, words * 4,
                               band_words * 4, s->groups};
}

// Returns the size of the runs in a staging buffer.
static size_t runs_bytes(const struct runs *r)
{
    return (r->bytes * r->count + BAND_ALIGN - 1) / BAND_ALIGN * BAND_ALIGN;
}

static size_t band_bytes(const struct codes_source *s, uint64_t first, uint64_t end)
{
    struct runs runs[3];
    runs_list(runs, s, first, end);
    return runs_bytes(&runs[0]) + runs_bytes(&runs[1]) + runs_bytes(&runs[2]) +
           (size_t)(end - first) * sizeof(uint32_t);
}

// Runs that the readers copy to a staging buffer, and their offsets in it.
struct band_copy {
    struct runs runs[3];
    char *host;
    size_t at[4];
};

static void runs_part(void *context, uint32_t part, uint32_t parts)
{
    const struct band_copy *c = context;
    for (int k = 0; k < 3; k++) {
        const struct runs *r = &c->runs[k];
        size_t end = r->count * (part + 1) / parts;
        for (size_t i = r->count * part / parts; i < end; i++)
            memcpy(c->host + c->at[k] + i * r->bytes, r->from + i * r->step, r->bytes);
    }
}

// Loads rows [begin, begin + count) of the source from rows [first, end) of the file.
static enum status band_load(struct device *device, const struct codes_source *s,
                             struct codes_band *band, uint32_t begin, uint64_t first, uint64_t end)
{
    const struct weight_source *source = s->source;
    struct band_copy copy = {0};
    size_t *at = copy.at;
    char *staged;
    enum status status = loader_buffer(device, &copy.host);
    if (status != STATUS_OK)
        return status;
    runs_list(copy.runs, s, first, end);
    for (int i = 0; i < 3; i++)
        at[i + 1] = at[i] + runs_bytes(&copy.runs[i]);
    loader_read(device, at[3], runs_part, &copy);
    uint32_t *row = (uint32_t *)(void *)(copy.host + at[3]);
    for (uint32_t i = 0; i < band->count; i++)
        row[i] = (uint32_t)(weight_paired_row(s->top + begin + i, source->paired, source->rotary) -
                            first);
    status = loader_send(device, copy.host, at[3] + band->count * sizeof *row, &staged);
    band->codes = (const uint8_t *)staged;
    band->scales = (const uint8_t *)staged + at[1];
    band->zeros = copy.runs[2].count > 0 ? (const uint8_t *)staged + at[2] : NULL;
    band->row = (const uint32_t *)(const void *)(staged + at[3]);
    band->rows = (uint32_t)(end - first);
    if (status == STATUS_OK)
        status = codes_put_band(device->loading, band);
    enum status sent = loader_sent(device);
    return status == STATUS_OK ? sent : status;
}

static struct codes_band band_of(const struct codes_source *s)
{
    const struct weight_int4 *m = s->source->int4;
    struct codes_band band = {.columns = s->source->cols,
                              .column = s->column,
                              .elements = s->facts->elements,
                              .groups = s->groups};
    if (m) {
        band.order = m->order;
        band.scale_dtype = m->scale_dtype;
        band.e2m1 = m->e2m1;
        band.zeros_add = m->zeros_add;
        band.group = m->group;
        return band;
    }
    band.block_bytes = s->facts->bytes;
    band.row_bytes = s->source->cols / s->facts->elements * s->facts->bytes;
    band.codes_at = s->facts->nested ? 16 : s->facts->e2m1 ? 1 : s->facts->least ? 4 : 2;
    return band;
}

enum status codes_load(struct device *device, struct weight *weight, uint32_t first_row,
                       const struct weight_source *source)
{
    struct codes_source s = source_of(source);
    struct codes_band band = band_of(&s);
    uint32_t head = source->paired > 0 ? source->paired : 1;
    uint32_t unit = head % 8 == 0 ? head : head * 8;
    uint32_t units = (uint32_t)(STAGING_BYTES / band_bytes(&s, 0, unit));
    if (units == 0)
        return STATUS_TOO_LARGE;
    uint64_t last = s.top + source->rows; // row of the file after those of the source
    for (uint64_t row = s.top; row < last;) {
        // Rows of the file are shared by eight rows of a word, or by those of a head.
        uint64_t first = row / unit * unit, end = first + (uint64_t)unit * units;
        uint64_t done = end < last ? end : last;
        uint64_t most = source->int4 ? source->int4->n : (last + head - 1) / head * head;
        end = end < most ? end : most;
        if (source->paired == 0 && !source->int4)
            first = row;
        uint32_t begin = (uint32_t)(row - s.top);
        band.count = (uint32_t)(done - row);
        band.to = code_rows_of(&weight->shape, weight->data, first_row + begin);
        enum status status = band_load(device, &s, &band, begin, first, end);
        if (status != STATUS_OK)
            return status;
        row = done;
    }
    return STATUS_OK;
}
