// SPDX-License-Identifier: Apache-2.0
// See simt_device.h. The control of the emulator is not part of the device interface: its functions
// are looked up in the device's library. A real GPU has none of them, so nothing is controlled and
// the emulator's counters stay zero.
#include "tests/runtime/simt_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct device_api *simt; // the table of the library
static struct device_api wrapped;
static struct simt_device_switches now;
static _Atomic uint32_t graphs, replays; // counts of all ranks

static struct {
    void (*configure)(const struct simt_options *);
    void (*reset)(void);
    void (*read)(struct simt_counts *);
    const char *(*report)(void);
} emulator;

static bool symbol_take(void *to, size_t bytes, void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    check(bytes == sizeof symbol, "a function pointer of %zu bytes", bytes);
    memcpy(to, &symbol, bytes);
    return symbol != NULL;
}

bool simt_device_usable(void)
{
    struct error err;
    Dl_info info;
    const char *name = getenv("WEFT_TEST_DEVICE");
    struct device *device;
    struct device_options options = {.exact = true};
    enum status status =
        device_plugin_open(&simt, name ? name : "simt", getenv("WEFT_TEST_DEVICE_LIBRARY"), &err);
    if (status == STATUS_OK)
        status = simt->open(&device, &options, &err);
    if (status != STATUS_OK) {
        printf("skipped: %s\n", err.text);
        return false;
    }
    simt->close(device);
    if (strcmp(simt->name, "simt") != 0)
        return true;
    check(dladdr(simt, &info) != 0, "the device's table lies in no library");
    void *library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return library &&
           symbol_take(&emulator.configure, sizeof emulator.configure, library, "simt_configure") &&
           symbol_take(&emulator.reset, sizeof emulator.reset, library, "simt_reset") &&
           symbol_take(&emulator.read, sizeof emulator.read, library, "simt_read") &&
           symbol_take(&emulator.report, sizeof emulator.report, library, "simt_first_report");
}

static enum status open(struct device **out, const struct device_options *options,
                        struct error *err)
{
    struct device_options own = *options;
    own.exact = now.exact;
    own.cache_folder = now.cache_folder;
    return simt->open(out, &own, err);
}

static void facts(const struct device *device, struct device_facts *out)
{
    simt->facts(device, out);
    check(out->steps_in_flight == 1 && out->graphs, "simt must work as cuda does");
    out->graphs = now.graphs;
}

static enum status graph_end(struct stream *stream, struct graph **out, struct error *err)
{
    graphs++;
    return simt->graph_end(stream, out, err);
}

static enum status graph_launch(struct stream *stream, struct graph *graph)
{
    replays++;
    return simt->graph_launch(stream, graph);
}

const struct device_api *simt_device(const struct simt_device_switches *switches)
{
    now = *switches;
    graphs = replays = 0;
    uint32_t candidates = now.blas_candidates;
    struct simt_options options = {.seed = now.seed,
                                   .lazy = now.lazy,
                                   .devices = RANKS_MAX - 1,
                                   .blas_candidates = candidates,
                                   .blas_best = candidates != 0 ? candidates - 1 : 0};
    if (emulator.configure) {
        emulator.configure(&options);
        emulator.reset();
    }
    wrapped = *simt;
    wrapped.open = open;
    wrapped.facts = facts;
    wrapped.graph_end = graph_end;
    wrapped.graph_launch = graph_launch;
    return &wrapped;
}

struct simt_device_counts simt_device_read(void)
{
    struct simt_counts own = {0};
    if (emulator.read)
        emulator.read(&own);
    struct simt_device_counts out = {.graphs = graphs, .replays = replays};
    out.blas_calls = own.blas_calls;
    out.reports = own.reports;
    out.blas_heuristics = own.blas_heuristics;
    out.blas_recorded = own.blas_recorded;
    out.loads = own.loads;
    out.loads_captured = own.loads_captured;
    return out;
}

const char *simt_device_report(void)
{
    return emulator.report ? emulator.report() : "";
}
