// SPDX-License-Identifier: Apache-2.0
// AMX tiles, for the files of the AMX level only.
#pragma once

#include <immintrin.h>
#include <stdint.h>

struct attn_job;
struct product;

void attn_amx(const struct attn_job *job); // for keys and values in bf16
void attn_amx_merge(const struct attn_job *job);
// Computes slabs [first, end) of a product with weights held as codes (cpu_kernels.codes).
void codes_amx(const struct product *, uint32_t first, uint32_t end, uint32_t worker);
void amx_begin(void); // configures eight tiles of 16 rows x 64 bytes for this thread
// Configures tiles for groups of 32 bytes for this thread: 0 to 3 are 16 rows x 64 bytes (sums), 4
// and 5 are 16 x 32, 6 and 7 are 8 x 64.
void amx_begin_groups(void);

static inline void amx_end(void)
{
    _tile_release(); // so that context switches need not save the tiles
}
