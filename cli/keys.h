// The API keys of `weft serve`: from options, a file and the environment, or one that is made.
#pragma once

#include "cli/settings.h"

struct serve_keys {
    struct texts list;
    struct text file; // of --api-key-file; the list points into it
    bool made;        // the only key was generated here and is to be printed
};

// Refuses what is wrong with the options alone, before a file is read: a key that cannot be sent,
// or none on an address that others reach.
enum status keys_options_check(const struct serve_settings *settings, struct error *err) MUST_USE;

// Where no key is given, one is generated on loopback; other addresses are refused without a key.
enum status keys_collect(struct serve_keys *out, const struct serve_settings *settings,
                         struct arena *arena, struct error *err) MUST_USE;

// Reads the keys of the file alone, for a reload.
enum status keys_of_file(struct serve_keys *out, const char *path, struct arena *arena,
                         struct error *err) MUST_USE;

// Overwrites all plain keys, also on the command line (which 'ps' shows) and in the environment.
// Called once the server has their hashes and a generated key is printed.
void keys_wipe(struct serve_keys *keys);
