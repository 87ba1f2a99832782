// SPDX-License-Identifier: Apache-2.0
// A stand-in for NCCL: collectives of ranks that are emulated devices, of this process or of
// several. A call becomes a joint piece of work of its rank's stream (runtime.cpp): a rank has
// arrived when its stream has reached it. When all ranks of this process have arrived, the first
// rank that notices does the work of all. Ranks of several processes, joined by ncclCommInitRank,
// store their data in a file that all have mapped (nccl_file.cpp), and each does its own work.
// Calls of the ranks must agree in order, kind, count and type; a communicator must outlive its
// graphs; buffers and stream must be of the rank's device; no call may be made on a communicator
// that is closed or aborted. Violations are reported. As in the library, aborting the last rank of
// a process waits until no graph contains a collective of its ranks. Calls between ncclGroupStart
// and ncclGroupEnd are queued at the end of the group. Windows are registered by all ranks with
// equal offsets and sizes, in memory of ncclMemAlloc, and are removed when no collective is queued,
// before their memory and their communicator; an abort removes those of its rank. A sum uses the
// windows of all ranks at one offset, or of none.
#include "nccl_file.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace simt
{
extern simt_counts counts;
}
using namespace simt;

namespace
{

const int sum_operation = 0; // NCCL's value, so that a wrong one in nccl.h is detected
const ncclResult_t unhandled = (ncclResult_t)1, system_error = (ncclResult_t)2,
                   invalid_usage = (ncclResult_t)5, remote_error = (ncclResult_t)6;

struct meeting {
    std::map<unsigned, call> calls; // calls of the ranks that have arrived
    bool done;
    unsigned left; // number of ranks that have continued
};

struct span { // in an allocation
    size_t offset, bytes;
    bool operator==(const span &other) const
    {
        return offset == other.offset && bytes == other.bytes;
    }
};

struct rank_group {
    unsigned size; // ranks of all processes
    std::map<unsigned, std::vector<span>> registered; // windows of the ranks of this process
    unsigned here, aborted; // ranks of this process; aborted ones of these
    std::map<uint64_t, meeting> meetings;
    std::shared_ptr<int> held; // also referenced by the collectives in graphs
};

struct member {
    std::shared_ptr<rank_group> ranks;
    std::shared_ptr<rank_file> file; // null: all ranks are in this process
    unsigned rank;
    int device;
    uint64_t next;  // number of the rank's next call
    uint64_t calls; // number of collectives
    uint64_t begun, ended; // pieces of work queued, and those that have ended
    bool closed, aborted, stopped;
    bool recorded; // true: made for graphs only; a call that is not recorded is reported
};

void numbers_compare(const meeting &m, uint64_t number)
{
    const call &first = m.calls.begin()->second;
    for (auto &entry : m.calls) {
        const call &c = entry.second;
        call_compare(c, entry.first, first, number);
    }
}

void sums_make(const meeting &m)
{
    const call &first = m.calls.at(0);
    std::vector<const void *> data;
    for (auto &entry : m.calls)
        data.push_back(entry.second.from);
    std::vector<char> sums(first.count * element_bytes(first.type));
    for (size_t i = 0; i < first.count; i++)
        element_sum(first, i, data, sums.data());
    for (auto &entry : m.calls)
        memcpy(entry.second.to, sums.data(), sums.size());
    counts.nccl_sums++;
}

void copies_make(const meeting &m)
{
    for (auto &to : m.calls)
        for (auto &from : m.calls) {
            const call &c = from.second;
            size_t bytes = c.count * element_bytes(c.type);
            size_t at = c.kind == ALL_GATHER ? from.first * bytes : 0;
            if (c.kind == ALL_GATHER || (int)from.first == c.root)
                memmove((char *)to.second.to + at, c.from, bytes);
        }
    counts.nccl_copies++;
}

// Records the arrival of a rank. Returns true if all ranks have arrived, or if this rank was
// aborted.
bool arrive(const std::shared_ptr<member> &who, uint64_t number, const call &c)
{
    rank_group &w = *who->ranks;
    if (who->aborted)
        return true;
    unsigned stops = options.nccl_stops != 0 ? options.nccl_stops : w.size;
    if (number + 1 == options.nccl_stops_at && who->rank + stops >= w.size) {
        who->stopped = true;
        return false;
    }
    if (who->file)
        return file_arrive(*who->file, who->rank, number, c);
    meeting &m = w.meetings[number];
    bool came = m.calls.size() == w.size;
    m.calls[who->rank] = c;
    if (!came && m.calls.size() == w.size)
        numbers_compare(m, number);
    return m.calls.size() == w.size;
}

void leave(const std::shared_ptr<member> &who, uint64_t number, const call &c)
{
    if (who->aborted)
        return;
    if (who->file) {
        who->ended++;
        file_leave(*who->file, who->rank, number, c);
        return;
    }
    meeting &m = who->ranks->meetings[number];
    who->ended++;
    if (!m.done && counts.reports == 0)
        m.calls.at(0).kind == ALL_REDUCE ? sums_make(m) : copies_make(m);
    m.done = true;
    if (++m.left == who->ranks->size)
        who->ranks->meetings.erase(number);
}

joint joint_make(const std::shared_ptr<member> &who, const call &c)
{
    if (who->closed)
        report("a graph holds a collective of a communicator that is closed");
    uint64_t number = who->next++;
    who->begun++;
    return {[=] { return who->closed || arrive(who, number, c); },
            [=] {
                if (!who->closed)
                    leave(who, number, c);
            }};
}

// Returns true if the rank's buffer is on the rank's device. In a broadcast only the root sends.
bool on_own_device(const member &who, const void *at, size_t bytes)
{
    const allocation *a = memory_of(at, bytes);
    if (a != nullptr && !a->pinned && a->device == who.device)
        return true;
    report("rank %u: %zu bytes of a collective are not memory of its device", who.rank, bytes);
    return false;
}

thread_local unsigned group_depth;
thread_local std::vector<std::function<void()>> group_calls;
thread_local std::shared_ptr<rank_group> group_ranks; // of the ranks that the open group joins
thread_local bool group_failed;                       // true: a call of the open group has failed
// communicators with windows that the open group registers
thread_local std::vector<std::shared_ptr<rank_group>> group_windows;

} // namespace

struct ncclComm { // never freed, so that late calls are detected
    std::shared_ptr<member> who;
};
static std::vector<std::unique_ptr<ncclComm>> given;

struct ncclWindow_vidmem { // never freed, either
    std::shared_ptr<member> who;
    char *at;
    size_t bytes;
    bool live;
};
static std::vector<std::unique_ptr<ncclWindow_vidmem>> windows;
static std::map<const void *, size_t> window_memory; // of ncclMemAlloc, with its bytes

// Removes the windows of a rank. Returns their number.
static unsigned windows_end(const member &who)
{
    unsigned ended = 0;
    for (auto &w : windows)
        if (w->live && w->who.get() == &who) {
            w->live = false;
            counts.nccl_windows--;
            ended++;
        }
    return ended;
}

// Returns 1 + the offset of the bytes in a window of the rank; 0: they are in none.
static size_t window_place(const member &who, const void *at, size_t bytes)
{
    const char *from = (const char *)at;
    for (auto &w : windows) {
        if (!w->live || w->who.get() != &who || from < w->at || from >= w->at + w->bytes)
            continue;
        if (from + bytes > w->at + w->bytes)
            report("rank %u: %zu bytes of a collective reach beyond their window", who.rank, bytes);
        return 1 + (size_t)(from - w->at);
    }
    return 0;
}

// Reports ranks of this process that have not registered what the others have.
static void windows_compare(const rank_group &ranks)
{
    const std::vector<span> &first = ranks.registered.begin()->second;
    bool equal = ranks.registered.size() == ranks.here;
    for (auto &one : ranks.registered)
        equal = equal && one.second == first;
    if (!equal)
        report("the ranks do not register windows of equal sizes at equal offsets");
}

static std::shared_ptr<rank_group> ranks_make(unsigned size)
{
    auto ranks = std::make_shared<rank_group>();
    ranks->size = size;
    ranks->held = std::make_shared<int>(0);
    return ranks;
}

static ncclComm_t comm_make(const std::shared_ptr<rank_group> &ranks, unsigned rank, int device)
{
    auto who = std::make_shared<member>();
    who->ranks = ranks;
    who->rank = rank;
    who->device = device;
    given.emplace_back(new ncclComm{who});
    counts.live++;
    return given.back().get();
}

static bool usable(ncclComm_t comm)
{
    if (!comm->who->closed)
        return true;
    report("rank %u: a call comes to a communicator that is %s", comm->who->rank,
           comm->who->aborted ? "aborted" : "closed");
    return false;
}

// Waits while other threads may call. Returns false if the patience that a test has set ends.
static bool wait_until(const std::function<bool()> &reached)
{
    timespec pause = {0, 100000};
    for (uint32_t waited = 0; !reached(); waited++) {
        if (options.patience != 0 && waited > options.patience)
            return false;
        unsigned held = emu_lock.release_all();
        nanosleep(&pause, nullptr);
        emu_lock.reacquire(held);
    }
    return true;
}

static ncclResult_t enqueue(ncclComm_t comm, const call &asked, cudaStream_t stream)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (!usable(comm))
        return invalid_usage;
    member &who = *comm->who;
    if (++who.calls == options.nccl_stays_at) {
        counts.nccl_stays++;
        if (!wait_until([&] { return who.aborted; }))
            report("rank %u stays in a call and nobody aborts it", who.rank);
        return ncclSuccess;
    }
    size_t sent = asked.count * element_bytes(asked.type);
    size_t got = asked.kind == ALL_GATHER ? sent * who.ranks->size : sent;
    bool sends = asked.kind != BROADCAST || (unsigned)asked.root == who.rank;
    if (!stream_accepts(stream))
        return unhandled;
    if (who.recorded && !stream_captures(stream))
        report("rank %u: a call that is not recorded comes to the communicator of graphs",
               who.rank);
    counts.nccl_recorded += who.recorded;
    bool typed = asked.kind == ALL_REDUCE ? element_bytes(asked.type) != 0
                                          : asked.type == FLOAT32_TYPE;
    call c = asked;
    size_t to_place = window_place(who, c.to, got);
    c.window = window_place(who, c.from, sent) != 0 ? to_place : 0;
    counts.nccl_windowed += c.window != 0;
    if (!typed || stream_device(stream) != who.device ||
        (sends && !on_own_device(who, c.from, sent)) || !on_own_device(who, c.to, got))
        return invalid_usage;
    auto make = [who = comm->who, held = comm->who->ranks->held, c] { return joint_make(who, c); };
    if (group_depth > 0)
        group_calls.push_back([=] {
            if (usable(comm))
                stream_push_joint(stream, make);
        });
    else
        stream_push_joint(stream, make);
    return ncclSuccess;
}

static ncclResult_t destroy(ncclComm_t comm)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (!usable(comm))
        return invalid_usage;
    if (comm->who->ranks->held.use_count() > 1)
        report("rank %u: its communicator is closed before a graph that holds its collectives",
               comm->who->rank);
    if (windows_end(*comm->who) > 0)
        report("rank %u: its communicator is closed before its window", comm->who->rank);
    comm->who->closed = true;
    counts.live--;
    return ncclSuccess;
}

static ncclResult_t abort_rank(ncclComm_t comm)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (!usable(comm))
        return invalid_usage;
    rank_group &ranks = *comm->who->ranks;
    comm->who->aborted = comm->who->closed = true;
    windows_end(*comm->who);
    counts.live--;
    if (++ranks.aborted == ranks.here && !wait_until([&] { return ranks.held.use_count() == 1; }))
        report("aborting waits for graphs that hold collectives of the ranks");
    return ncclSuccess;
}

// WEFT_SIMT_NCCL is the version if a test sets none.
static uint32_t library_version()
{
    const char *given = getenv("WEFT_SIMT_NCCL");
    uint32_t usual = given != nullptr ? (uint32_t)strtoul(given, nullptr, 10) : 21800;
    return options.nccl_version != 0 ? options.nccl_version : usual;
}

extern "C" {

static ncclResult_t ncclGetVersion(int *version)
{
    *version = (int)library_version();
    return ncclSuccess;
}
static const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess     ? "no error"
           : result == unhandled     ? "unhandled cuda error"
           : result == invalid_usage ? "invalid usage"
           : result == remote_error  ? "remote process exited or there was a network error"
                                     : "unhandled system error";
}
static ncclResult_t ncclCommInitAll(ncclComm_t *out, int count, const int *devices)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    auto ranks = ranks_make((unsigned)count);
    ranks->here = (unsigned)count;
    if (call_refused())
        return system_error;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (devices[i] == devices[j])
                return invalid_usage;
    for (int i = 0; i < count; i++)
        out[i] = comm_make(ranks, (unsigned)i, devices[i]);
    return ncclSuccess;
}
static ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    return call_refused() || !file_create(id->internal, sizeof id->internal) ? system_error
                                                                             : ncclSuccess;
}
// Waits until the ranks of all processes have come; in a group, ncclGroupEnd does.
static ncclResult_t ncclCommInitRank(ncclComm_t *out, int count, ncclUniqueId id, int rank)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (call_refused() || rank < 0 || rank >= count)
        return system_error;
    auto file = file_open(id.internal, (unsigned)count, (unsigned)rank);
    if (!file)
        return system_error;
    if (!group_ranks || group_depth == 0)
        group_ranks = ranks_make((unsigned)count);
    group_ranks->here++;
    *out = comm_make(group_ranks, (unsigned)rank, device_of_thread());
    (*out)->who->file = file;
    auto come = [=] { return wait_until([&] { return file_complete(*file); }); };
    if (group_depth > 0)
        group_calls.push_back([=] {
            if (!come())
                report("rank %d: the other ranks do not come", rank);
        });
    else if (!come())
        return system_error;
    return ncclSuccess;
}
// All ranks go to one new communicator, with their numbers, which runs one graph at a time. Only
// for ranks of one process.
static ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
                                  ncclConfig_t *config)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    const int none = INT32_MIN;
    const ncclConfig_t &c = *config;
    if (call_refused() || !usable(comm) || comm->who->file)
        return system_error;
    if (c.size != sizeof c || c.magic != 0xcafebeef || c.version != 22900 || c.graph_usage != 1 ||
        c.blocking != none || c.split_share != none || c.rma_contexts != none || c.name ||
        color != 0 || (unsigned)key != comm->who->rank || group_depth == 0)
        report("a wrong configuration of ncclCommSplit");
    if (!group_ranks) {
        group_ranks = ranks_make(comm->who->ranks->size);
        group_ranks->here = comm->who->ranks->here;
    }
    group_calls.push_back([out, ranks = group_ranks, who = comm->who] {
        *out = comm_make(ranks, who->rank, who->device);
        (*out)->who->recorded = true;
    });
    return ncclSuccess;
}
static ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return destroy(comm);
}
static ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return abort_rank(comm);
}
static ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (!usable(comm))
        return invalid_usage;
    const member &who = *comm->who;
    *error = who.stopped                             ? system_error
             : who.file && file_lost(*who.file) ? remote_error
                                                     : ncclSuccess;
    return ncclSuccess;
}
static ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if ((int)op != sum_operation) {
        report("rank %u: ncclAllReduce with the operation %d, the stand-in only adds",
               comm->who->rank, (int)op);
        return invalid_usage;
    }
    return enqueue(comm, {ALL_REDUCE, from, to, count, type, 0}, stream);
}
static ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, {ALL_GATHER, from, to, count, type, 0}, stream);
}
static ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, {BROADCAST, from, to, count, type, root}, stream);
}
// Rounds up to 2 MiB, the granularity of a GPU's memory.
static ncclResult_t ncclMemAlloc(void **out, size_t bytes)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    const size_t unit = (size_t)2 << 20;
    size_t rounded = (bytes + unit - 1) / unit * unit;
    if (cudaMalloc(out, rounded) != cudaSuccess)
        return unhandled;
    window_memory[*out] = rounded;
    return ncclSuccess;
}
static ncclResult_t ncclMemFree(void *at)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    auto found = window_memory.find(at);
    if (found == window_memory.end()) {
        report("ncclMemFree of a pointer that ncclMemAlloc did not return");
        return invalid_usage;
    }
    for (auto &w : windows)
        if (w->live && w->at >= (char *)at && w->at < (char *)at + found->second)
            report("rank %u: the memory of its window is freed first", w->who->rank);
    window_memory.erase(found);
    return cudaFree(at) == cudaSuccess ? ncclSuccess : unhandled;
}
static ncclResult_t window_refuse(ncclResult_t result)
{
    group_failed = group_depth > 0;
    return result;
}
// Registers at the end of the group, when all ranks have come.
static ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *at, size_t bytes,
                                           ncclWindow_t *out, int flags)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    *out = nullptr;
    if (!usable(comm))
        return window_refuse(invalid_usage);
    auto who = comm->who;
    if (options.nccl_no_windows)
        return ncclSuccess;
    if (++counts.nccl_registered == options.nccl_window_fails || call_refused())
        return window_refuse(system_error);
    const allocation *memory = memory_of(at, bytes);
    if (memory == nullptr || window_memory.count(memory->at) == 0 ||
        memory->device != who->device || flags != 1 || group_depth == 0) {
        report("rank %u: a window of memory that ncclMemAlloc did not return for its device, of a "
               "wrong kind, or outside of a group",
               who->rank);
        return window_refuse(invalid_usage);
    }
    span place = {(size_t)((char *)at - memory->at), bytes};
    group_windows.push_back(who->ranks);
    group_calls.push_back([=] {
        who->ranks->registered[who->rank].push_back(place);
        windows.emplace_back(new ncclWindow_vidmem{who, (char *)at, bytes, true});
        *out = windows.back().get();
        counts.nccl_windows++;
        if (!who->file)
            return;
        uint64_t number = file_register(*who->file, who->rank);
        if (who->ranks->registered.size() == who->ranks->here &&
            !wait_until([&] { return file_registered(*who->file, number); }))
            report("rank %u: the other ranks register no window", who->rank);
    });
    return ncclSuccess;
}
static ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (!usable(comm))
        return invalid_usage;
    if (!window->live || window->who != comm->who) {
        report("rank %u: a window is removed that the communicator does not have", comm->who->rank);
        return invalid_usage;
    }
    if (window->who->begun != window->who->ended)
        report("rank %u: its window is removed while a collective may use it", comm->who->rank);
    window->live = false;
    counts.nccl_windows--;
    return ncclSuccess;
}
static ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}
static ncclResult_t ncclGroupEnd(void)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    if (group_depth == 0)
        return invalid_usage;
    if (--group_depth > 0)
        return ncclSuccess;
    auto calls = std::move(group_calls);
    auto registered = std::move(group_windows);
    group_calls.clear();
    group_windows.clear();
    group_ranks.reset();
    if (group_failed) {
        group_failed = false;
        return system_error;
    }
    for (auto &one : calls)
        one();
    for (auto &ranks : registered)
        windows_compare(*ranks);
    return ncclSuccess;
}

void *simt_dlopen(const char *name, int)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    bool there = strcmp(name, "libnccl.so.2") == 0 && !options.no_nccl && !call_refused();
    return there ? (void *)&given : nullptr; // any pointer
}
void *simt_dlsym(void *, const char *name)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
#define FIND(result, function, arguments)                                                          \
    if (strcmp(name, "nccl" #function) == 0)                                                       \
        return (void *)nccl##function;
#define FIND_SINCE(function, version)                                                              \
    if (strcmp(name, #function) == 0) /* weft does without it */                                   \
        return library_version() >= version ? (void *)function : nullptr;
    FIND_SINCE(ncclCommSplit, 22900)
    FIND_SINCE(ncclMemAlloc, 21900)
    FIND_SINCE(ncclMemFree, 21900)
    FIND_SINCE(ncclCommWindowRegister, 22700)
    FIND_SINCE(ncclCommWindowDeregister, 22700)
#undef FIND_SINCE
    if (call_refused())
        return nullptr;
    NCCL_LIST(FIND)
#undef FIND
    return nullptr;
}
int simt_dlclose(void *)
{
    return 0;
}
char *simt_dlerror(void)
{
    static char text[] = "libnccl.so.2: no such file";
    return text;
}
}
