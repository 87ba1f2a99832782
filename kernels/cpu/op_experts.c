// SPDX-License-Identifier: Apache-2.0
// route, gemm_experts and combine. The threads of the device share the tokens of route and combine,
// and the slabs of all experts that have rows. One product of gemm_experts is a segment: some
// sorted rows of one expert. Segments are computed in batches whose packed activations fit the
// stream's panel.
#include "kernels/cpu/internal.h"

#include <math.h>
#include <string.h>

enum { TOKENS_EACH = 16, SEGMENTS_MAX = 128, TILE_ROWS = 16 };

static float logit_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

// Sets score[i] = softmax of the logits x[i]; `count` is at least 1.
static void softmax(float *score, const float *x, uint32_t count)
{
    float top = x[0], sum = 0;
    for (uint32_t i = 1; i < count; i++)
        top = x[i] > top ? x[i] : top;
    for (uint32_t i = 0; i < count; i++) {
        score[i] = expf(x[i] - top);
        sum += score[i];
    }
    for (uint32_t i = 0; i < count; i++)
        score[i] /= sum;
}

// Marks the `wanted` largest of the values that are not excluded; among equal ones the lower index.
static void largest_mark(bool *mark, const float *value, const bool *excluded, uint32_t count,
                         uint32_t wanted)
{
    memset(mark, 0, count * sizeof *mark);
    for (uint32_t j = 0; j < wanted; j++) {
        uint32_t best = count;
        for (uint32_t i = 0; i < count; i++)
            if (!mark[i] && !(excluded && excluded[i]) && (best == count || value[i] > value[best]))
                best = i;
        mark[best] = true;
    }
}

// Excludes the experts of all groups but those kept.
static void groups_exclude(const struct route_args *a, bool *excluded, const float *value)
{
    uint32_t each = a->out.experts / a->groups;
    float sum[EXPERTS_MAX];
    bool kept[EXPERTS_MAX];
    for (uint32_t g = 0; g < a->groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (uint32_t i = g * each; i < (g + 1) * each; i++) {
            float v = value[i];
            second = v > first ? first : v > second ? v : second;
            first = v > first ? v : first;
        }
        sum[g] = a->group_top == 2 ? first + second : first;
    }
    largest_mark(kept, sum, NULL, a->groups, a->groups_kept);
    for (uint32_t e = 0; e < a->out.experts; e++)
        excluded[e] = !kept[e / each];
}

// Writes the weights of a token's pairs. score: [E] scores, or logits with ROUTE_SOFTMAX_CHOSEN.
static void weights_write(const struct route_args *a, uint32_t token, const float *score)
{
    uint32_t chosen = a->out.chosen;
    const uint32_t *id = a->out.id + (size_t)token * chosen;
    float *weight = a->out.weight + (size_t)token * chosen, sum = 0;
    for (uint32_t j = 0; j < chosen; j++)
        weight[j] = score[id[j]];
    if (a->score == ROUTE_SOFTMAX_CHOSEN)
        softmax(weight, weight, chosen);
    for (uint32_t j = 0; j < chosen; j++)
        sum += weight[j];
    sum = sum < 1e-20f ? 1e-20f : sum;
    for (uint32_t j = 0; j < chosen; j++)
        weight[j] = (a->renormalise ? weight[j] / sum : weight[j]) * a->factor;
}

static void token_route(const struct route_args *a, uint32_t token)
{
    uint32_t experts = a->out.experts, j = 0;
    const float *logits = a->logits + (size_t)token * experts;
    float score[EXPERTS_MAX], value[EXPERTS_MAX];
    bool chosen[EXPERTS_MAX], excluded[EXPERTS_MAX] = {false};
    memcpy(score, logits, experts * sizeof *score);
    if (a->score == ROUTE_SOFTMAX_ALL)
        softmax(score, logits, experts);
    for (uint32_t e = 0; a->score == ROUTE_SIGMOID && e < experts; e++)
        score[e] = logit_sigmoid(logits[e]);
    const float *correction = a->correction ? a->correction->data : NULL;
    bool scores = correction || a->groups > 0;
    for (uint32_t e = 0; e < experts; e++)
        value[e] = scores ? score[e] + (correction ? correction[e] : 0) : logits[e];
    if (a->groups > 0)
        groups_exclude(a, excluded, value);
    largest_mark(chosen, value, excluded, experts, a->out.chosen);
    for (uint32_t e = 0; e < experts; e++)
        if (chosen[e])
            a->out.id[(size_t)token * a->out.chosen + j++] = e;
    weights_write(a, token, score);
}

static void route_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct route_args *a = opaque;
    for (uint32_t t = chunk * TOKENS_EACH; t < (chunk + 1) * TOKENS_EACH; t++)
        if (t < a->out.token_count)
            token_route(a, t);
}

// Sorts the pairs by expert; pairs of one expert remain in order of tokens.
static void pairs_sort(const struct routing *r)
{
    uint32_t next[EXPERTS_MAX + 1] = {0};
    uint32_t pairs = r->token_count * r->chosen;
    for (uint32_t p = 0; p < pairs; p++)
        next[r->id[p] + 1]++;
    for (uint32_t e = 0; e < r->experts; e++)
        next[e + 1] += next[e];
    memcpy(r->offset, next, (r->experts + 1) * sizeof *next);
    for (uint32_t p = 0; p < pairs; p++) {
        uint32_t row = next[r->id[p]]++;
        r->place[p] = row;
        r->order[row] = p;
    }
}

enum status cpu_route(struct stream *stream, const struct route_args *args)
{
    struct route_args a = *args;
    if (a.out.token_count == 0)
        return STATUS_OK;
    threads_run(stream->device->threads, route_chunk, &a,
                (a.out.token_count + TOKENS_EACH - 1) / TOKENS_EACH);
    pairs_sort(&a.out);
    return STATUS_OK;
}

struct segment {
    uint32_t matrix;      // expert's index in the weight's stack
    uint32_t first, rows; // sorted rows
    uint32_t tile;        // number of tiles of earlier segments of the batch
};

struct experts_job {
    const struct gemm_experts_args *args;
    struct product_slabs slabs;
    struct product product; // the members that are equal in all segments
    size_t row_bytes;       // bytes of a packed row
    uint32_t count, tiles;  // segments of the batch, and tiles of 16 of their rows
    uint32_t each;          // slabs per chunk
    struct segment segment[SEGMENTS_MAX];
};

// Returns the product of a segment.
static struct product segment_product(const struct experts_job *job, const struct segment *s)
{
    const struct gemm_experts_args *a = job->args;
    struct product_slabs slabs = job->slabs;
    struct product p = job->product;
    slabs.matrix = s->matrix;
    product_weight(&p, &slabs);
    p.rows = s->rows;
    p.y += (size_t)s->first * p.y_stride;
    p.panel = (char *)p.panel + s->tile * TILE_ROWS * job->row_bytes;
    p.bias = p.bias ? p.bias + (size_t)s->matrix * p.n : NULL;
    if (a->sorted)
        p.x += (size_t)s->first * p.x_stride;
    else
        p.order = a->routing.order + s->first;
    return p;
}

static void experts_pack_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct experts_job *job = opaque;
    uint32_t i = 0;
    while (i + 1 < job->count && job->segment[i + 1].tile <= chunk)
        i++;
    struct product p = segment_product(job, &job->segment[i]);
    product_pack(&p, &job->slabs, chunk - job->segment[i].tile);
}

static void experts_slab_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    const struct experts_job *job = opaque;
    uint32_t slabs = job->slabs.slabs, first = chunk * job->each, end = first + job->each;
    end = end < job->count * slabs ? end : job->count * slabs;
    while (first < end) {
        const struct segment *s = &job->segment[first / slabs];
        struct product_slabs matrix = job->slabs;
        matrix.matrix = s->matrix;
        uint32_t from = first % slabs, left = slabs - from;
        left = left < end - first ? left : end - first;
        struct product p = segment_product(job, s);
        product_run(&p, &matrix, from, from + left, worker);
        first += left;
    }
}

// Computes the segments of the batch and empties it.
static void batch_run(struct stream *stream, struct experts_job *job)
{
    struct threads *threads = stream->device->threads;
    if (job->count == 0)
        return;
    uint32_t slabs = job->count * job->slabs.slabs;
    job->each = product_chunk(job->tiles * TILE_ROWS / job->count, slabs, threads_count(threads));
    threads_run(threads, experts_pack_chunk, job, job->tiles);
    threads_run(threads, experts_slab_chunk, job, (slabs + job->each - 1) / job->each);
    job->count = job->tiles = 0;
}

enum status cpu_gemm_experts(struct stream *stream, const struct gemm_experts_args *args)
{
    struct experts_job job = {.args = args, .slabs = product_slabs_of(stream, args->weight)};
    const struct weight_shape *shape = &args->weight->shape;
    bool copied = shape->part_count == 0 && shape->dtype != DTYPE_I8; // rows of float32 at most
    job.row_bytes = (size_t)((shape->k + 63) & ~63u) * (copied ? 4 : 2);
    size_t tiles = stream->panel_bytes / job.row_bytes / TILE_ROWS;
    if (tiles == 0)
        return STATUS_INVALID; // wider than the limits that the stream was opened with
    job.product = (struct product){.x = args->x,
                                   .y = args->y,
                                   .bias = args->bias ? args->bias->data : NULL,
                                   .panel = stream->panel,
                                   .scratch = stream->sums,
                                   .x_stride = args->x_stride,
                                   .y_stride = args->y_stride,
                                   .chosen = args->routing.chosen};
    const uint32_t *offset = args->routing.offset + args->first;
    if (args->routing.token_count == 0)
        return STATUS_OK;
    for (uint32_t e = 0; e < weight_stack(shape); e++)
        for (uint32_t row = offset[e]; row < offset[e + 1];) {
            if (job.count == SEGMENTS_MAX || job.tiles == tiles)
                batch_run(stream, &job);
            size_t most = (tiles - job.tiles) * TILE_ROWS;
            most = most < PANEL_ROWS ? most : PANEL_ROWS;
            uint32_t rows = offset[e + 1] - row < most ? offset[e + 1] - row : (uint32_t)most;
            job.segment[job.count++] = (struct segment){e, row, rows, job.tiles};
            job.tiles += (rows + TILE_ROWS - 1) / TILE_ROWS;
            row += rows;
        }
    batch_run(stream, &job);
    return STATUS_OK;
}

static void token_combine(const struct combine_args *a, uint32_t token)
{
    enum { COLUMNS = 64 }; // columns that are summed together
    const struct routing *r = &a->routing;
    size_t pair = (size_t)token * r->chosen, at = (size_t)token * a->width;
    const float *shared = a->shared ? (const float *)a->shared + at : NULL;
    float gate = a->gate ? logit_sigmoid(a->gate[token]) : 1;
    for (uint32_t c = 0; c < a->width; c += COLUMNS) {
        float sum[COLUMNS] = {0};
        uint32_t count = a->width - c < COLUMNS ? a->width - c : COLUMNS;
        for (size_t p = pair; p < pair + r->chosen; p++) {
            const float *y = (const float *)a->y + (size_t)r->place[p] * a->width + c;
            float weight = r->weight[p];
            if (r->id[p] - a->first >= a->held)
                continue; // an expert of another rank
            for (uint32_t i = 0; i < count; i++)
                sum[i] += weight * y[i];
        }
        for (uint32_t i = 0; shared && i < count; i++)
            sum[i] += gate * shared[c + i];
        memcpy((float *)a->out + at + c, sum, count * sizeof *sum);
    }
}

static void combine_chunk(void *opaque, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct combine_args *a = opaque;
    for (uint32_t t = chunk * TOKENS_EACH; t < (chunk + 1) * TOKENS_EACH; t++)
        if (t < a->routing.token_count)
            token_combine(a, t);
}

enum status cpu_combine(struct stream *stream, const struct combine_args *args)
{
    struct combine_args a = *args;
    threads_run(stream->device->threads, combine_chunk, &a,
                (a.routing.token_count + TOKENS_EACH - 1) / TOKENS_EACH);
    return STATUS_OK;
}
