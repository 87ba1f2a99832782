// SPDX-License-Identifier: Apache-2.0
// The zip format (PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3), as far as torch.save uses it: one
// archive on one disk with stored entries, with or without the zip64 records. Loading thread only.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

enum { ZIP_ENTRIES_MAX = 1 << 20 }; // entries of an archive: TENSORS_MAX storages and some more

struct zip_entry {
    struct text name; // path in the archive; borrowed from the file, any bytes
    struct text data; // bytes in the file
    bool is_packed;   // true if the bytes are compressed or encrypted
};

struct zip {
    struct zip_entry *entries; // [count], sorted by name, names differ
    uint32_t count;
};

// Lists the entries of an archive whose bytes are `file`; zip->entries lies in the arena. `name` is
// the file's name for messages. INVALID: a record is damaged, an entry lies outside the file or
// shares bytes with another, or a name occurs twice. TOO_LARGE: over ZIP_ENTRIES_MAX entries.
enum status zip_open(struct zip *zip, struct arena *arena, struct text file, const char *name,
                     struct error *err) MUST_USE;

// Returns the entry of this name, or NULL.
const struct zip_entry *zip_find(const struct zip *zip, struct text name);
