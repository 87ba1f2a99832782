// SPDX-License-Identifier: Apache-2.0
// The launch of the device ptx. nvcc's host code registers fat binaries and launches kernels
// through these entry points of the CUDA runtime; here the PTX is extracted from the fat binary,
// and a launch is pushed to the stand-in runtime's stream as a run of the interpreter. All else is
// the emulator's runtime. WEFT_PTX_SEED=N runs warps, blocks and poison by a seed if a test sets
// none; WEFT_PTX_COUNTS=1 prints the counts of each kernel at the end.
//
// A fat binary is a head (magic, version, bytes of head, bytes of the rest) and entries (kind 1:
// PTX; bytes of head and text). Texts are not compressed: the sources are compiled with
// --no-compress.
#include "tests/ptx/launch.h"
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

struct named { // a registered kernel that was not used yet
    named()
    {
        device_title = "ptx: what nvcc emits, interpreted";
    }
} named_now;

const uint32_t FAT_MAGIC = 0xBA55ED50u;
enum { FAT_KIND_PTX = 1 };

struct fat_wrapper { // argument of __cudaRegisterFatBinary
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
    ptx_module *module; // decoded when its first kernel is launched
    std::string text;
    unsigned number;
};
struct kernel {
    binary *from;
    const void *host; // function that represents it in host code
    std::string entry, shown;
    ptx_kernel *decoded;
    size_t dynamic_bytes; // dynamic shared memory of the last launch
};
struct launch_attribute { // cudaLaunchAttribute
    int id;
    uint32_t pad;
    union {
        int early; // value of LAUNCH_ATTRIBUTE_EARLY
        char room[64];
    } value;
};
enum { LAUNCH_ATTRIBUTE_EARLY = 6 }; // cudaLaunchAttributeProgrammaticStreamSerialization
struct launch_config {               // cudaLaunchConfig_t
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    const launch_attribute *attributes;
    unsigned count;
};
struct configured {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

std::unordered_map<const void *, kernel> &kernels()
{
    // never destroyed: counts_print reads it
    static auto *all = new std::unordered_map<const void *, kernel>;
    return *all;
}

thread_local std::vector<configured> configurations;

// Dynamic shared memory that cudaFuncSetAttribute has allowed, by kernel.
std::unordered_map<const void *, size_t> &allowed()
{
    static std::unordered_map<const void *, size_t> all;
    return all;
}

ptx_module *module_read(const char *data, std::string *read)
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
            read->assign(text, strnlen(text, entry.bytes));
            ptx_module *m = ptx_module_read(read->data(), read->size(), why, sizeof why);
            if (m == nullptr)
                report("PTX that cannot be read: %s", why);
            return m;
        }
        at += entry.head_bytes + entry.bytes;
    }
    report("a fat binary holds no PTX");
    return nullptr;
}

// Opcodes that must be in a kernel although no result depends on them here, because blocks run one
// after the other and there are no caches; on a card results or speed depend on them.
struct {
    const char *kernel, *opcode;
    unsigned found; // number of decoded kernels of that name
} wanted[] = {
    {"signal_kernel(", "st.release.sys.global.u32", 0}, // the host reads tokens after this store
    {"gemm_small_kernel<bf16, bf16,", "ld.global.nc.L1::no_allocate.L2::256B.v4.u32", 0},
    {"gemm_small_kernel<f16, f16,", "ld.global.nc.L1::no_allocate.L2::256B.v4.u32", 0},
    {"experts_small_kernel<bf16, bf16>", "ld.global.nc.L1::no_allocate.L2::256B.v4.u32", 0},
    {"experts_wide_kernel<", "cp.async.cg.shared.global.L2::128B", 0},
    {"gemm_wide_kernel<", "cp.async.cg.shared.global.L2::128B", 0},
    {"attn_kernel<", "cp.async.cg.shared.global.L2::128B", 0},
    // the block whose part arrives last reads the parts of the other blocks
    {"attn_kernel<bf16, bf16, 128, 16>", "atom.acq_rel.gpu.global.add.u32", 0},
};

bool holds(const ptx_kernel *k, const char *opcode)
{
    ptx_issued one;
    for (uint32_t i = 0; ptx_kernel_opcode(k, i, &one); i++)
        if (strcmp(one.opcode, opcode) == 0)
            return true;
    return false;
}

void opcodes_wanted(const kernel &k)
{
    for (auto &w : wanted) {
        if (k.shown.find(w.kernel) == std::string::npos)
            continue;
        w.found++;
        if (!holds(k.decoded, w.opcode))
            report("the kernel %s lacks %s", k.shown.c_str(), w.opcode);
    }
}

ptx_kernel *decode(kernel *k)
{
    if (k->decoded != nullptr)
        return k->decoded;
    if (k->from->module == nullptr)
        k->from->module = module_read(k->from->data, &k->from->text);
    if (k->from->module != nullptr)
        k->decoded = ptx_kernel_find(k->from->module, k->entry.c_str());
    if (k->decoded == nullptr)
        report("no PTX of the kernel %s", k->entry.c_str());
    else
        opcodes_wanted(*k);
    return k->decoded;
}

uint32_t launch_seed()
{
    static const char *text = getenv("WEFT_PTX_SEED");
    if (options.seed != 0 || text == nullptr)
        return options.seed;
    return (uint32_t)strtoul(text, nullptr, 0);
}

void count(const char *name, const ptx_counts &before, const ptx_counts &now)
{
    simt_lint more = {};
    more.launches = 1;
    more.shared_requests = now.shared_requests - before.shared_requests;
    more.shared_conflicts = now.shared_passes - now.shared_passes_least -
                            (before.shared_passes - before.shared_passes_least);
    more.global_requests = now.global_requests - before.global_requests;
    more.global_sectors = now.global_sectors - before.global_sectors;
    lint_add(name, more);
    counts.ldsm += now.matrices - before.matrices;
    counts.ldsm_conflicts += now.matrix_conflicts - before.matrix_conflicts;
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

const char *only; // name of the kernels that run; null: all

void run(kernel *k, const ptx_shape &shape, const std::vector<char> &parameters)
{
    static const ptx_watch watch = {memory_holds, fault};
    launch_number++;
    launch_name = k->shown.c_str();
    counts.launches++;
    counts.early += shape.early;
    product_record(launch_name);
    k->dynamic_bytes = shape.shared_bytes;
    if (only != nullptr && k->shown.find(only) == std::string::npos)
        return;
    counts.blocks += (uint64_t)shape.grid[0] * shape.grid[1] * shape.grid[2];
    ptx_shape now = shape;
    uint32_t seed = launch_seed();
    now.seed = seed != 0 ? seed * 2654435761u + launch_number : 0;
    ptx_counts before, after;
    ptx_kernel_counts(k->decoded, &before);
    (void)ptx_kernel_run(k->decoded, &now, parameters.data(), &watch);
    ptx_kernel_counts(k->decoded, &after);
    count(k->shown.c_str(), before, after);
}

std::vector<char> parameters_copy(const ptx_kernel *k, void **arguments)
{
    std::vector<char> out(ptx_kernel_parameter_bytes(k));
    uint32_t at, bytes;
    for (uint32_t i = 0; ptx_kernel_parameter(k, i, &at, &bytes); i++)
        memcpy(out.data() + at, arguments[i], bytes);
    return out;
}

// Returns true if static and dynamic shared memory together are at most `most` bytes.
bool shared_fits(kernel *k, size_t dynamic, size_t most)
{
    return decode(k) != nullptr && ptx_kernel_shared_bytes(k->decoded) + dynamic <= most;
}

// Prints the counts of each kernel, if requested.
__attribute__((destructor)) void counts_print()
{
    if (getenv("WEFT_PTX_COUNTS") == nullptr)
        return;
    fprintf(stderr, "kernel: warps, instructions, divisions, mma, ldmatrix, copies, shared "
                    "requests, passes, least, global requests, sectors, local sectors, barriers\n");
    for (auto &one : kernels()) {
        ptx_counts c = {};
        if (one.second.decoded != nullptr)
            ptx_kernel_counts(one.second.decoded, &c);
        if (c.launches == 0)
            continue;
        const uint64_t all[] = {c.warps,
                                c.instructions,
                                c.divisions,
                                c.mma,
                                c.ldmatrix,
                                c.copies,
                                c.shared_requests,
                                c.shared_passes,
                                c.shared_passes_least,
                                c.global_requests,
                                c.global_sectors,
                                c.local_sectors,
                                c.barriers};
        fprintf(stderr, "%s:", one.second.shown.c_str());
        for (uint64_t n : all)
            fprintf(stderr, " %llu", (unsigned long long)n);
        fprintf(stderr, "\n");
    }
}

void line_write(FILE *to, const char *what, const kernel &k, const ptx_counts &c, bool lines)
{
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {
        {"module", k.from->number},
        {"shared", ptx_kernel_shared_bytes(k.decoded) + k.dynamic_bytes},
        {"launches", c.launches},
        {"blocks", c.blocks},
        {"warps", c.warps},
        {"instructions", c.instructions},
        {"divisions", c.divisions},
        {"mma", c.mma},
        {"ldmatrix", c.ldmatrix},
        {"copies", c.copies},
        {"wavefronts", c.shared_passes},
        {"conflicts", c.shared_passes - c.shared_passes_least},
        {"requests", c.global_requests},
        {"sectors", c.global_sectors},
        {"local", c.local_sectors},
        {"barriers", c.barriers},
    };
    fprintf(to, "{\"case\":\"%s\",\"kernel\":\"%s\",\"entry\":\"%s\"", what, k.shown.c_str(),
            k.entry.c_str());
    for (auto &one : all)
        fprintf(to, ",\"%s\":%llu", one.name, (unsigned long long)one.value);
    uint32_t line;
    uint64_t issued;
    const char *between = ",\"lines\":[";
    for (uint32_t i = 0; lines && ptx_kernel_line(k.decoded, i, &line, &issued); i++) {
        fprintf(to, "%s[%u,%llu]", between, line, (unsigned long long)issued);
        between = ",";
    }
    fprintf(to, "%s}\n", lines ? "]" : "");
}

} // namespace

extern "C" {

void ptx_counts_write(FILE *to, const char *what, bool lines)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    for (auto &one : kernels()) {
        ptx_counts c = {};
        if (one.second.decoded == nullptr)
            continue;
        ptx_kernel_counts(one.second.decoded, &c);
        if (c.launches != 0)
            line_write(to, what, one.second, c, lines);
        ptx_kernel_counts_clear(one.second.decoded);
    }
    fflush(to);
}

void ptx_texts_write(const char *folder)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    std::unordered_map<const binary *, bool> written;
    for (auto &one : kernels()) {
        const binary *b = one.second.from;
        if (b->module == nullptr || written[b])
            continue;
        written[b] = true;
        std::string path = std::string(folder) + "/" + std::to_string(b->number) + ".ptx";
        FILE *to = fopen(path.c_str(), "w");
        if (to == nullptr || fwrite(b->text.data(), 1, b->text.size(), to) != b->text.size())
            report("cannot write %s", path.c_str());
        if (to != nullptr)
            fclose(to);
    }
}

void ptx_run_only(const char *name)
{
    only = name;
}

unsigned ptx_emitted(void)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    launch_name = "the kernels that are linked";
    unsigned count = 0;
    for (auto &one : kernels())
        count += decode(&one.second) != nullptr;
    for (auto &w : wanted)
        if (w.found == 0)
            report("no kernel is a %s...), which must hold %s", w.kernel, w.opcode);
    return count;
}

void **__cudaRegisterFatBinary(void *wrapper)
{
    static unsigned number;
    return (void **)new binary{((fat_wrapper *)wrapper)->data, nullptr, "", number++};
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
    const char *name = shown != nullptr ? shown : entry;
    name += strncmp(name, "void ", 5) == 0 ? 5 : 0; // return type of a template
    kernels()[host] = kernel{(binary *)handle, host, entry, name, nullptr, 0};
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

cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute what, int value)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (what == cudaFuncAttributePreferredSharedMemoryCarveout && carveout_note(value))
        return cudaSuccess;
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaErrorInvalidValue;
    if (!shared_fits(&kernels().at(host), (size_t)value, SHARED_MAX))
        return cudaErrorInvalidValue;
    allowed()[host] = (size_t)value;
    return shared_allow(host, (size_t)value);
}

// Fills only ptxVersion: the version of the virtual architecture, such as 90 for .target sm_90a.
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *facts, const void *host)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    kernel *k = &kernels().at(host);
    if (!stream_accepts(nullptr))
        return cudaPeekAtLastError();
    if (decode(k) == nullptr)
        return cudaErrorLaunchFailure;
    const char *target = strstr(k->from->text.c_str(), ".target sm_");
    facts->ptxVersion = target != nullptr ? atoi(target + strlen(".target sm_")) : 0;
    return cudaSuccess;
}

} // extern "C"

static cudaError_t launched(kernel *k, dim3 grid, dim3 block, void **arguments, size_t shared,
                            cudaStream_t stream, bool early)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    launch_name = k->shown.c_str();
    if (!stream_accepts(stream))
        return cudaPeekAtLastError();
    if (!shape_possible({grid, block, shared, k->host, k->shown.c_str(), early}, stream) ||
        decode(k) == nullptr)
        return cudaErrorLaunchFailure;
    if (early && !holds(k->decoded, "griddepcontrol.launch_dependents"))
        report("the kernel %s never lets the one behind it begin", k->shown.c_str());
    if (shared > allowed()[k->host] && !shared_fits(k, shared, SHARED_PLAIN_MAX)) {
        report("launch of %s with %zu bytes of shared memory beside %u static ones, which were not "
               "allowed first",
               k->shown.c_str(), shared, ptx_kernel_shared_bytes(k->decoded));
        return cudaErrorLaunchFailure;
    }
    code_use(k->host);
    ptx_shape shape = {
        {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, (uint32_t)shared, 0, early};
    std::vector<char> parameters = parameters_copy(k->decoded, arguments);
    stream_push(
        stream, [k, shape, parameters = std::move(parameters)] { run(k, shape, parameters); },
        true);
    return cudaSuccess;
}

extern "C" {

cudaError_t __cudaLaunchKernel(void *handle, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream)
{
    return launched((kernel *)handle, grid, block, arguments, shared, stream, false);
}

cudaError_t cudaLaunchKernelExC(const launch_config *config, const void *host, void **arguments)
{
    bool early = false;
    for (unsigned i = 0; i < config->count; i++) {
        const launch_attribute &one = config->attributes[i];
        if (one.id != LAUNCH_ATTRIBUTE_EARLY)
            return cudaErrorNotSupported;
        early = one.value.early != 0;
    }
    return launched(&kernels().at(host), config->grid, config->block, arguments, config->shared,
                    config->stream, early);
}

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    return __cudaLaunchKernel(&kernels().at(host), grid, block, arguments, shared, stream);
}

} // extern "C"
