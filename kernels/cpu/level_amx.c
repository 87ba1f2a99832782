// AMX: the AVX-512 kernels, with tiles for products of bf16 and int8. 
#include "kernels/cpu/cpu.h"

const struct cpu_kernels *cpu_kernels_amx(void)
{
    return cpu_kernels_avx512();
}
