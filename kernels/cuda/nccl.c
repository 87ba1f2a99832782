// SPDX-License-Identifier: Apache-2.0
// Opening NCCL; see nccl.h.
#include "kernels/cuda/nccl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

// It is not known how older versions end the ranks of a process (comm.c).
enum { NCCL_OLDEST = 21800 };

static bool symbol_find(const struct nccl *nccl, void *field, const char *name, struct error *err)
{
    void *at = dlsym(nccl->library, name);
    if (!at)
        error_set(err, STATUS_NO_DEVICE, "libnccl.so.2 has no %s: NCCL 2.18 or newer is needed",
                  name);
    memcpy(field, &at, sizeof at);
    return at != NULL;
}

// Versions are 10000 * major + 100 * minor + patch; before 2.9, 1000 * major + 100 * minor + patch.
static enum status version_check(struct nccl *nccl, struct error *err)
{
    int version = 0;
    if (nccl->GetVersion(&version) == ncclSuccess && version >= NCCL_OLDEST) {
        nccl->version = version;
        return STATUS_OK;
    }
    int major = version < 10000 ? 1000 : 10000;
    return error_set(err, STATUS_NO_DEVICE,
                     "libnccl.so.2 is NCCL %d.%d.%d, and 2.18 or newer is needed: how older ones "
                     "end the ranks of a process after a fault is not known",
                     version / major, version % major / 100, version % 100);
}

enum status nccl_open(struct nccl *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    out->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!out->library)
        return error_set(err, STATUS_NO_DEVICE,
                         "GPUs that share a model need NCCL, which could not be opened (%s): "
                         "install libnccl2 or name its folder in LD_LIBRARY_PATH",
                         dlerror());
    bool complete = true;
#define NCCL_FIND(result, name, arguments)                                                         \
    complete = complete && symbol_find(out, &out->name, "nccl" #name, err);
    NCCL_LIST(NCCL_FIND)
#undef NCCL_FIND
#define NCCL_FIND(result, name, arguments)                                                         \
    at = dlsym(out->library, "nccl" #name);                                                        \
    memcpy(&out->name, &at, sizeof at);
    void *at;
    NCCL_NEWER(NCCL_FIND)
#undef NCCL_FIND
    if (complete && version_check(out, err) == STATUS_OK)
        return STATUS_OK;
    nccl_close(out);
    return STATUS_NO_DEVICE;
}

void nccl_close(struct nccl *nccl)
{
    if (nccl->library)
        (void)dlclose(nccl->library);
    memset(nccl, 0, sizeof *nccl);
}
