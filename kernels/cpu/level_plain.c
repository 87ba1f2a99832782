// SPDX-License-Identifier: Apache-2.0
// The kernels in plain C. This file and what it includes are compiled with the flags of the ISA
// level (CMakeLists.txt); its kernels run only after cpu_isa_find has checked the processor.
#include "kernels/cpu/internal.h"
#include "kernels/cpu/lanes_plain.h"
#include "kernels/cpu/codes_plain.h"
#include "kernels/cpu/level.inc"
#include "kernels/cpu/bytes.inc"

struct cpu_kernels cpu_kernels_plain(void)
{
    return level_kernels();
}
