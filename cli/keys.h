// The API keys of `weft serve`: from options, a file and the environment, or one that is made.
#pragma once

#include "cli/settings.h"

struct keys {
    struct texts list;
    struct text file; // of --api-key-file; the list points into it
    bool made;        // the one key was made here: it is printed
};

// On loopback with no key given one is made; elsewhere that is refused.
enum status keys_collect(struct keys *out, const struct serve_settings *settings,
                         struct arena *arena, struct error *err) MUST_USE;

// The keys of the file alone, for a reload.
enum status keys_of_file(struct keys *out, const char *path, struct arena *arena,
                         struct error *err) MUST_USE;

// Once the server has its hashes and a key that was made is printed: the plain keys go, those of
// the command line (which 'ps' shows) and the environment too.
void keys_wipe(struct keys *keys);
