// SPDX-License-Identifier: Apache-2.0
// Private to the cpu device: the device, a stream with its scratch memory, and the table of kernels
// that each ISA level fills. Tests and benchmarks call cpu_device_open to force an ISA level; all
// other code uses kernels/device.h.
//
// Threads: a stream's ops run on the calling thread and on the device's threads; scratch memory
// belongs to the stream, one part per thread.
#pragma once

#include "kernels/attn_plan.h"
#include "kernels/cpu/attn_job.h"
#include "kernels/cpu/bytes.h"
#include "kernels/cpu/codes.h"
#include "kernels/cpu/device_slot.h"
#include "kernels/cpu/packed.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/threads.h"
#include "kernels/device.h"

// ISA levels; they differ in summation order. AVX512BF16 is AVX512 with bf16 pair instructions for
// bf16 products and attention over bf16; AMX is AVX512 with tiles for these, for int8 products and
// for products of codes.
enum cpu_isa { CPU_PLAIN, CPU_AVX2, CPU_AVX512, CPU_AVX512BF16, CPU_AMX, CPU_ISA_COUNT };

struct sample_row {
    const struct sample_args *args;
    uint32_t index;
    float *values; // [vocab] scratch
    float *found;  // [vocab] scratch
    float *raw;    // [vocab] scratch: the raw logits
};

// Rows [first, end) of an op whose rows are independent.
typedef void row_kernel(const void *args, uint32_t first, uint32_t end);

// X(op, rows of a call, elements of a row) for the ops whose rows are independent. The elements
// decide how many rows a thread takes at a time. Each level computes NAME by NAME_rows of rows.inc.
#define ROW_OPS(X)                                                                                 \
    X(embed, a->token_count, a->width)                                                             \
    X(embed_bert, a->token_count, a->width)                                                        \
    X(rms_norm, a->rows, a->width)                                                                 \
    X(layer_norm, a->rows, a->width)                                                               \
    X(qkv_post, a->token_count, (a->shape.heads + 2 * a->shape.kv_heads) * a->shape.dim)           \
    X(swiglu, a->rows, a->width)                                                                   \
    X(activate, a->rows, a->width)                                                                 \
    X(pool, a->count, ROWS_CHUNK) // its mean reads whole sequences

enum { ROWS_CHUNK = 16384 }; // elements of a chunk of rows: a few microseconds of work

struct cpu_kernels {
#define ROW_FIELD(name, rows, width) row_kernel *name;
    ROW_OPS(ROW_FIELD)
#undef ROW_FIELD
    // Packs 16 rows of activations (a tile) if the weights' dtype needs it, else does nothing.
    void (*pack)(const struct product *, uint32_t tile);
    void (*codes_pack)(const struct product *, uint32_t tile); // for weights held as codes
    // Compute slabs [first, end): `product` of weights of a dtype, `codes` of weights held as
    // codes. worker: index of the calling thread, which selects its part of the scratch.
    void (*product)(const struct product *, uint32_t first, uint32_t end, uint32_t worker);
    void (*codes)(const struct product *, uint32_t first, uint32_t end, uint32_t worker);
    void (*attn)(const struct attn_job *);
    void (*attn_merge)(const struct attn_job *); // merges states of parts into the output
    void (*sample)(const struct sample_row *);
    // Rotates and rounds the group of a row x of k elements that begins at column `at` (bytes.h).
    // *offset: -BYTE_ZERO times the sum of the bytes.
    void (*group_bytes)(int8_t out[BYTE_GROUP], float *scale, int32_t *offset, const float *x,
                        uint32_t at, uint32_t k);
    // Writes elements [first, first + count) of a random source (philox_normal).
    void (*normal)(float *out, uint64_t seed, uint64_t first, uint32_t count, float deviation);
};

struct cpu_kernels cpu_kernels_plain(void);
struct cpu_kernels cpu_kernels_avx2(void);
struct cpu_kernels cpu_kernels_avx512(void);
struct cpu_kernels cpu_kernels_avx512bf16(void);
struct cpu_kernels cpu_kernels_amx(void);

struct device {
    struct threads *threads;
    struct cpu_kernels kernels;
    enum cpu_isa level;
    struct device *parent;   // device of which this one is a rank, or NULL
    struct device_slot slot; // shared by its streams; ranks use that of `parent`
};

struct stream {
    struct device *device;
    struct stream_limits limits;
    void *scratch;
    size_t scratch_bytes;
    void *panel;
    size_t panel_bytes;
    float *sums; // [threads][SLAB_GROUP][PANEL_ROWS * 32] of products
    float *attn; // [threads][attn_floats]
    size_t attn_floats;
    float *partial; // [attn_capacity.partials][attn_state_floats()]
    struct attn_capacity attn_capacity;
    float *sample; // [threads][3][vocab]
    struct device_slot_user slot_user;
    struct comm *comm; // communicator, or NULL
    uint32_t rank;     // rank in comm
};

// Opens the device at ISA level `highest`, or at the best lower level that works on this machine.
// CPU_ISA_COUNT: the best of all.
enum status cpu_device_open(struct device **out, const struct device_options *options,
                            enum cpu_isa highest, struct error *err) MUST_USE;

// Returns the best ISA level up to `highest` (CPU_ISA_COUNT: any that is fast) that this processor
// has and whose results it verifies. Changes signal handlers meanwhile: one thread at a time.
enum cpu_isa cpu_isa_find(enum cpu_isa highest);
const char *cpu_isa_name(enum cpu_isa level);
struct cpu_kernels cpu_isa_kernels(enum cpu_isa level);
// Returns true if CPUID reports the level's instructions. For AMX it also requests the kernel's
// permission, which threads started later inherit.
bool cpu_isa_reported(enum cpu_isa level);

// Returns how many times the stream has held the device slot.
uint64_t cpu_stream_steps(const struct stream *stream);

// Floats of scratch that one thread needs for attention with heads of this dim.
size_t attn_scratch_floats(uint32_t dim);

// Returns the floats of the state of a part: for 16 rows the outputs, maxima and sums.
static inline size_t attn_state_floats(uint32_t dim)
{
    return (size_t)16 * ((dim + 31) / 32 * 32) + 32;
}

// Communicators (op_collective.c).
enum status cpu_comm_open(struct comm **out, struct stream *const *streams, uint32_t count,
                          const struct comm_link *link, struct error *);
void cpu_comm_abort(struct comm *);
void cpu_comm_close(struct comm *);

#define OP_DECLARE(name) enum status cpu_##name(struct stream *, const struct name##_args *);
OP_LIST(OP_DECLARE)
#undef OP_DECLARE
