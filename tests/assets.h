// SPDX-License-Identifier: Apache-2.0
// Extra data for tests: the folder that the environment variable WEFT_ASSETS names, with published
// tokenizers, templates, test suites and a small trained model. Tests that use it also have data of
// their own and print what they leave out without it.
#pragma once

#include <stdio.h>
#include <stdlib.h>

// The path of a file in that folder, which does not exist if WEFT_ASSETS is unset. Valid until the
// eighth call after this one. One thread.
static inline const char *assets_path(const char *name)
{
    static char paths[8][1024];
    static unsigned calls;
    char *path = paths[calls++ % 8];
    const char *folder = getenv("WEFT_ASSETS");
    snprintf(path, sizeof paths[0], "%s/%s", folder && *folder ? folder : "WEFT_ASSETS is not set",
             name);
    return path;
}
