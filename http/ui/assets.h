// The files of the web page in the program. Their source is made by tools/ui_assets.py when weft is
// built.
#pragma once

#include <stddef.h>

struct asset {
    const char *path; // "/" or "/ui/NAME"
    const char *type; // of the content
    const char *etag; // with its quotes
    const char *bytes;
    size_t count;
};

extern const struct asset assets[];
extern const size_t asset_count;
