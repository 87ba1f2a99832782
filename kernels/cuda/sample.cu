// SPDX-License-Identifier: Apache-2.0
// Sampling without sorting: bias, bans, mask and penalties in one pass over the logits; greedy rows
// are decided there; the others are drawn by Gumbel noise over the tokens at or above the threshold
// that sample_select.cu found. A row is cut into chunks of SAMPLE_CHUNK logits whatever the batch.
#include "kernels/cuda/sample.h"

enum status sample_select(struct stream *stream, const sample_run &run);

static __device__ __forceinline__ float penalised(float l, const sample_params &p, uint16_t seen)
{
    uint32_t count = seen & 0x7FFFu;
    if (seen != 0)
        l = l > 0.0f ? l / p.repetition : l * p.repetition;
    if (count != 0)
        l = add_rn(add_rn(l, -mul_rn(p.frequency, (float)count)), -p.presence);
    return l;
}

static __device__ __forceinline__ const uint32_t *mask_of(const sample_run &run, step_sampled s)
{
    const sample_args &a = run.args;
    return a.masks && s.mask != STEP_NO_ROW ? a.masks + (size_t)s.mask * run.mask_words : NULL;
}

static __device__ __forceinline__ bool mask_allows(const uint32_t *mask, uint32_t token)
{
    return mask[token / 32] >> (token % 32) & 1u;
}

// One block of 256 per chunk of a row, 32 logits per thread. Shared: 32 KB. Bound: memory, 8 bytes
// per logit, 4 in a row of which nothing is drawn.
static __global__ void __launch_bounds__(256) sample_process(sample_run run)
{
    SHARED(float, shared, [SAMPLE_CHUNK]);
    SHARED(best_pair, pairs, [8]);
    SHARED(float, sums, [8]);
    const sample_args &a = run.args;
    uint32_t n = blockIdx.x, vocab = a.limits.vocab, base = blockIdx.y * SAMPLE_CHUNK;
    uint32_t count = chunk_count(vocab, base);
    grid_begin();
    step_sampled s = a.sampled[n];
    if (a.state.done[s.slot] != 0)
        return;
    const sample_params &p = a.state.params[s.slot];
    const float *raw = a.logits + (size_t)n * a.stride + base;
    best_pair top = {0, NO_TOKEN};
    float bad = 0;
    for (uint32_t i = threadIdx.x; i < count; i += 256) {
        float l = raw[i];
        shared[i] = l;
        bad = l < INFINITY ? bad : 1.0f; // also for NaN; -infinity is a banned token
        best_pair mine = {l, base + i};
        if (l > -INFINITY && pair_better(mine, top))
            top = mine;
    }
    best_pair raw_top = block_best(top, pairs);
    bad = row_sum<8>(bad, sums);
    float sum = 0;
    for (uint32_t i = threadIdx.x; i < count; i += 256)
        sum = add_rn(sum, raw_top.id != NO_TOKEN ? expf(shared[i] - raw_top.value) : 0.0f);
    sum = row_sum<8>(sum, sums);
    const step_bias *bias = a.state.bias + (size_t)s.slot * a.limits.bias_max;
    for (uint32_t i = 0; i < p.bias_count; i++) { // a token may be listed twice
        uint32_t at = (uint32_t)bias[i].token - base;
        if (at < count && at % 256 == threadIdx.x)
            shared[at] += bias[i].value;
    }
    cta_sync();
    for (uint32_t i = 0; threadIdx.x == 0 && p.output_count < p.output_min && i < p.stop_count; i++)
        if ((uint32_t)p.stop_ids[i] - base < count)
            shared[p.stop_ids[i] - base] = -INFINITY;
    cta_sync();
    const uint32_t *mask = mask_of(run, s);
    const uint16_t *seen = (p.flags & SAMPLE_PENALTY) && p.penalty_row != STEP_NO_ROW
                               ? a.state.penalty + (size_t)p.penalty_row * vocab
                               : NULL;
    float *out = run.processed + (size_t)n * vocab + base;
    bool drawn = !takes_best(p);
    top.id = NO_TOKEN;
    for (uint32_t i = threadIdx.x; i < count; i += 256) {
        uint32_t token = base + i;
        float l = shared[i];
        if (mask && !mask_allows(mask, token))
            l = -INFINITY;
        if (seen)
            l = penalised(l, p, seen[token]);
        if (drawn)
            out[i] = l;
        best_pair mine = {l, token};
        if (l > -INFINITY && pair_better(mine, top))
            top = mine;
    }
    best_pair best = block_best(top, pairs);
    if (threadIdx.x == 0) {
        sample_chunk c = {raw_top.value, sum, best.value, 0, best.id, raw_top.id, 0, bad != 0};
        run.chunk[(size_t)n * run.chunks + blockIdx.y] = c;
    }
}

// One warp per row, of which the first lane folds the chunk records in order. Bound: launch.
static __global__ void __launch_bounds__(32) sample_decide(sample_run run)
{
    grid_begin();
    const sample_args &a = run.args;
    uint32_t n = blockIdx.x;
    sample_decision row = {0, 0, -INFINITY, 0, NO_TOKEN, 0, 0, 0};
    uint32_t slot = a.sampled[n].slot;
    if (threadIdx.x != 0)
        return;
    if (a.state.done[slot] != 0) {
        row.flags = SAMPLED_DONE;
        run.row[n] = row;
        return;
    }
    const sample_params &p = a.state.params[slot];
    best_pair raw = {0, NO_TOKEN}, top = {0, NO_TOKEN};
    const sample_chunk *chunk = run.chunk + (size_t)n * run.chunks;
    for (uint32_t i = 0; i < run.chunks; i++) {
        best_pair r = {chunk[i].raw_max, chunk[i].raw_best}, t = {chunk[i].max, chunk[i].best};
        if (pair_better(r, raw))
            raw = r;
        if (pair_better(t, top))
            top = t;
        if (chunk[i].bad != 0)
            row.flags = SAMPLED_NOT_FINITE;
    }
    if (raw.id == NO_TOKEN)
        row.flags = SAMPLED_NOT_FINITE;
    if (row.flags != 0) {
        a.state.done[slot] = 1; // the sequence cannot continue
        run.row[n] = row;
        return;
    }
    float sum = 0;
    for (uint32_t i = 0; i < run.chunks; i++)
        sum = chunk[i].raw_best == NO_TOKEN
                  ? sum
                  : fmaf(chunk[i].raw_sum, expf(chunk[i].raw_max - raw.value), sum);
    row.raw_max = raw.value;
    row.raw_log_sum = raw.value + logf(sum);
    row.banned = top.id == NO_TOKEN;
    if (row.banned != 0)
        row.greedy = raw.id;
    else if (takes_best(p))
        row.greedy = top.id;
    else
        row.temperature = p.temperature;
    if (row.temperature != 0.0f) {
        row.raw_max = mul_rn(top.value, temperature_inverse(row)); // now of the scaled logits
        if (p.min_p > 0.0f)
            row.threshold = row.raw_max + logf(p.min_p);
    }
    run.row[n] = row;
}

// Reads logits i to i + 3 of a chunk, divided by the temperature; -infinity if they are filtered or
// past the end.
static __device__ __forceinline__ void scaled4(const float *in, uint32_t i, uint32_t count,
                                               bool vectors, float inverse, float threshold,
                                               float z[4])
{
    uint4 v = {0, 0, 0, 0};
    if (vectors)
        v = ldg128(in + i);
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
    for (uint32_t k = 0; k < 4; k++) {
        float l = vectors ? bits_float(word[k]) : i + k < count ? in[i + k] : -INFINITY;
        z[k] = mul_rn(l, inverse);
        if (z[k] < threshold)
            z[k] = -INFINITY;
    }
}

// Adds noise to the remaining tokens and keeps the best of each chunk. One block of 256 per chunk,
// four tokens per thread, which share the words of one counter. Bound: math.
static __global__ void __launch_bounds__(256) sample_draw(sample_run run)
{
    SHARED(best_pair, pairs, [8]);
    const sample_args &a = run.args;
    uint32_t n = blockIdx.x, vocab = a.limits.vocab, base = blockIdx.y * SAMPLE_CHUNK;
    uint32_t count = chunk_count(vocab, base);
    grid_begin();
    sample_decision row = run.row[n];
    if (row.flags != 0 || row.greedy != NO_TOKEN)
        return;
    const sample_params &p = a.state.params[a.sampled[n].slot];
    const float *in = run.processed + (size_t)n * vocab + base;
    float inverse = temperature_inverse(row);
    best_pair top = {0, NO_TOKEN};
    for (uint32_t i = threadIdx.x * 4; i < count; i += 1024) {
        float z[4];
        scaled4(in, i, count, vocab % 4 == 0, inverse, row.threshold, z);
        if (z[0] == -INFINITY && z[1] == -INFINITY && z[2] == -INFINITY && z[3] == -INFINITY)
            continue;
        philox words = noise_words(p, base + i);
        for (uint32_t k = 0; k < 4; k++) {
            if (z[k] == -INFINITY)
                continue;
            best_pair mine = {add_rn(z[k], gumbel_noise(words.word[k])), base + i + k};
            if (pair_better(mine, top))
                top = mine;
        }
    }
    best_pair best = block_best(top, pairs);
    if (threadIdx.x == 0) {
        run.chunk[(size_t)n * run.chunks + blockIdx.y].max = best.value;
        run.chunk[(size_t)n * run.chunks + blockIdx.y].best = best.id;
    }
}

// Updates the sequence's state for the sampled token.
static __device__ void sample_commit(const sample_args &a, uint32_t slot, int32_t token,
                                     uint32_t *flags)
{
    sample_params *p = &a.state.params[slot];
    a.state.last_token[slot] = token;
    p->output_count++;
    if ((p->flags & SAMPLE_PENALTY) && p->penalty_row != STEP_NO_ROW) {
        uint16_t *seen = a.state.penalty + (size_t)p->penalty_row * a.limits.vocab + token;
        if ((*seen & 0x7FFFu) != 0x7FFFu)
            *seen = (uint16_t)(*seen + 1);
    }
    if ((p->flags & SAMPLE_IGNORE_END) || p->output_count <= p->output_min)
        return;
    for (uint32_t i = 0; i < p->stop_count; i++) {
        if (p->stop_ids[i] != token)
            continue;
        *flags |= SAMPLED_END;
        a.state.done[slot] = 1;
    }
}

// Returns the token with the greatest raw logit inside the mask, for a row of which no token is
// left. Every thread of the block must call it.
static __device__ uint32_t banned_best(const float *raw, const uint32_t *mask, uint32_t vocab,
                                       best_pair *pairs)
{
    best_pair top = {0, NO_TOKEN};
    for (uint32_t i = threadIdx.x; i < vocab; i += 256) {
        best_pair mine = {raw[i], i};
        if (mask_allows(mask, i) && raw[i] > -INFINITY && pair_better(mine, top))
            top = mine;
    }
    return block_best(top, pairs).id;
}

// Returns true if the mask has no bit set; the row is then dropped. Every thread of the block must
// call it.
static __device__ bool mask_is_empty(const uint32_t *mask, uint32_t words, best_pair *pairs)
{
    best_pair some = {0, NO_TOKEN};
    for (uint32_t i = threadIdx.x; i < words; i += 256)
        if (mask[i] != 0)
            some.id = i;
    return block_best(some, pairs).id == NO_TOKEN;
}

// Writes the greatest raw logits. Each thread first finds the best of its share, every 256th logit.
// Whenever the best of all is written, the warp of its thread searches that thread's share for the
// next. Returns the number written. Every thread of the block must call it.
static __device__ uint32_t tops_write(const float *raw, uint32_t vocab, uint32_t wanted,
                                      float log_sum, sample_top *out, best_pair *pairs)
{
    best_pair mine = {0, NO_TOKEN};
    for (uint32_t i = threadIdx.x; wanted != 0 && i < vocab; i += 256) {
        best_pair one = {raw[i], i};
        if (pair_better(one, mine))
            mine = one;
    }
    for (uint32_t k = 0; k < wanted; k++) {
        best_pair best = block_best(mine, pairs);
        if (best.id == NO_TOKEN)
            return k;
        if (threadIdx.x == 0) {
            sample_top top = {(int32_t)best.id, best.value - log_sum};
            out[k] = top;
        }
        uint32_t owner = best.id % 256;
        if (threadIdx.x / 32 != owner / 32)
            continue;
        best_pair next = {0, NO_TOKEN};
        for (uint32_t i = owner + threadIdx.x % 32 * 256; i < vocab; i += 8192) {
            best_pair one = {raw[i], i};
            if (pair_better(best, one) && pair_better(one, next))
                next = one;
        }
        next = warp_best(next);
        if (threadIdx.x == owner)
            mine = next;
    }
    return wanted;
}

// One block of 256 per row: writes the list of top logprobs, then the result.
static __global__ void __launch_bounds__(256) sample_finish(sample_run run)
{
    SHARED(best_pair, pairs, [8]);
    grid_begin();
    const sample_args &a = run.args;
    uint32_t n = blockIdx.x, vocab = a.limits.vocab, slot = a.sampled[n].slot;
    sample_decision row = run.row[n];
    sample_result result = {-1, 0, row.flags, 0};
    if (row.flags != 0) {
        if (threadIdx.x == 0)
            a.result[n] = result;
        return;
    }
    const uint32_t *mask = row.banned != 0 ? mask_of(run, a.sampled[n]) : NULL;
    if (mask && mask_is_empty(mask, run.mask_words, pairs)) {
        result.flags = SAMPLED_DROPPED;
        if (threadIdx.x == 0)
            a.result[n] = result;
        return;
    }
    const sample_params &p = a.state.params[slot];
    const float *raw = a.logits + (size_t)n * a.stride;
    uint32_t top_max = SAMPLE_TOP_MAX;
    uint32_t wanted = p.top_logprobs < top_max ? p.top_logprobs : top_max;
    wanted = a.top ? wanted : 0;
    result.top_count = tops_write(raw, vocab, wanted < vocab ? wanted : vocab, row.raw_log_sum,
                                  a.top + (size_t)n * SAMPLE_TOP_MAX, pairs);
    uint32_t best = mask ? banned_best(raw, mask, vocab, pairs) : NO_TOKEN;
    row.greedy = best != NO_TOKEN ? best : row.greedy;
    cta_sync(); // all have read the parameters that sample_commit changes
    if (threadIdx.x != 0)
        return;
    if (row.greedy == NO_TOKEN) {
        best_pair top = {0, NO_TOKEN};
        for (uint32_t i = 0; i < run.chunks; i++) {
            const sample_chunk &c = run.chunk[(size_t)n * run.chunks + i];
            best_pair mine = {c.max, c.best};
            if (pair_better(mine, top))
                top = mine;
        }
        row.greedy = top.id;
    }
    result.token = (int32_t)row.greedy;
    if (p.flags & SAMPLE_LOGPROB)
        result.logprob = raw[row.greedy] - row.raw_log_sum;
    sample_commit(a, slot, result.token, &result.flags);
    a.result[n] = result;
}

// --- launch -------------------------------------------------------------------------------------

enum status cuda_sample(struct stream *stream, const struct sample_args *args)
{
    if (args->count == 0)
        return STATUS_OK;
    sample_run run;
    run.args = *args;
    run.processed = stream->logits;
    run.chunk = stream->chunk;
    run.row = stream->sample;
    run.chunks = divide_up(args->limits.vocab, SAMPLE_CHUNK);
    run.mask_words = divide_up(args->limits.vocab, 32);
    dim3 grid(args->count, run.chunks); // rows in x, because y is limited to 65,535
    LAUNCH_STEP(sample_process, grid, dim3(256), 0, stream, run);
    LAUNCH_STEP(sample_decide, dim3(args->count), dim3(32), 0, stream, run);
    enum status status = sample_select(stream, run);
    if (status != STATUS_OK)
        return status;
    LAUNCH_STEP(sample_draw, grid, dim3(256), 0, stream, run);
    LAUNCH_STEP(sample_finish, dim3(args->count), dim3(256), 0, stream, run);
    return launch_status();
}
