// Whether this processor has AMX and the kernel permits it. A file of its own because tests link
// emulated tiles instead (tests/kernels/tiles.c).
#include "kernels/cpu/internal.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM_CODE = 0x1023, XFEATURE_TILE_DATA = 18 };
enum { AMX_BF16_BIT = 22, AMX_TILE_BIT = 24, AMX_INT8_BIT = 25 };

bool amx_detect(void)
{
    const uint32_t wanted = 1u << AMX_BF16_BIT | 1u << AMX_TILE_BIT | 1u << AMX_INT8_BIT;
    uint32_t a, b, c, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & wanted) == wanted &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM_CODE, XFEATURE_TILE_DATA) == 0;
}
