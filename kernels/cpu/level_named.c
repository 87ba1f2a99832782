// SPDX-License-Identifier: Apache-2.0
// Reports which ISA levels the processor has according to CPUID, and whether the kernel permits
// AMX. A separate file, because tests link emulated instructions instead (tests/kernels/tiles.c).
#include "kernels/cpu/internal.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM_CODE = 0x1023, XFEATURE_TILE_DATA = 18 };
enum { AMX_BF16_BIT = 22, AMX_TILE_BIT = 24, AMX_INT8_BIT = 25 };

static bool amx_detect(void)
{
    const uint32_t wanted = 1u << AMX_BF16_BIT | 1u << AMX_TILE_BIT | 1u << AMX_INT8_BIT;
    uint32_t a, b, c, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & wanted) == wanted &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM_CODE, XFEATURE_TILE_DATA) == 0;
}

static bool f16c_named(void) // clang's __builtin_cpu_supports does not know "f16c"
{
    uint32_t a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool cpu_isa_reported(enum cpu_isa level)
{
    __builtin_cpu_init();
    switch (level) {
    case CPU_AMX:
        return cpu_isa_reported(CPU_AVX512BF16) && amx_detect();
    case CPU_AVX512BF16:
        return cpu_isa_reported(CPU_AVX512) && __builtin_cpu_supports("avx512bf16");
    case CPU_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni") && cpu_isa_reported(CPU_AVX2);
    case CPU_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c_named();
    default:
        return true;
    }
}
