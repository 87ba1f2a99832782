// SPDX-License-Identifier: Apache-2.0
// The threshold of top-k and top-p by radix select: three passes over the row for each of the two,
// with histograms of counts or of probability mass. Mass is summed as integers, so atomics in any
// order give the same bits.
#include "kernels/cuda/sample.h"

enum {
    SELECT_BINS = 2048,
    SELECT_THREADS = 1024,
    SELECT_AHEAD = 8, // logits that a thread loads at a time
};

struct select_shared {
    uint32_t low[SELECT_BINS], high[SELECT_BINS]; // words of each bin's weight
    uint64_t segments[32];
    uint64_t before; // weight above the chosen digit
    uint32_t digit;
};

// Weight of a logit: 1, or its probability relative to the greatest, in units of 2^-40.
static __device__ __forceinline__ uint64_t select_weight(float z, float top, bool mass)
{
    return mass ? (uint64_t)(expf(z - top) * 0x1p40f) : 1u;
}

static __device__ __forceinline__ uint64_t bin_weight(const select_shared *shared, uint32_t bin)
{
    return (uint64_t)shared->high[bin] << 32 | shared->low[bin];
}

// Adds to a bin in two words: GPUs add 32 bits in shared memory, and 64 bits only by
// compare-and-swap in a loop. The thread whose addition passes 2^32 carries, so the sum is the same
// in any order.
static __device__ __forceinline__ void bin_add(select_shared *shared, uint32_t bin, uint64_t weight)
{
    uint32_t low = (uint32_t)weight, high = (uint32_t)(weight >> 32);
    uint32_t before = atom_add(&shared->low[bin], low);
    high += before + low < low;
    if (high != 0)
        atom_add(&shared->high[bin], high);
}

// Counts remaining logits whose key begins with `prefix` by their next digit.
static __device__ void select_count(const sample_run &run, const sample_decision &row,
                                    select_shared *shared, uint32_t prefix, uint32_t shift,
                                    uint32_t bits, bool mass)
{
    for (uint32_t i = threadIdx.x; i < SELECT_BINS; i += SELECT_THREADS)
        shared->low[i] = shared->high[i] = 0;
    cta_sync();
    uint32_t vocab = run.args.limits.vocab;
    const float *in = run.processed + (size_t)blockIdx.x * vocab;
    float inverse = temperature_inverse(row);
    for (uint32_t first = threadIdx.x; first < vocab; first += SELECT_AHEAD * SELECT_THREADS) {
        float ahead[SELECT_AHEAD]; // loaded together, because loads are not moved past atomics
#pragma unroll
        for (uint32_t k = 0; k < SELECT_AHEAD; k++) {
            uint32_t i = first + k * SELECT_THREADS;
            ahead[k] = i < vocab ? in[i] : -INFINITY;
        }
#pragma unroll
        for (uint32_t k = 0; k < SELECT_AHEAD; k++) {
            float z = mul_rn(ahead[k], inverse);
            uint32_t key = order_key(z);
            if (z < row.threshold || z == -INFINITY)
                continue;
            if (shift + bits < 32 && key >> (shift + bits) != prefix)
                continue;
            uint64_t weight = select_weight(z, row.raw_max, mass);
            if (weight != 0)
                bin_add(shared, key >> shift & ((1u << bits) - 1u), weight);
        }
    }
    cta_sync();
}

// Computes sums of 64 bins, one per warp.
static __device__ void select_segments(select_shared *shared)
{
    static_assert(SELECT_BINS == 64 * (SELECT_THREADS / 32), "a warp has two bins a lane");
    uint32_t first = threadIdx.x / 32 * 64 + threadIdx.x % 32;
    uint64_t sum = bin_weight(shared, first) + bin_weight(shared, first + 32);
    for (int step = 16; step > 0; step >>= 1) {
        uint64_t low = shfl_xor((uint32_t)sum, step), high = shfl_xor((uint32_t)(sum >> 32), step);
        sum += high << 32 | low;
    }
    if (threadIdx.x % 32 == 0)
        shared->segments[threadIdx.x / 32] = sum;
    cta_sync();
}

// Finds, from the highest bin down, the bin in which the running weight reaches `target`.
static __device__ void select_digit(select_shared *shared, uint64_t target)
{
    if (threadIdx.x == 0) {
        uint64_t above = 0;
        uint32_t segment = 31;
        while (segment > 0 && above + shared->segments[segment] < target)
            above += shared->segments[segment--];
        uint32_t first = segment * (SELECT_BINS / 32), bin = first + SELECT_BINS / 32 - 1;
        while (bin > first && above + bin_weight(shared, bin) < target)
            above += bin_weight(shared, bin--);
        shared->digit = bin;
        shared->before = above;
    }
    cta_sync();
}

// Returns the greatest value t for which the weight of remaining logits >= t reaches the target.
// With `mass`, the target is `share` of the total weight.
static __device__ float select_threshold(const sample_run &run, const sample_decision &row,
                                         select_shared *shared, uint64_t target, float share,
                                         bool mass)
{
    uint32_t prefix = 0;
    const uint32_t shifts[3] = {21, 10, 0}, bits[3] = {11, 11, 10};
    for (int pass = 0; pass < 3; pass++) {
        select_count(run, row, shared, prefix, shifts[pass], bits[pass], mass);
        select_segments(shared);
        if (pass == 0 && mass) {
            uint64_t total = 0;
            for (int i = 0; i < 32; i++)
                total += shared->segments[i];
            target = (uint64_t)((double)share * (double)total);
            target = target != 0 ? target : 1;
        }
        select_digit(shared, target);
        target -= shared->before;
        prefix = prefix << bits[pass] | shared->digit;
        cta_sync();
    }
    return order_value(prefix);
}

// One block of 1,024 per row; rows without top-k and top-p need no pass. Shared: 17 KB. Bound:
// memory, three passes of 4 bytes per logit for each of the two.
static __global__ void __launch_bounds__(SELECT_THREADS, 1) sample_select_kernel(sample_run run)
{
    SHARED(select_shared, shared, [1]);
    grid_begin();
    sample_decision row = run.row[blockIdx.x];
    if (row.flags != 0 || row.greedy != NO_TOKEN)
        return;
    const sample_params &p = run.args.state.params[run.args.sampled[blockIdx.x].slot];
    uint32_t top_k = p.top_k;
    float top_p = p.top_p;
    if (top_k != 0 && top_k < run.args.limits.vocab) {
        float t = select_threshold(run, row, shared, top_k, 0, false);
        row.threshold = fmaxf(row.threshold, t);
    }
    if (top_p < 1.0f) {
        float t = select_threshold(run, row, shared, 0, top_p, true);
        row.threshold = fmaxf(row.threshold, t);
    }
    cta_sync(); // all have read the row
    if (threadIdx.x == 0)
        run.row[blockIdx.x].threshold = row.threshold;
}

// --- launch -------------------------------------------------------------------------------------

enum status sample_select(struct stream *stream, const sample_run &run)
{
    LAUNCH_STEP(sample_select_kernel, dim3(run.args.count), dim3(SELECT_THREADS), 0, stream, run);
    return launch_status();
}
