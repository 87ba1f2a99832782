// SPDX-License-Identifier: Apache-2.0
// The files of the web page, compiled into the program. tools/ui_assets.py generates their source
// during the build.
#pragma once

#include <stddef.h>

struct asset {
    const char *path; // "/" or "/ui/NAME"
    const char *type; // content type
    const char *etag; // entity tag with its quotes
    const char *bytes;
    size_t count;
};

extern const struct asset assets[];
extern const size_t asset_count;
