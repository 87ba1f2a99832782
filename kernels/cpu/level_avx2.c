// SPDX-License-Identifier: Apache-2.0
// The kernels in AVX2, FMA and F16C. This file and what it includes are compiled with the flags of
// the ISA level (CMakeLists.txt); its kernels run only after cpu_isa_find has checked the
// processor.
#include "kernels/cpu/internal.h"
#include "kernels/cpu/lanes_avx2.h"
#include "kernels/cpu/codes_avx2.h"
#include "kernels/cpu/codes_rows_avx2.h"
#include "kernels/cpu/level.inc"
#include "kernels/cpu/bytes.inc"

struct cpu_kernels cpu_kernels_avx2(void)
{
    return level_kernels();
}
