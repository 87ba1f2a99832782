// SPDX-License-Identifier: Apache-2.0
// Collectives of emulated ranks in several processes, for the stand-in of NCCL (nccl.cpp): the
// ranks of a communicator map one file, in which each has a place for the data of its current call.
// The caller holds emu_lock.
#pragma once

#include "emu.h"
#define _Noreturn [[noreturn]] // the included headers are C
#include "kernels/cuda/nccl.h"

namespace simt
{

enum call_kind { ALL_REDUCE, ALL_GATHER, BROADCAST };

struct call {
    call_kind kind;
    const void *from;
    void *to;
    size_t count;
    int type, root;    // type: of NCCL's enum; only all_reduce has others than float32
    size_t window = 0; // 1 + offset of `to` in its window; 0: the data are not in a window
};

// The values of NCCL's enum, so that wrong ones in nccl.h are detected.
enum { FLOAT16_TYPE = 6, FLOAT32_TYPE = 7, BFLOAT16_TYPE = 9 };
size_t element_bytes(int type); // 0: the stand-in does not know the type
// Sums element i of the data of all ranks as in a ring: the order depends on the position of the
// element, as it may with NCCL, and each partial sum is rounded to the type.
void element_sum(const call &c, size_t i, const std::vector<const void *> &data, void *to);

// Reports a call of a rank that differs from that of rank 0.
void call_compare(const call &c, unsigned rank, const call &first, uint64_t number);

struct rank_file; // the mapped file of a communicator

// Makes the file and writes its path to `id`. Returns false if it cannot be made.
bool file_create(char *id, size_t bytes);
// Maps the file for a rank, which thereby has come. Null: there is no such file.
std::shared_ptr<rank_file> file_open(const char *id, unsigned ranks, unsigned rank);
bool file_complete(const rank_file &file); // true if all ranks have come
bool file_lost(const rank_file &file);     // true if the process of a rank has ended

// Notes that a rank registers a window, and returns how many it has registered so far;
// file_registered: true if all ranks have registered that many.
uint64_t file_register(rank_file &file, unsigned rank);
bool file_registered(const rank_file &file, uint64_t windows);

// Stores the data of a rank's call, once the ranks have read those of its call before. Returns true
// if all ranks have stored theirs.
bool file_arrive(rank_file &file, unsigned rank, uint64_t number, const call &c);
// Does the work of the rank's call.
void file_leave(rank_file &file, unsigned rank, uint64_t number, const call &c);

} // namespace simt
