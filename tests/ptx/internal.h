// Private to the interpreter: decoded instructions, kernels, warps.
#pragma once

#include "ptx.h"

enum {
    PTX_LANES = 32,
    PTX_OPERANDS_MAX = 16,
    PTX_WARPS_MAX = 32,
    PTX_BARRIERS = 16,
    PTX_SHARED_MAX = 232448, // bytes a block can have on sm_90
    PTX_SEVERAL = PTX_LANES, // in place of a lane: more than one
    PTX_ALL = -1             // mask of all lanes
};

// 32 lanes of `bytes` bytes each in a warp's registers or among the kernel's constants; a predicate
// (bytes 0) is one word of 32 bits.
struct ptx_operand {
    uint32_t at;
    int32_t offset; // of an address: added to the lanes' value
    uint8_t bytes;
    bool constant, absent;
};

enum ptx_flow { FLOW_NONE, FLOW_BRANCH, FLOW_RETURN, FLOW_BARRIER };
enum ptx_space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM };

struct ptx_warp;
struct ptx_ins;
typedef void ptx_run(struct ptx_warp *w, const struct ptx_ins *i);

// One row of the table of opcodes. `shape` has a letter an operand, vectors flattened: h w d a
// register of 2, 4, 8 bytes that is written, t one of any size, 2 4 8 a register or number of that
// many bytes, n one of any size, p a predicate, q a predicate that may be left out, P a predicate
// or number, a an address, l a label, i a number, A, B and C what a cp.async copies: 4, 8, 16.
struct ptx_form {
    const char *opcode, *shape;
    ptx_run *run;
    uint8_t flow;
};

// What suffixes of loads, stores and atomics say.
struct ptx_access {
    uint8_t space, bytes, count; // of one element; elements a lane
    bool is_signed;
    bool readonly; // .nc
};

struct ptx_ins {
    ptx_run *run;
    struct ptx_operand x[PTX_OPERANDS_MAX];
    struct ptx_operand guard; // absent: always
    struct ptx_access access;
    uint8_t flow, operands;
    bool guard_negated;
    bool uniform;    // bra.uni: all lanes go one way
    bool division;   // or a remainder
    uint32_t target; // of a branch
    uint32_t meet;   // of a branch: where its lanes come together; the code's length: at the end
    uint32_t line;   // of the text
    uint32_t file, source_line;
    uint32_t opcode; // index in the kernel's list of opcodes
};

struct ptx_special {
    uint32_t at; // in the registers
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
    char *opcode; // as written
    const struct ptx_form *form;
    struct ptx_access access;
};

struct ptx_parameter {
    uint32_t at, bytes;
};

// An array in shared memory. Arrays lie apart and at odd multiples of their alignment, so that what
// runs over an end, or wants more than was declared, is seen.
struct ptx_array {
    uint32_t at, bytes;
};

struct ptx_kernel {
    char *name;
    struct ptx_ins *code;
    uint64_t *issued; // of each instruction of the code
    uint32_t code_count;
    uint32_t register_bytes; // of a warp
    char *constants;
    uint32_t constant_bytes;
    uint32_t parameter_bytes, local_bytes; // local: of a lane
    uint32_t shared_bytes;                 // static, as a card places it
    uint32_t shared_end, dynamic_align;    // as placed here
    uint32_t dynamic_at;
    struct ptx_array *arrays; // of the module first
    uint32_t array_count;
    uint32_t threads_max; // .maxntid; 0: any
    uint32_t threads[3];  // .reqntid; 0: any
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
    char **files; // by the number of .file
    uint32_t file_count;
};

// Lanes that wait to come together again: `mask` goes on at `next` until `meet`.
struct ptx_path {
    uint32_t next, meet, mask;
};
enum { PTX_PATHS_MAX = 64 };

// A use of shared memory: by a lane of a warp at a stamp of the warp; PTX_SEVERAL: by more than
// one.
struct ptx_user {
    uint32_t stamp;
    uint8_t warp, lane;
};

// Who used a word of shared memory, or a byte of one that was used in part. Writes that nobody can
// tell apart are a group: atomics, or stores of one value.
struct ptx_cell {
    struct ptx_user write, read; // the last ones
    struct ptx_user before;      // the last write before the last one's group
    uint32_t writers, readers;   // warps that wrote and read since all met at a barrier: in a phase
    uint32_t phase;
    uint8_t closed; // of a word: bytes that belong to no array
    bool atomic;    // the last one's group
    bool pending;   // of a word: a cp.async is to arrive
    bool split;     // of a word: remembered by its bytes
};
enum ptx_use { USE_READ, USE_WRITE, USE_ATOMIC, USE_COPY };

// A copy that was begun and is not there yet. Groups count up a lane.
struct ptx_copy {
    const struct ptx_ins *ins;
    const char *from;
    uint32_t to, bytes, from_bytes; // zeros after those that are read
    uint32_t group;
    uint8_t lane;
};

struct ptx_block;
enum ptx_warp_state { WARP_READY, WARP_AT_BARRIER, WARP_DONE };

struct ptx_warp {
    uint32_t mask;  // lanes of the instruction that runs
    uint32_t gone;  // lanes that have returned
    uint32_t early; // lanes that have not waited for the kernel in front
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
    uint32_t group[PTX_LANES]; // the number of each lane's open group
    char *local;               // all lanes' local memory, one after another
    int lane;                  // that a fault is about; -1: no single one
    uint64_t issued;           // instructions
    uint32_t stamp;            // goes up with each barrier, of the warp too
    uint32_t phase_stamp;      // when all warps met the last time
};

struct ptx_barrier {
    uint32_t arrived, expected; // warps
};

struct ptx_block {
    struct ptx_kernel *kernel;
    const struct ptx_shape *shape;
    const struct ptx_watch *watch;
    const char *parameters;
    uint32_t index[3];
    uint64_t number;
    char *shared;
    struct ptx_cell *cells, *fresh; // a cell a word of shared memory; as a block begins
    struct ptx_cell *parts;         // four a word, of those that are split
    uint32_t shared_bytes;
    uint32_t phase;                              // times that all warps met at a barrier
    uint32_t seen[PTX_WARPS_MAX][PTX_WARPS_MAX]; // [w][o]: the stamp of o that w is ordered after
    struct ptx_readonly *readonly;
    bool seeded;
    uint64_t random;
    const char *first, *end; // the allocation that was looked up last
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
// For instructions that want their whole warp (.aligned, full masks). false: reported.
bool ptx_whole(struct ptx_warp *w, const struct ptx_ins *i);

// forms.c: the row that an opcode of a kernel counts to.
void ptx_row_of(const struct ptx_form *f, const struct ptx_access *a, struct ptx_row *out);

// flow.c: fills `meet` of each branch. false: out of memory.
bool ptx_flow(struct ptx_kernel *kernel);

// memory.c
// At the end of a warp: reports what nobody waited for.
void ptx_copies_left(struct ptx_warp *w);
uint64_t ptx_address(const struct ptx_warp *w, const struct ptx_operand *o, int lane);

// shared.c: bytes of shared memory at an offset for this use by a lane, or NULL, reported. `value`:
// what is written, where that is known.
char *ptx_shared(struct ptx_warp *w, const struct ptx_ins *i, int lane, uint64_t at, uint32_t bytes,
                 enum ptx_use use, const void *value);
void ptx_shared_arrived(struct ptx_warp *w, const struct ptx_copy *c); // what was copied is there
bool ptx_shared_take(struct ptx_block *b);                             // false: out of memory
void ptx_shared_begin(struct ptx_block *b);
void ptx_shared_give(struct ptx_block *b);
void ptx_warp_ordered(struct ptx_warp *w); // bar.warp.sync
// Warps that met at a barrier are ordered after all that each of them did or knew of.
void ptx_warps_meet(struct ptx_block *b, uint32_t warps);

// readonly.c: global memory that is read by way of the texture cache (.nc) must not be written by
// the same launch. false: a byte is used in both ways.
struct ptx_readonly *ptx_readonly_new(void);
void ptx_readonly_free(struct ptx_readonly *r);
bool ptx_readonly_use(struct ptx_readonly *r, uint64_t at, uint32_t bytes, bool write);

uint32_t ptx_random(struct ptx_block *b);
void ptx_poison(struct ptx_block *b, void *to, size_t bytes); // by the seed; 0xFF without
