// SPDX-License-Identifier: Apache-2.0
// See nccl_file.h. A rank stores call n when all ranks have read call n - 1, so one place per rank
// is enough. Each process locks a byte of the file for each of its ranks: the kernel releases the
// lock when the process ends, even if its parent has not waited for it yet.
#include "nccl_file.h"

#include <atomic>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace simt
{
extern simt_counts counts;

namespace
{
const unsigned RANKS = 8;
const size_t PLACE = (size_t)64 << 20; // bytes of a rank's data; the file has only the used pages

struct seat {
    std::atomic<uint64_t> stored, read; // number of calls
    std::atomic<uint64_t> windows;      // number of windows registered so far
    std::atomic<int> pid;               // 0: the rank has not come
    call last;                          // the pointers mean nothing to other processes
};
struct head {
    seat seats[RANKS];
};
const size_t HEAD = 4096;
static_assert(sizeof(head) <= HEAD, "the seats fit");

const char *const kind_names[] = {"ncclAllReduce", "ncclAllGather", "ncclBroadcast"};
} // namespace

struct rank_file {
    std::string path;
    int fd;
    unsigned ranks;
    char *at;
    ~rank_file()
    {
        munmap(at, HEAD + ranks * PLACE);
        close(fd);
    }
    seat &of(unsigned rank) const
    {
        return ((head *)at)->seats[rank];
    }
    char *data(unsigned rank) const
    {
        return at + HEAD + rank * PLACE;
    }
};

size_t element_bytes(int type)
{
    return type == FLOAT32_TYPE ? 4 : type == FLOAT16_TYPE || type == BFLOAT16_TYPE ? 2 : 0;
}

static float element_get(const void *at, size_t i, int type)
{
    if (type == FLOAT32_TYPE)
        return ((const float *)at)[i];
    uint16_t bits = ((const uint16_t *)at)[i];
    return type == FLOAT16_TYPE ? f16_widen(bits) : bf16_to_float(bits);
}

static void element_put(void *at, size_t i, int type, float value)
{
    if (type == FLOAT32_TYPE)
        ((float *)at)[i] = value;
    else
        ((uint16_t *)at)[i] = type == FLOAT16_TYPE ? float_to_f16(value) : float_to_bf16(value);
}

void element_sum(const call &c, size_t i, const std::vector<const void *> &data, void *to)
{
    size_t first = i * data.size() / c.count;
    element_put(to, i, c.type, element_get(data[first], i, c.type));
    for (size_t r = 1; r < data.size(); r++)
        element_put(to, i, c.type,
                    element_get(to, i, c.type) +
                        element_get(data[(first + r) % data.size()], i, c.type));
}

void call_compare(const call &c, unsigned rank, const call &first, uint64_t number)
{
    if (c.kind != first.kind || c.count != first.count || c.type != first.type ||
        c.root != first.root)
        report("collective %llu: rank %u calls %s of %zu elements of type %d, rank 0 %s of "
               "%zu of type %d",
               (unsigned long long)number, rank, kind_names[c.kind], c.count, c.type,
               kind_names[first.kind], first.count, first.type);
    else if (c.window != first.window)
        report("collective %llu: rank %u sums at offset %lld of a window, rank 0 at %lld (-1: in "
               "no window)",
               (unsigned long long)number, rank, (long long)c.window - 1,
               (long long)first.window - 1);
}

bool file_create(char *id, size_t bytes)
{
    const char *folder = getenv("TMPDIR");
    int used = snprintf(id, bytes, "%s/weft-simt-XXXXXX", folder != nullptr ? folder : "/tmp");
    int fd = used > 0 && (size_t)used < bytes ? mkstemp(id) : -1;
    if (fd < 0)
        return false;
    bool sized = ftruncate(fd, (off_t)(HEAD + RANKS * PLACE)) == 0;
    close(fd);
    return sized;
}

// Locks the byte of a rank, or queries whether another process has locked it.
static bool rank_lock(int fd, unsigned rank, int command, struct flock *lock)
{
    *lock = {};
    lock->l_type = F_WRLCK;
    lock->l_whence = SEEK_SET;
    lock->l_start = rank;
    lock->l_len = 1;
    return fcntl(fd, command, lock) == 0;
}

std::shared_ptr<rank_file> file_open(const char *id, unsigned ranks, unsigned rank)
{
    struct flock lock;
    int fd = ranks <= RANKS ? open(id, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || !rank_lock(fd, rank, F_SETLK, &lock)) {
        if (fd >= 0)
            close(fd);
        return nullptr;
    }
    void *at = mmap(nullptr, HEAD + ranks * PLACE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        close(fd);
        return nullptr;
    }
    auto file = std::shared_ptr<rank_file>(new rank_file{id, fd, ranks, (char *)at});
    file->of(rank).pid = getpid();
    return file;
}

bool file_complete(const rank_file &file)
{
    for (unsigned r = 0; r < file.ranks; r++)
        if (file.of(r).pid == 0)
            return false;
    (void)unlink(file.path.c_str()); // all have opened it
    return true;
}

bool file_lost(const rank_file &file)
{
    struct flock lock;
    for (unsigned r = 0; r < file.ranks; r++)
        if (file.of(r).pid != getpid() && rank_lock(file.fd, r, F_GETLK, &lock) &&
            lock.l_type == F_UNLCK)
            return true;
    return false;
}

uint64_t file_register(rank_file &file, unsigned rank)
{
    return ++file.of(rank).windows;
}

bool file_registered(const rank_file &file, uint64_t windows)
{
    for (unsigned r = 0; r < file.ranks; r++)
        if (file.of(r).windows < windows)
            return false;
    return true;
}

bool file_arrive(rank_file &file, unsigned rank, uint64_t number, const call &c)
{
    seat &own = file.of(rank);
    if (own.stored == number) {
        for (unsigned r = 0; r < file.ranks; r++)
            if (file.of(r).read < number)
                return false;
        if (c.count * element_bytes(c.type) > PLACE) {
            report("rank %u: %zu elements do not fit into the file of the ranks", rank, c.count);
            return false;
        }
        memory_show(true);
        if (c.kind != BROADCAST || (unsigned)c.root == rank)
            memcpy(file.data(rank), c.from, c.count * element_bytes(c.type));
        memory_show(false);
        own.last = c;
        own.stored = number + 1;
    }
    for (unsigned r = 0; r < file.ranks; r++)
        if (file.of(r).stored <= number)
            return false;
    return true;
}

static void sums_take(const rank_file &file, const call &c)
{
    std::vector<const void *> data;
    for (unsigned r = 0; r < file.ranks; r++)
        data.push_back(file.data(r));
    for (size_t i = 0; i < c.count; i++)
        element_sum(c, i, data, c.to);
    counts.nccl_sums++;
}

void file_leave(rank_file &file, unsigned rank, uint64_t number, const call &c)
{
    call_compare(c, rank, file.of(0).last, number);
    if (counts.reports == 0 && c.kind == ALL_REDUCE) {
        sums_take(file, c);
    } else if (counts.reports == 0) {
        size_t bytes = c.count * element_bytes(c.type);
        for (unsigned r = 0; r < file.ranks; r++)
            if (c.kind == ALL_GATHER)
                memcpy((char *)c.to + r * bytes, file.data(r), bytes);
            else if ((int)r == c.root)
                memcpy(c.to, file.data(r), bytes);
        counts.nccl_copies++;
    }
    file.of(rank).read = number + 1;
}

} // namespace simt
