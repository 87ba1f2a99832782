// SPDX-License-Identifier: Apache-2.0
// The lint, an option of race mode: bank conflicts and sectors of the n-th access of a warp at one
// instruction, counted by kernel. ldmatrix is counted separately.
#include "emu.h"

#include <algorithm>
#include <set>
#include <string>
#include <string.h>
#include <tuple>

namespace simt
{

static std::map<std::string, simt_lint> lint_of; // counts by kernel

struct request {
    uint32_t lanes;
    uint32_t bytes;
    bool shared;
    const char *at[LANES];
};
struct lint_key {
    const void *pc;
    uint32_t warp, nth;
    bool operator<(const lint_key &o) const
    {
        return std::tie(pc, warp, nth) < std::tie(o.pc, o.warp, o.nth);
    }
};
static std::map<lint_key, request> requests;
static std::map<std::pair<const void *, uint32_t>, uint32_t> occurrences; // by (pc, thread)

static void lint_request(const request &r)
{
    simt_lint &own = lint_of[launch_name];
    if (!r.shared) {
        std::set<uintptr_t> sectors;
        uint32_t lanes = 0;
        for (int i = 0; i < LANES; i++) {
            if (!(r.lanes >> i & 1))
                continue;
            lanes++;
            for (uint32_t b = 0; b < r.bytes; b += 4)
                sectors.insert(((uintptr_t)r.at[i] + b) / 32);
        }
        own.global_requests++;
        own.global_sectors += sectors.size();
        counts.global_requests++;
        counts.global_sectors += sectors.size();
        counts.global_sectors_least += (lanes * r.bytes + 31) / 32;
        return;
    }
    own.shared_requests++;
    counts.shared_requests++;
    uint32_t group = r.bytes >= 16 ? 8 : r.bytes == 8 ? 16 : 32;
    for (uint32_t first = 0; first < LANES; first += group) {
        std::set<uintptr_t> words[32];
        for (uint32_t i = first; i < first + group; i++)
            for (uint32_t b = 0; (r.lanes >> i & 1) && b < r.bytes; b += 4) {
                uintptr_t word = ((uintptr_t)r.at[i] + b) / 4;
                words[word % 32].insert(word);
            }
        size_t passes = 1;
        for (auto &bank : words)
            passes = std::max(passes, bank.size());
        own.shared_conflicts += passes - 1;
        counts.shared_conflicts += passes - 1;
    }
}

void lint_note(const void *at, size_t bytes, bool shared, const void *pc)
{
    uint32_t nth = occurrences[{pc, current->thread}]++;
    if (bytes == 0)
        return;
    lint_key key = {pc, current->w->index, nth};
    request &r = requests[key];
    r.bytes = (uint32_t)bytes;
    r.shared = shared;
    r.at[current->seen.lane] = (const char *)at;
    r.lanes |= 1u << current->seen.lane;
    if (r.lanes == 0xFFFFFFFFu) {
        lint_request(r);
        requests.erase(key);
    }
}

void lint_copy(const async_copy &copy)
{
    const char *site = copy.file + 2 * copy.line;
    lint_note(copy.from, copy.valid ? 16 : 0, false, site);
    lint_note(copy.to, 16, true, site + 1);
}

void lint_end()
{
    for (auto &entry : requests)
        lint_request(entry.second);
    requests.clear();
    occurrences.clear();
}

void lint_launch()
{
    lint_of[launch_name].launches++;
}

void lint_reset()
{
    lint_of.clear();
}

void lint_add(const char *kernel, const simt_lint &more)
{
    simt_lint &l = lint_of[kernel];
    l.launches += more.launches;
    l.shared_requests += more.shared_requests;
    l.shared_conflicts += more.shared_conflicts;
    l.global_requests += more.global_requests;
    l.global_sectors += more.global_sectors;
    counts.shared_requests += more.shared_requests;
    counts.shared_conflicts += more.shared_conflicts;
    counts.global_requests += more.global_requests;
    counts.global_sectors += more.global_sectors;
}

} // namespace simt

using namespace simt;

extern "C" void simt_lint_read(const char *kernel, struct simt_lint *out)
{
    std::lock_guard<emu_mutex> hold(emu_lock);
    *out = simt_lint();
    for (auto &entry : lint_of) {
        size_t at = entry.first[0] == '(' ? 1 : 0;
        if (entry.first.compare(at, strlen(kernel), kernel) != 0)
            continue;
        const simt_lint &l = entry.second;
        out->launches += l.launches;
        out->shared_requests += l.shared_requests;
        out->shared_conflicts += l.shared_conflicts;
        out->global_requests += l.global_requests;
        out->global_sectors += l.global_sectors;
    }
}
