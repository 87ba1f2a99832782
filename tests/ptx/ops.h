// SPDX-License-Identifier: Apache-2.0
// How instructions are implemented: the loop over the active lanes.
#pragma once

#include "tests/ptx/internal.h"

// Runs the statement for each lane l of the mask. If all lanes are active, the loop can be
// vectorized by the compiler.
#define EACH_LANE(w, ...)                                                                          \
    do {                                                                                           \
        uint32_t mask_ = (w)->mask;                                                                \
        if (mask_ == (uint32_t)PTX_ALL) {                                                          \
            _Pragma("GCC ivdep") for (int l = 0; l < PTX_LANES; l++)                               \
            {                                                                                      \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
        } else {                                                                                   \
            for (int l = 0; l < PTX_LANES; l++)                                                    \
                if (mask_ >> l & 1) {                                                              \
                    __VA_ARGS__;                                                                   \
                }                                                                                  \
        }                                                                                          \
    } while (0)

extern const struct ptx_form ptx_alu_forms[], ptx_memory_forms[], ptx_warp_forms[];
