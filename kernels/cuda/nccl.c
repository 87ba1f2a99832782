// Opening NCCL; see nccl.h.
#include "kernels/cuda/nccl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

static bool symbol_find(const struct nccl *nccl, void *field, const char *name, struct error *err)
{
    void *at = dlsym(nccl->library, name);
    if (!at)
        error_set(err, STATUS_NO_DEVICE, "libnccl.so.2 has no %s: NCCL 2.18 or newer is needed",
                  name);
    memcpy(field, &at, sizeof at);
    return at != NULL;
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
    bool whole = true;
#define NCCL_FIND(result, name, arguments)                                                         \
    whole = whole && symbol_find(out, &out->name, "nccl" #name, err);
    NCCL_LIST(NCCL_FIND)
#undef NCCL_FIND
    if (whole)
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
