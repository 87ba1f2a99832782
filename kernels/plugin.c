// SPDX-License-Identifier: Apache-2.0
// Opens the shared object of a device (cuda, simt): in the executable's folder, then in ../lib/weft
// from there, or at a path that the user gives. Called at startup by the main thread. The object
// stays loaded until the process ends, because its code may run in any stream until then.
#include "kernels/device.h"

#include "base/file.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum status entry_open(const struct device_api **out, void *library, const char *name,
                              struct error *err)
{
    device_plugin_entry *entry = NULL;
    void *symbol = dlsym(library, DEVICE_PLUGIN_SYMBOL);
    if (!symbol)
        return error_set(err, STATUS_NO_DEVICE, "the %s device library has no %s; rebuild it", name,
                         DEVICE_PLUGIN_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry); // ISO C has no cast from object to function pointer
    const struct device_api *api = entry();
    if (!api)
        return error_set(err, STATUS_NO_DEVICE, "the %s device library offers no device", name);
    if (api->abi != DEVICE_ABI)
        return error_set(err, STATUS_NO_DEVICE,
                         "the %s device library has ABI %u, this weft %u; build both from one "
                         "source",
                         name, api->abi, (unsigned)DEVICE_ABI);
    *out = api;
    return STATUS_OK;
}

static bool name_is_plain(const char *name)
{
    if (name[0] == '\0')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name);
}

enum status device_plugin_open(const struct device_api **out, const char *name,
                               const char *library_path, struct error *err)
{
    *out = NULL;
    if (!name_is_plain(name))
        return error_set(err, STATUS_INVALID, "'%.64s' is not the name of a device", name);
    char beside[PATH_MAX + 64] = "", installed[PATH_MAX + 64] = "", file[PATH_MAX];
    const char *tried[2] = {NULL, NULL};
    if (library_path) {
        // the option is a path, but dlopen would search system folders for a name without a slash
        if (snprintf(beside, sizeof beside, "%s%s", strchr(library_path, '/') ? "" : "./",
                     library_path) >= (int)sizeof beside)
            return error_set(err, STATUS_TOO_LARGE, "the device library's path is too long");
        tried[0] = beside;
    } else {
        snprintf(file, sizeof file, "../lib/weft/libweft_%s.so", name);
        if (file_of_program(beside, sizeof beside, strrchr(file, '/') + 1))
            tried[0] = beside;
        if (file_of_program(installed, sizeof installed, file))
            tried[1] = installed;
    }
    char reason[512] = "";
    bool absent = true;
    for (int i = 0; i < 2; i++) {
        if (!tried[i])
            continue;
        if (!library_path && access(tried[i], R_OK) != 0) {
            if (beside[0])
                snprintf(reason, sizeof reason, "neither %.200s nor %.200s exists", beside,
                         installed);
            else
                snprintf(reason, sizeof reason,
                         "the executable's folder could not be determined and %.200s does not "
                         "exist",
                         installed);
            continue;
        }
        absent = false;
        void *library = dlopen(tried[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return entry_open(out, library, name, err);
        const char *text = dlerror();
        snprintf(reason, sizeof reason, "%s", text ? text : "unknown reason");
        break;
    }
    return error_set(err, absent ? STATUS_NOT_FOUND : STATUS_NO_DEVICE,
                     "the %s device is not available: %s", name, reason);
}
