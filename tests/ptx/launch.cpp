// The launch of the device ptx. nvcc's own host code registers fat binaries and launches kernels
// through these entry points of the CUDA runtime; here the PTX is taken out of the fat binary, and
// a launch is pushed to the stand-in runtime's stream as a run of the interpreter. All else is the
// emulator's runtime.
//
// A fat binary is a head (magic, version, bytes of head, bytes of the rest) and entries (kind 1:
// PTX; bytes of head and text). Texts are not compressed: the sources are compiled with
// --no-compress.
#include "tests/ptx/ptx.h"
#include "tests/simt/emu.h"

#include <cxxabi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>

namespace simt
{
extern simt_counts counts;
}
using namespace simt;

namespace
{

struct named { // before anybody asks for it
    named()
    {
        device_title = "ptx: what nvcc emits, interpreted";
    }
} named_now;

const uint32_t FAT_MAGIC = 0xBA55ED50u;
enum { FAT_KIND_PTX = 1 };

struct fat_wrapper { // what __cudaRegisterFatBinary is given
    uint32_t magic, version;
    const char *data;
    const void *more;
};
struct fat_head {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t bytes;
};
struct fat_entry {
    uint16_t kind, version;
    uint32_t head_bytes;
    uint64_t bytes;
};

struct binary {
    const char *data;
    ptx_module *module; // read when the first kernel of it is launched
};
struct kernel {
    binary *from;
    const void *host; // the function that stands for it in host code
    std::string entry, shown;
    ptx_kernel *decoded;
};
struct configured {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

std::unordered_map<const void *, kernel> &kernels()
{
    static std::unordered_map<const void *, kernel> all;
    return all;
}

thread_local std::vector<configured> configurations;

ptx_module *module_read(const char *data)
{
    fat_head head;
    memcpy(&head, data, sizeof head);
    const char *at = data + head.head_bytes, *end = at + head.bytes;
    while (head.magic == FAT_MAGIC && at < end) {
        fat_entry entry;
        memcpy(&entry, at, sizeof entry);
        if (entry.kind == FAT_KIND_PTX) {
            const char *text = at + entry.head_bytes;
            char why[512];
            ptx_module *m = ptx_module_read(text, strnlen(text, entry.bytes), why, sizeof why);
            if (m == nullptr)
                report("PTX that cannot be read: %s", why);
            return m;
        }
        at += entry.head_bytes + entry.bytes;
    }
    report("a fat binary holds no PTX");
    return nullptr;
}

ptx_kernel *decode(kernel *k)
{
    if (k->decoded != nullptr)
        return k->decoded;
    if (k->from->module == nullptr)
        k->from->module = module_read(k->from->data);
    if (k->from->module != nullptr)
        k->decoded = ptx_kernel_find(k->from->module, k->entry.c_str());
    if (k->decoded == nullptr)
        report("no PTX of the kernel %s", k->entry.c_str());
    return k->decoded;
}

bool memory_holds(const void *at, size_t bytes, const char **first, const char **end)
{
    const allocation *a = memory_of(at, bytes);
    if (a == nullptr)
        return false;
    *first = a->at;
    *end = a->at + a->bytes;
    return true;
}

void fault(const char *text)
{
    report("%s", text);
}

void run(kernel *k, const ptx_shape &shape, const std::vector<char> &parameters)
{
    static const ptx_watch watch = {memory_holds, fault};
    launch_number++;
    launch_name = k->shown.c_str();
    counts.launches++;
    counts.blocks += (uint64_t)shape.grid[0] * shape.grid[1] * shape.grid[2];
    ptx_shape now = shape;
    now.seed = options.seed != 0 ? options.seed * 2654435761u + launch_number : 0;
    (void)ptx_kernel_run(k->decoded, &now, parameters.data(), &watch);
}

std::vector<char> parameters_take(const ptx_kernel *k, void **arguments)
{
    std::vector<char> out(ptx_kernel_parameter_bytes(k));
    uint32_t at, bytes;
    for (uint32_t i = 0; ptx_kernel_parameter(k, i, &at, &bytes); i++)
        memcpy(out.data() + at, arguments[i], bytes);
    return out;
}

} // namespace

extern "C" {

void **__cudaRegisterFatBinary(void *wrapper)
{
    return (void **)new binary{((fat_wrapper *)wrapper)->data, nullptr};
}

void __cudaRegisterFatBinaryEnd(void **)
{
}

void __cudaUnregisterFatBinary(void **handle)
{
    binary *b = (binary *)handle;
    if (b->module != nullptr)
        ptx_module_free(b->module);
    delete b;
}

char __cudaInitModule(void **)
{
    return 0;
}

void __cudaRegisterFunction(void **handle, const char *host, char *, const char *entry, int, void *,
                            void *, void *, void *, int *)
{
    int status;
    char *shown = abi::__cxa_demangle(entry, nullptr, nullptr, &status);
    kernels()[host] =
        kernel{(binary *)handle, host, entry, shown != nullptr ? shown : entry, nullptr};
    free(shown);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    configurations.push_back({grid, block, shared, (cudaStream_t)stream});
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    configured c = configurations.back();
    configurations.pop_back();
    *grid = c.grid;
    *block = c.block;
    *shared = c.shared;
    *(cudaStream_t *)stream = c.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(void **out, const void *host)
{
    *out = &kernels().at(host);
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *host, int attribute, int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaErrorInvalidValue;
    return shared_allow(host, (size_t)value);
}

cudaError_t __cudaLaunchKernel(void *handle, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream)
{
    std::lock_guard<std::recursive_mutex> hold(emu_lock);
    kernel *k = (kernel *)handle;
    launch_name = k->shown.c_str();
    if (!stream_takes(stream))
        return cudaPeekAtLastError();
    if (!shape_possible({grid, block, shared, k->host, k->shown.c_str()}) || decode(k) == nullptr)
        return cudaErrorLaunchFailure;
    ptx_shape shape = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, (uint32_t)shared, 0};
    std::vector<char> parameters = parameters_take(k->decoded, arguments);
    stream_push(stream,
                [k, shape, parameters = std::move(parameters)] { run(k, shape, parameters); });
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    return __cudaLaunchKernel(&kernels().at(host), grid, block, arguments, shared, stream);
}

} // extern "C"
