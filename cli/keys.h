// SPDX-License-Identifier: Apache-2.0
// The API keys of `weft serve`: from options, a file and the environment, or generated.
#pragma once

#include "cli/settings.h"

struct serve_keys {
    struct texts list; // first those of --admin-key, then those of --api-key
    struct text file;  // content of --api-key-file; entries of the list point into it
    bool made;         // true if the only key was generated here and must be printed
};

// Checks the options before any file is read. INVALID for a key that cannot be sent in a header,
// REFUSED if no source has a key and the address is reachable from other machines.
enum status keys_options_check(const struct serve_settings *settings, struct error *err) MUST_USE;

// Returns true if the operator gave a key in any of the sources; false: one is generated.
bool keys_are_given(const struct serve_settings *settings);

// Collects the keys of the options and the file. If neither names a key other than admin keys, adds
// WEFT_API_KEY if it is set. If there is no key at all, generates one for a loopback address, and
// returns REFUSED for other addresses.
enum status keys_collect(struct serve_keys *out, const struct serve_settings *settings,
                         struct arena *arena, struct error *err) MUST_USE;

// Reads only the keys of the file, for a reload. INVALID if it has none.
enum status keys_of_file(struct serve_keys *out, const char *path, struct arena *arena,
                         struct error *err) MUST_USE;

// Warns if other users can read the file of an option: any of them could use what it protects.
void secret_file_warn(const char *option, const char *path);

// Overwrites all plain keys, also on the command line (which 'ps' shows) and in the environment.
// Call it once the server has stored their hashes and a generated key was printed.
void keys_wipe(struct serve_keys *keys);
