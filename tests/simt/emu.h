// What the emulator's own files share: fibers, the running block, the memory registry and the
// options. Kernels and tests never include it. Everything here is guarded by one lock (emu_lock):
// emulated kernels of all streams and host threads run one after another.
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
// STACK_STEP lies between two stacks: a power of two would put all their tops into one cache set.
enum { STACK_BYTES = 128 * 1024, STACK_STEP = STACK_BYTES + 4096 + 7 * 64 };

enum fiber_state { READY, WAIT_WARP, WAIT_BLOCK, WAIT_NAMED, WAIT_GRID, DONE };

// The accesses of others that a thread is ordered after: key -> clock (see check.cpp).
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
    view seen; // first: kernels read it through `here`
    void *sp;
    char *stack;
    void *fake_stack; // ASan
    fiber_state state;
    warp *w;
    unsigned thread;  // linear index in the block
    const char *file; // where it waits
    int line;
    unsigned waits_id;
    uint32_t releases; // clock of its own accesses, raised by each release
    std::unique_ptr<clock_map> acquired;
    std::deque<std::vector<async_copy>> groups; // committed, oldest first
    std::vector<async_copy> open_group;
};

struct warp {
    unsigned index;
    uint32_t epoch; // raised by each warp_sync
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
    uint32_t index; // linear block index
    uint32_t threads;
    uint32_t barriers; // epoch, raised by each cta_sync
    uint32_t waiting, done;
    uint32_t early;   // threads that have not waited for the kernel in front
    bool apart;       // until none is left device memory is out of reach
    const char *file; // of the pending cta_sync
    int line;
    size_t dynamic_bytes, static_bytes;
    std::vector<std::pair<const void *, size_t>> statics; // key, offset
    std::vector<std::pair<size_t, size_t>> rooms;         // offset, bytes of each shared object
    clock_map known;
    named_barrier named[16];
    bool broken; // a report that ends the launch
};

// Counts how often its thread holds it, so that it can be let go while ranks are waited for.
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
    unsigned let_go()
    {
        unsigned held = depth;
        while (depth > 0)
            unlock();
        return held;
    }
    void take_back(unsigned held)
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
extern double product_ms;             // time that products pretended to take
void own_product(const char *kernel); // takes it, where the kernel is a product of ours
extern const char *launch_name;
extern const char *device_title;
extern char *shared_room; // SHARED_MAX bytes
extern char *stack_room;
extern size_t stack_room_bytes;

uint32_t random_next();
void park(); // gives up the fiber until somebody makes it ready
void make_ready(fiber *f);
[[noreturn]] void abandon(); // ends the fiber and with it the launch
bool in_launch_args(const void *at);
bool shape_possible(const launch_shape &shape, cudaStream_t stream); // false: reported

// --- check.cpp
struct allocation {
    char *at;
    size_t bytes;
    bool pinned;
    int device;   // current when it was taken
    void *shadow; // race mode
    size_t shadow_bytes;
};
void *memory_alloc(size_t bytes, bool pinned);
bool memory_free(void *at, bool pinned);
extern std::vector<allocation> allocations;
void memory_shown(const allocation &a, bool shown);
void memory_show(bool shown); // to the host
bool memory_known(const void *at, size_t bytes);
const allocation *memory_of(const void *at, size_t bytes); // that holds them; null: none
bool memory_pinned(const void *at);
void check_launch();
void check_block(); // a block begins: shared memory is poisoned
void check_block_end();
bool shared_check(const void *at, size_t bytes, const char *what); // false: reported
bool async_pending(const void *at, size_t bytes);
void async_mark(void *at, size_t bytes, bool pending);
void lint_add(const char *kernel, const simt_lint &more); // what the device ptx counted
void lint_copy(const async_copy &copy);                   // a cp.async as it is issued
void access(const void *at, size_t bytes, bool write, bool atomic, const void *pc);
void clock_merge(clock_map *into, const clock_map &from);
void clock_release(fiber *f, clock_map *into);
void clock_acquire(fiber *f, const clock_map &from);
void block_acquired(); // at cta_sync: all threads take over what any of them knows

// --- runtime.cpp
void stream_push(cudaStream_t stream, std::function<void()> work, bool kernel = false);
bool stream_after_kernel(cudaStream_t stream); // its last work is a kernel
bool stream_takes(cudaStream_t stream);        // false: refused, with the thread's last error set
bool stream_captures(cudaStream_t stream);
void code_use(const void *what); // a launch of it: the first one loads it
void code_forget();
// Work that ranks do together: a stream stops at it until it is ready. A graph makes it anew at
// each launch.
struct joint {
    std::function<bool()> ready;
    std::function<void()> work;
};
void stream_push_joint(cudaStream_t stream, std::function<joint()> make);
bool call_refused();                        // the call that a test wants to fail
cudaError_t call_failed(cudaError_t error); // the thread's last error from now on
int stream_device(cudaStream_t stream);
int device_of_thread();

} // namespace simt
