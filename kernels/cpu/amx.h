// SPDX-License-Identifier: Apache-2.0
// AMX tiles, for the files of the AMX level only.
#pragma once

#include <immintrin.h>

struct attn_job;

void attn_amx(const struct attn_job *job); // for keys and values in bf16
void attn_amx_merge(const struct attn_job *job);
void amx_begin(void); // configures eight tiles of 16 rows x 64 bytes for this thread

static inline void amx_end(void)
{
    _tile_release(); // so that context switches need not save the tiles
}
