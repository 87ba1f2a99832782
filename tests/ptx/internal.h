// SPDX-License-Identifier: Apache-2.0
// Private to the interpreter: decoded instructions, kernels and warps.
#pragma once

#include "ptx.h"

enum {
    PTX_LANES = 32,
    PTX_OPERANDS_MAX = 16,
    PTX_WARPS_MAX = 32,
    PTX_BARRIERS = 16,
    PTX_SHARED_MAX = 232448, // most bytes per block on sm_90
    PTX_SEVERAL = PTX_LANES, // used instead of a lane: more than one lane
    PTX_ALL = -1             // mask of all lanes
};

// An operand: 32 lanes of `bytes` bytes each, in a warp's registers or among the kernel's
// constants. A predicate (bytes 0) is one 32-bit word.
struct ptx_operand {
    uint32_t at;
    int32_t offset; // of an address: added to the value of each lane
    uint8_t bytes;
    bool constant, absent;
};

enum ptx_flow { FLOW_NONE, FLOW_BRANCH, FLOW_RETURN, FLOW_BARRIER };
enum ptx_space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM };

struct ptx_warp;
struct ptx_ins;
typedef void ptx_run(struct ptx_warp *w, const struct ptx_ins *i);

// One row of the table of opcodes. `shape` has a letter per operand, with vectors flattened: h w d:
// a register of 2, 4, 8 bytes that is written, t: one of any size; 2 4 8: a register or number of
// that many bytes, n: of any size; p: a predicate, q: an optional predicate, P: a predicate or
// number; a: an address, l: a label, i: a number; A, B and C: what a cp.async copies, 4, 8 or 16
// bytes.
struct ptx_form {
    const char *opcode, *shape;
    ptx_run *run;
    uint8_t flow;
};

// The suffixes of loads, stores and atomics.
struct ptx_access {
    uint8_t space, bytes, count; // bytes of an element; count: elements per lane
    bool is_signed;
    bool readonly; // true: .nc
};

struct ptx_ins {
    ptx_run *run;
    struct ptx_operand x[PTX_OPERANDS_MAX];
    struct ptx_operand guard; // absent: always executed
    struct ptx_access access;
    uint8_t flow, operands;
    bool guard_negated;
    bool uniform;    // true: bra.uni, all lanes take the same way
    bool division;   // true: a division or a remainder
    uint32_t target; // target of a branch
    uint32_t meet;   // of a branch: where its lanes reconverge; the length of the code: at the end
    uint32_t line;   // line of the text
    uint32_t file, source_line;
    uint32_t opcode; // index in the kernel's list of opcodes
};

struct ptx_special {
    uint32_t at; // offset in the registers
    uint8_t which;
};
enum {
    SPECIAL_TID_X,
    SPECIAL_TID_Y,
    SPECIAL_TID_Z,
    SPECIAL_NTID_X,
    SPECIAL_NTID_Y,
    SPECIAL_NTID_Z,
    SPECIAL_CTAID_X,
    SPECIAL_CTAID_Y,
    SPECIAL_CTAID_Z,
    SPECIAL_NCTAID_X,
    SPECIAL_NCTAID_Y,
    SPECIAL_NCTAID_Z,
    SPECIAL_LANE,
    SPECIAL_COUNT
};

struct ptx_opcode_count {
    char *opcode; // opcode as written
    const struct ptx_form *form;
    struct ptx_access access;
};

struct ptx_parameter {
    uint32_t at, bytes;
};

// An array in shared memory. Arrays are apart from each other and at odd multiples of their
// alignment, so that an access after an end, or with more alignment than declared, is detected.
struct ptx_array {
    uint32_t at, bytes;
};

struct ptx_kernel {
    char *name;
    struct ptx_ins *code;
    uint64_t *issued; // number of times each instruction was issued
    uint32_t code_count;
    uint32_t register_bytes; // bytes of registers per warp
    char *constants;
    uint32_t constant_bytes;
    uint32_t parameter_bytes, local_bytes; // local: per lane
    uint32_t shared_bytes;                 // static shared memory as a card places it
    uint32_t shared_end, dynamic_align;    // shared memory as placed here
    uint32_t dynamic_at;
    struct ptx_array *arrays; // arrays of the module come first
    uint32_t array_count;
    uint32_t threads_max; // from .maxntid; 0: any
    uint32_t threads[3];  // from .reqntid; 0: any
    struct ptx_parameter *parameters;
    uint32_t parameter_count;
    struct ptx_special specials[SPECIAL_COUNT];
    uint32_t special_count;
    struct ptx_opcode_count *opcodes;
    uint32_t opcode_count;
    struct ptx_counts counts;
    struct ptx_module *module;
};

struct ptx_module {
    struct ptx_kernel *kernels;
    uint32_t kernel_count;
    char **files; // files by the number of .file
    uint32_t file_count;
};

// Lanes of one path of a divergent branch: `mask` continues at `next` until `meet`.
struct ptx_path {
    uint32_t next, meet, mask;
};
enum { PTX_PATHS_MAX = 64 };

// A use of shared memory by a lane of a warp, at a stamp of the warp; lane PTX_SEVERAL: by more
// than one lane.
struct ptx_user {
    uint32_t stamp;
    uint8_t warp, lane;
};

// The last uses of a word of shared memory, or of a byte of a word that was partly used. Writes
// that cannot be distinguished form a group: atomics, or stores of one value.
struct ptx_cell {
    struct ptx_user write, read; // the last write and the last read
    struct ptx_user before;      // the last write before the group of the last write
    uint32_t writers, readers;   // masks of warps that wrote and read in this phase, that is since
                                 // all warps met at a barrier
    uint32_t phase;
    uint8_t closed; // of a word: mask of bytes that belong to no array
    bool atomic;    // true: the last write was atomic
    bool pending;   // of a word: a cp.async is pending
    bool split;     // of a word: recorded per byte
};
enum ptx_use { USE_READ, USE_WRITE, USE_ATOMIC, USE_COPY };

// A copy that was issued and has not arrived. Groups are numbered per lane.
struct ptx_copy {
    const struct ptx_ins *ins;
    const char *from;
    uint32_t to, bytes, from_bytes; // from_bytes are read; the rest becomes zero
    uint32_t group;
    uint8_t lane;
};

struct ptx_block;
enum ptx_warp_state { WARP_READY, WARP_AT_BARRIER, WARP_DONE };

struct ptx_warp {
    uint32_t mask;  // lanes of the running instruction
    uint32_t gone;  // lanes that have returned
    uint32_t early; // lanes that have not waited for the previous kernel
    char *registers;
    const struct ptx_kernel *kernel;
    struct ptx_block *block;
    uint32_t index;
    enum ptx_warp_state state;
    uint32_t barrier;
    struct ptx_path paths[PTX_PATHS_MAX];
    uint32_t path_count;
    struct ptx_copy *copies;
    uint32_t copy_count, copy_room;
    uint32_t group[PTX_LANES]; // number of each lane's open group
    char *local;               // local memory of all lanes, one after the other
    int lane;                  // lane that a fault concerns; -1: no single lane
    uint64_t issued;           // number of instructions issued
    uint32_t stamp;            // incremented by each barrier, including those of the warp
    uint32_t phase_stamp;      // stamp when all warps last met
};

struct ptx_barrier {
    uint32_t arrived, expected; // number of warps
};

struct ptx_block {
    struct ptx_kernel *kernel;
    const struct ptx_shape *shape;
    const struct ptx_watch *watch;
    const char *parameters;
    uint32_t index[3];
    uint64_t number;
    char *shared;
    // cells: one per word of shared memory; fresh: their state when a block begins
    struct ptx_cell *cells, *fresh;
    struct ptx_cell *parts; // four cells per split word
    uint32_t shared_bytes;
    uint32_t phase; // number of times that all warps met at a barrier
    // [w][o]: stamp of warp o that warp w is ordered after
    uint32_t seen[PTX_WARPS_MAX][PTX_WARPS_MAX];
    struct ptx_readonly *readonly;
    bool seeded;
    uint64_t random;
    const char *first, *end; // the allocation found by the last lookup
    struct ptx_warp *warps;
    uint32_t warp_count;
    struct ptx_barrier barriers[PTX_BARRIERS];
    bool broken;
};

static inline void *ptx_lanes(const struct ptx_warp *w, const struct ptx_operand *o)
{
    return (o->constant ? w->kernel->constants : w->registers) + o->at;
}

// Reports a fault of the instruction, with kernel, line, block and warp, and ends the launch.
void ptx_fault(struct ptx_warp *w, const struct ptx_ins *i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Checks that the complete warp runs an instruction that requires it (.aligned, full masks).
// Returns false after a report.
bool ptx_whole(struct ptx_warp *w, const struct ptx_ins *i);

// forms.c: returns the row in which an opcode of a kernel is counted.
void ptx_row_of(const struct ptx_form *f, const struct ptx_access *a, struct ptx_row *out);

// flow.c: fills `meet` of each branch. Returns false if out of memory.
bool ptx_flow(struct ptx_kernel *kernel);

// memory.c
// At the end of a warp: reports copies that were not waited for.
void ptx_copies_left(struct ptx_warp *w);
uint64_t ptx_address(const struct ptx_warp *w, const struct ptx_operand *o, int lane);

// shared.c: returns the bytes of shared memory at an offset for this use by a lane, or NULL after a
// report. `value`: the bytes to write, if known.
char *ptx_shared(struct ptx_warp *w, const struct ptx_ins *i, int lane, uint64_t at, uint32_t bytes,
                 enum ptx_use use, const void *value);
// Records that the copy has arrived
void ptx_shared_arrived(struct ptx_warp *w, const struct ptx_copy *c);
bool ptx_shared_alloc(struct ptx_block *b); // allocates the cells; false: out of memory
void ptx_shared_begin(struct ptx_block *b);
void ptx_shared_free(struct ptx_block *b);
void ptx_warp_ordered(struct ptx_warp *w); // records a bar.warp.sync
// Orders the warps that met at a barrier after everything that each of them did or was ordered
// after.
void ptx_warps_meet(struct ptx_block *b, uint32_t warps);

// readonly.c: global memory that is read through the texture cache (.nc) must not be written by the
// same launch. Returns false if a byte is used in both ways.
struct ptx_readonly *ptx_readonly_new(void);
void ptx_readonly_free(struct ptx_readonly *r);
bool ptx_readonly_use(struct ptx_readonly *r, uint64_t at, uint32_t bytes, bool write);

uint32_t ptx_random(struct ptx_block *b);
// Fills memory with poison: random by the seed, without a seed 0xFF.
void ptx_poison(struct ptx_block *b, void *to, size_t bytes);
