// SPDX-License-Identifier: Apache-2.0
// An interpreter of PTX, the instructions that nvcc generates for weft's kernels: a text is decoded
// once, then its kernels run block by block on the host, each warp in lockstep over 32 lanes.
//
// Source of the semantics: "Parallel Thread Execution ISA", version 9.0, NVIDIA. Implements what
// weft's kernels and Triton's use (forms.c); any other opcode is an error that contains its name.
// Functions are called by one thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ptx_module;
struct ptx_kernel;

// The memory that a kernel may access, and the callback for faults.
struct ptx_watch {
    // Finds the allocation of device memory that contains `bytes` bytes from `at`. Returns false if
    // there is none.
    bool (*memory)(const void *at, size_t bytes, const char **first, const char **end);
    void (*report)(const char *text);
};

struct ptx_shape {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; // bytes of dynamic shared memory
    uint32_t seed; // 0: blocks and warps run in order and poison is 0xFF; otherwise both are random
                   // by this seed
    bool early;    // true: it may begin before the previous kernel has ended
};

// Counts since the module was decoded, without launches that ended in a fault. An instruction of a
// warp counts once, whatever lanes are active. These are PTX instructions, not those of a card:
// there moves and conversions may vanish, and a division becomes ten to forty instructions.
struct ptx_counts {
    uint64_t launches, blocks, warps;
    uint64_t instructions;
    uint64_t divisions;                  // number of div and rem instructions
    uint64_t mma, ldmatrix, copies;      // numbers of these instructions; copies: cp.async
    uint64_t matrices, matrix_conflicts; // matrices of ldmatrix, and passes beyond one per matrix
    // Loads, stores, atomics, ldmatrix and copies: a request has one to four passes, an ldmatrix
    // one per matrix, and an atomic one per lane of a word. Accesses of 64 bits per lane always
    // count as two half warps, which a card can merge.
    uint64_t shared_requests, shared_passes;
    uint64_t shared_passes_least;             // passes of the same requests without any conflict
    uint64_t global_requests, global_sectors; // sectors: 32 bytes each
    uint64_t local_requests, local_sectors;
    uint64_t barriers;
};

// Decodes `text`, which need not end with NUL and is not kept. Returns NULL if it cannot be
// decoded; `why` then receives the reason with the line.
struct ptx_module *ptx_module_read(const char *text, size_t bytes, char *why, size_t why_bytes);
void ptx_module_free(struct ptx_module *module);

// Returns the kernel of that name, which the module owns; NULL: there is none.
struct ptx_kernel *ptx_kernel_find(struct ptx_module *module, const char *name);
// NULL: no more kernels
struct ptx_kernel *ptx_kernel_at(struct ptx_module *module, uint32_t index);
const char *ptx_kernel_name(const struct ptx_kernel *kernel);
uint32_t ptx_kernel_shared_bytes(const struct ptx_kernel *kernel); // bytes of static shared memory
uint32_t ptx_kernel_parameter_bytes(const struct ptx_kernel *kernel);
// Returns a parameter's offset among the launch parameters and its bytes; false: there is no such
// parameter.
bool ptx_kernel_parameter(const struct ptx_kernel *kernel, uint32_t index, uint32_t *at,
                          uint32_t *bytes);
void ptx_kernel_counts(const struct ptx_kernel *kernel, struct ptx_counts *out);

// A row of the table: an opcode and the shape of its operands (internal.h). Loads and stores have a
// row for each space, vector and type (ld.shared.v2.b16; b also means u and f), atomics for each
// space.
struct ptx_row {
    char opcode[64];
    const char *shape;
};
// How often an instruction was issued: its opcode as written, and the row that ran it.
struct ptx_issued {
    const char *opcode;
    struct ptx_row row;
    uint64_t issued;
};
// Returns the counts of the index-th opcode of the kernel; false at the end.
bool ptx_kernel_opcode(const struct ptx_kernel *kernel, uint32_t index, struct ptx_issued *out);

// Returns the counts of the index-th instruction of the code, with its line of the text; false at
// the end.
bool ptx_kernel_line(const struct ptx_kernel *kernel, uint32_t index, uint32_t *line,
                     uint64_t *issued);
// also clears the counts of opcodes and lines
void ptx_kernel_counts_clear(struct ptx_kernel *kernel);

// Runs all blocks. `parameters` are those of the launch, in the layout of the parameter space.
// Returns false if a fault was reported, and the rest did not run.
bool ptx_kernel_run(struct ptx_kernel *kernel, const struct ptx_shape *shape,
                    const void *parameters, const struct ptx_watch *watch);

// Returns the index-th row of the table; false at the end.
bool ptx_opcode(uint32_t index, struct ptx_row *out);

#ifdef __cplusplus
}
#endif
