// SPDX-License-Identifier: Apache-2.0
// prep: expands the step record to per-token arrays, and copies the state of new sequences to their
// slots. Also the signal kernel, which reports a stream's progress to the host.
#include "kernels/cuda/lane.h"

// The word that contains an entry of a penalty row, and the entry's shift in it.
struct penalty_half {
    uint32_t *word;
    uint32_t shift;
};

static __device__ __forceinline__ penalty_half half_of(uint16_t *entry)
{
    uintptr_t at = (uintptr_t)entry;
    return {(uint32_t *)(at & ~(uintptr_t)3), (uint32_t)(at & 2) * 8};
}

// One block of 256 per new sequence: parameters, penalty row (prompt bit 15, output count below it)
// and bias list of its slot. The blocks after these apply block-table changes, one thread per
// change. Bound: launch; with penalties vocab * 2 bytes per new sequence.
static __global__ void __launch_bounds__(256) prep_state(prep_args a)
{
    grid_begin();
    const char *record = (const char *)a.step;
    const step_layout &layout = a.step->layout;
    if (blockIdx.x >= a.new_sequence_count) {
        uint32_t i = (blockIdx.x - a.new_sequence_count) * 256 + threadIdx.x;
        if (i < a.change_count) {
            step_change c = ((const step_change *)(record + layout.changes))[i];
            a.state.block_table[(size_t)c.slot * a.limits.blocks_max + c.index] = c.units;
        }
        return;
    }
    const step_new_sequence *added =
        (const step_new_sequence *)(record + layout.new_sequences) + blockIdx.x;
    uint32_t slot = added->slot;
    const uint32_t *params = (const uint32_t *)&added->params;
    for (uint32_t i = threadIdx.x; i < sizeof(sample_params) / 4; i += 256)
        ((uint32_t *)&a.state.params[slot])[i] = params[i];
    if (threadIdx.x == 0)
        a.state.done[slot] = 0;
    const step_bias *bias = (const step_bias *)(record + layout.bias) + added->bias_at;
    for (uint32_t i = threadIdx.x; i < added->params.bias_count; i += 256)
        a.state.bias[(size_t)slot * a.limits.bias_max + i] = bias[i];
    if (added->params.penalty_row == STEP_NO_ROW || !(added->params.flags & SAMPLE_PENALTY))
        return;
    uint16_t *row = a.state.penalty + (size_t)added->params.penalty_row * a.limits.vocab;
    for (uint32_t i = threadIdx.x; i < a.limits.vocab; i += 256)
        row[i] = 0;
    cta_sync();
    const int32_t *history = (const int32_t *)(record + layout.history) + added->history_at;
    uint32_t count = added->history_prompt + added->history_output;
    // Outputs first, prompt bits after the barrier: threads that increment a full count exceed its
    // maximum until they have subtracted their increments, and so change the prompt bit meanwhile.
    for (uint32_t i = added->history_prompt + threadIdx.x; i < count; i += 256) {
        if ((uint32_t)history[i] >= a.limits.vocab)
            continue;
        penalty_half half = half_of(row + history[i]);
        uint32_t before = atom_add(half.word, 1u << half.shift) >> half.shift & 0xFFFFu;
        if (before >= 0x7FFFu)
            atom_add(half.word, 0u - (1u << half.shift));
    }
    cta_sync();
    for (uint32_t i = threadIdx.x; i < added->history_prompt; i += 256) {
        if ((uint32_t)history[i] >= a.limits.vocab)
            continue;
        penalty_half half = half_of(row + history[i]);
        atom_or(half.word, 0x8000u << half.shift);
    }
}

// One warp per row, lanes over its tokens; 8 rows per block. Bound: launch.
static __global__ void __launch_bounds__(256) prep_rows(prep_args a)
{
    uint32_t r = blockIdx.x * 8 + threadIdx.x / 32;
    grid_begin();
    if (r >= a.row_count)
        return;
    const char *record = (const char *)a.step;
    step_row row = ((const step_row *)(record + a.step->layout.rows))[r];
    const int32_t *tokens = (const int32_t *)(record + a.step->layout.tokens);
    bool padding = row.kv_len == 0;
    bool writes = !padding && a.limits.blocks_max != 0;
    if (writes && a.state.done && a.state.done[row.slot] != 0)
        writes = false;
    for (uint32_t j = threadIdx.x % 32; j < row.q_len; j += 32) {
        uint32_t position = padding ? 0 : row.kv_len - row.q_len + j;
        uint32_t t = row.q_start + j;
        int32_t token = 0;
        if (row.token_at != STEP_TOKEN_FED)
            token = tokens[row.token_at + j];
        else if (!padding)
            token = a.state.last_token[row.slot];
        uint64_t place = UINT64_MAX;
        if (writes) {
            uint32_t block = position >> a.block_shift;
            uint64_t units = a.state.block_table[(size_t)row.slot * a.limits.blocks_max + block];
            place = units * TABLE_UNIT_BYTES +
                    (position & ((1u << a.block_shift) - 1u)) * a.token_bytes;
        }
        a.token[t] = token;
        if (row.token_at != STEP_TOKEN_FED && j + 1 == row.q_len && a.state.last_token)
            a.state.last_token[row.slot] = token;
        a.position[t] = position;
        a.row_of[t] = r;
        a.type[t] = row.type_from != STEP_NO_TYPE && position >= row.type_from;
        a.kv_write_offset[t] = place;
    }
}

struct signal_args {
    uint32_t *word; // host-visible
    uint32_t value;
};

static __global__ void __launch_bounds__(32) signal_kernel(signal_args a)
{
    if (threadIdx.x == 0)
        st_release_sys(a.word, a.value);
}

// --- launches -----------------------------------------------------------------------------------

enum status cuda_prep(struct stream *stream, const struct prep_args *args)
{
    uint32_t blocks = args->new_sequence_count + divide_up(args->change_count, 256);
    if (blocks != 0)
        LAUNCH_STEP(prep_state, dim3(blocks), dim3(256), 0, stream, *args);
    if (args->row_count != 0)
        LAUNCH_STEP(prep_rows, dim3(divide_up(args->row_count, 8)), dim3(256), 0, stream, *args);
    return launch_status();
}

enum status early_query(bool *out)
{
    struct cudaFuncAttributes facts;
    enum status status = call_status(cudaFuncGetAttributes(&facts, (const void *)prep_rows));
    *out = status == STATUS_OK && facts.ptxVersion >= 90;
    return status;
}

enum status signal_run(cudaStream_t stream, uint32_t *host_word, uint32_t value)
{
    signal_args a = {host_word, value};
    LAUNCH(signal_kernel, dim3(1), dim3(32), 0, stream, a);
    return launch_status();
}
