// SPDX-License-Identifier: Apache-2.0
// Shared by the emulator's files: fibers, the running block, the memory registry and the options.
// Kernels and tests do not include it. Everything here is guarded by one lock (emu_lock): emulated
// kernels of all streams and host threads run one after another.
#pragma once

#include "kernels/cuda/dev_host.h"
#include "control.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace simt
{

enum { LANES = 32, SHARED_MAX = 232448, SHARED_PLAIN_MAX = 49152, THREADS_MAX = 1024 };
// STACK_STEP is the distance between stacks. It is no power of two, because the tops of all stacks
// would then share one cache set.
enum { STACK_BYTES = 128 * 1024, STACK_STEP = STACK_BYTES + 4096 + 7 * 64 };

enum fiber_state { READY, WAIT_WARP, WAIT_BLOCK, WAIT_NAMED, WAIT_GRID, DONE };

// The accesses of other threads that a thread is ordered after: key -> clock (see check.cpp).
typedef std::unordered_map<uint64_t, uint32_t> clock_map;

struct async_copy {
    void *to;
    const void *from;
    bool valid;
    const char *file;
    int line;
};

struct warp;

struct fiber {
    view seen; // must be first: kernels read it through `here`
    void *sp;
    char *stack;
    void *fake_stack; // for ASan
    fiber_state state;
    warp *w;
    unsigned thread;  // linear index within the block
    const char *file; // source location where it waits
    int line;
    uint32_t releases; // clock of this fiber's accesses, incremented by each release
    std::unique_ptr<clock_map> acquired;
    std::deque<std::vector<async_copy>> groups; // committed groups, oldest first
    std::vector<async_copy> open_group;
};

struct warp {
    unsigned index;
    uint32_t epoch; // incremented by each warp_sync
    uint32_t arrived;
    int op;
    const char *file;
    int line;
    void *frames[LANES];
};

struct named_barrier {
    unsigned arrived, threads;
    std::vector<fiber *> waiting;
    clock_map clock;
};

struct block_run {
    uint32_t index; // linear index of the block
    uint32_t threads;
    uint32_t barriers; // epoch, incremented by each cta_sync
    uint32_t waiting, done;
    uint32_t early;   // number of threads that have not called grid_wait
    bool hidden;      // true: device memory is inaccessible until all threads have called grid_wait
    const char *file; // source location of the pending cta_sync
    int line;
    size_t dynamic_bytes, static_bytes;
    std::vector<std::pair<const void *, size_t>> statics; // key and offset of each static object
    std::vector<std::pair<size_t, size_t>> objects;       // offset and bytes of each shared object
    clock_map known;
    named_barrier named[16];
    bool broken; // true after a report that ends the launch
};

// A recursive mutex that counts its depth, so that it can be released completely while the thread
// waits for ranks.
class emu_mutex
{
    std::recursive_mutex inner;
    static thread_local unsigned depth;

  public:
    void lock()
    {
        inner.lock();
        depth++;
    }
    void unlock()
    {
        depth--;
        inner.unlock();
    }
    unsigned release_all()
    {
        unsigned held = depth;
        while (depth > 0)
            unlock();
        return held;
    }
    void reacquire(unsigned held)
    {
        while (depth < held)
            lock();
    }
};
extern emu_mutex emu_lock;
extern simt_options options;
extern thread_local fiber *current __attribute__((tls_model("initial-exec")));
extern block_run block;
extern std::vector<warp> warps;
extern uint32_t launch_number;
extern double product_ms; // emulated time of products so far
// adds the emulated time if the kernel is one of weft's products
void product_record(const char *kernel);
extern const char *launch_name;
extern const char *device_title;
extern char *shared_memory; // shared memory of the block, SHARED_MAX bytes
extern char *stacks;
extern size_t stacks_bytes;

uint32_t random_next();
void park(); // suspends the running fiber until make_ready
void make_ready(fiber *f);
[[noreturn]] void abandon(); // ends the fiber and the launch
bool in_launch_args(const void *at);
bool shape_possible(const launch_shape &shape, cudaStream_t stream); // returns false after a report

// --- memory.cpp
struct allocation {
    char *at;
    size_t bytes;
    bool pinned;
    int device;   // current device at allocation
    void *shadow; // race mode only
    size_t shadow_bytes;
};
void *memory_alloc(size_t bytes, bool pinned);
bool memory_free(void *at, bool pinned);
extern std::vector<allocation> allocations;
void memory_shown(const allocation &a, bool shown);
void memory_show(bool shown); // makes device memory accessible to the host, or not
bool memory_known(const void *at, size_t bytes);
// allocation that contains the byte, or the bytes; null: none
const allocation *memory_at(const void *at);
const allocation *memory_of(const void *at, size_t bytes);
bool memory_pinned(const void *at);

// --- lint.cpp
void lint_launch(); // counts a launch of the running kernel
void lint_end();    // counts the incomplete requests at the end of a block
void lint_reset();
// Records a lane's access; bytes 0: the lane makes no access.
void lint_note(const void *at, size_t bytes, bool shared, const void *pc);
void lint_add(const char *kernel, const simt_lint &more); // adds counts of the device ptx
void lint_copy(const async_copy &copy);                   // counts a cp.async when it is issued

// --- check.cpp
extern simt_counts counts;
void check_launch();
void check_block(); // called when a block begins: poisons shared memory
void check_block_end();
bool shared_check(const void *at, size_t bytes, const char *what); // returns false after a report
bool async_pending(const void *at, size_t bytes);
void async_mark(void *at, size_t bytes, bool pending);
void access(const void *at, size_t bytes, bool write, bool atomic, const void *pc);
size_t race_shadow_bytes(size_t bytes); // bytes of the records for this much memory
void clock_merge(clock_map *into, const clock_map &from);
void clock_release(fiber *f, clock_map *into);
void clock_acquire(fiber *f, const clock_map &from);

// --- runtime.cpp
void stream_push(cudaStream_t stream, std::function<void()> work, bool kernel = false);
bool stream_after_kernel(cudaStream_t stream); // true if the last work of the stream is a kernel
bool stream_accepts(cudaStream_t stream);      // false: refused, and the thread's last error is set
bool stream_captures(cudaStream_t stream);
void code_use(const void *what); // records a use of a kernel or algorithm; the first use loads it
void code_forget();
// Work that ranks do together. A stream stops at it until `ready` returns true. A graph creates it
// again at each launch.
struct joint {
    std::function<bool()> ready;
    std::function<void()> work;
};
void stream_push_joint(cudaStream_t stream, std::function<joint()> make);
bool call_refused();                        // true if this is the call that the test makes fail
cudaError_t call_failed(cudaError_t error); // sets the thread's last error
bool carveout_note(int percent); // counts a preference of a kernel; false: it is no percentage
int stream_device(cudaStream_t stream);
int device_of_thread();

} // namespace simt
