// An interpreter of PTX, the instructions that nvcc makes of our kernels: a text is decoded once,
// then its kernels run block by block on the host, each warp in lockstep over 32 lanes.
//
// Source of the semantics: "Parallel Thread Execution ISA", version 9.0, NVIDIA. Known to it is
// what our kernels and Triton's use (forms.c); any other opcode is an error that names it.
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

// What a kernel may touch, and who hears of its faults.
struct ptx_watch {
    // The allocation of device memory that holds `bytes` bytes from `at`; false: none does.
    bool (*memory)(const void *at, size_t bytes, const char **first, const char **end);
    void (*report)(const char *text);
};

struct ptx_shape {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; // dynamic shared memory
    uint32_t seed;         // 0: blocks and warps in order, poison 0xFF; else all of it random by it
    bool early;            // it may begin before the kernel in front of it has ended
};

// Counted since the module was read, without launches that ended in a fault. An instruction of a
// warp counts once, whatever lanes it has. These are instructions of PTX, not of a card: moves and
// conversions may vanish there, and a division becomes ten to forty.
struct ptx_counts {
    uint64_t launches, blocks, warps;
    uint64_t instructions;
    uint64_t divisions;                  // of them: div and rem
    uint64_t mma, ldmatrix, copies;      // of them; copies: cp.async
    uint64_t matrices, matrix_conflicts; // of ldmatrix; passes beyond one a matrix
    // Loads, stores, atomics, ldmatrix and copies: a request is one to four passes, an ldmatrix one
    // a matrix, and an atomic one for each lane of a word. 64 bits a lane always count as two
    // halves of a warp, which a card can merge.
    uint64_t shared_requests, shared_passes;
    uint64_t shared_passes_least;             // of the same requests without any conflict
    uint64_t global_requests, global_sectors; // sectors of 32 bytes
    uint64_t local_requests, local_sectors;
    uint64_t barriers;
};

// Decodes `text`, which need not end with NUL and is not kept. NULL: `why` says what is wrong, with
// the line.
struct ptx_module *ptx_module_read(const char *text, size_t bytes, char *why, size_t why_bytes);
void ptx_module_free(struct ptx_module *module);

// NULL: no such entry. Belongs to the module.
struct ptx_kernel *ptx_kernel_find(struct ptx_module *module, const char *name);
struct ptx_kernel *ptx_kernel_at(struct ptx_module *module, uint32_t index); // NULL: the end
const char *ptx_kernel_name(const struct ptx_kernel *kernel);
uint32_t ptx_kernel_shared_bytes(const struct ptx_kernel *kernel); // static ones
uint32_t ptx_kernel_parameter_bytes(const struct ptx_kernel *kernel);
// Where a parameter lies among those of the launch, and its bytes; false: there are not so many.
bool ptx_kernel_parameter(const struct ptx_kernel *kernel, uint32_t index, uint32_t *at,
                          uint32_t *bytes);
void ptx_kernel_counts(const struct ptx_kernel *kernel, struct ptx_counts *out);

// A row of the table: an opcode and the shape of its operands (internal.h). Loads and stores have a
// row for each space, vector and type (ld.shared.v2.b16; b stands for u and f too), atomics for
// each space.
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
// For each opcode of the kernel: false at the end.
bool ptx_kernel_opcode(const struct ptx_kernel *kernel, uint32_t index, struct ptx_issued *out);

// The same for an instruction of the code, with its line of the text: false at the end.
bool ptx_kernel_line(const struct ptx_kernel *kernel, uint32_t index, uint32_t *line,
                     uint64_t *issued);
void ptx_kernel_counts_clear(struct ptx_kernel *kernel); // of opcodes and lines too

// Runs all blocks. `parameters` are those of the launch, as they lie in the parameter space.
// false: a fault was reported, and the rest did not run.
bool ptx_kernel_run(struct ptx_kernel *kernel, const struct ptx_shape *shape,
                    const void *parameters, const struct ptx_watch *watch);

// The rows of the table in its order; false at the end.
bool ptx_opcode(uint32_t index, struct ptx_row *out);

#ifdef __cplusplus
}
#endif
