// SPDX-License-Identifier: Apache-2.0
// Lists the entries of a zip archive; see torch_zip.h. Every offset and size is checked against the
// file before it is used. Sizes come from the central directory: torch writes zeros into the local
// headers and the sizes after the data. Loading thread only.
#include "runtime/model/torch_zip.h"

#include "base/safe.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    END_BYTES = 22,       // end of central directory record, without its comment
    END64_BYTES = 56,     // zip64 end of central directory record
    LOCATOR_BYTES = 20,   // zip64 end of central directory locator
    DIRECTORY_BYTES = 46, // header of an entry in the central directory, without its name
    LOCAL_BYTES = 30,     // local header of an entry, without its name
    COMMENT_MAX = 65535,
    FLAG_ENCRYPTED = 1,
    EXTRA_ZIP64 = 1,
};

static const uint32_t end_mark = 0x06054b50, end64_mark = 0x06064b50, locator_mark = 0x07064b50,
                      directory_mark = 0x02014b50, local_mark = 0x04034b50;

struct archive {
    struct text file;
    const char *name;
    uint64_t directory, directory_bytes, count; // central directory: offset, size, entries
    struct error *err;
};

static enum status damaged(const struct archive *a, const char *what, uint64_t offset)
{
    return error_set(a->err, STATUS_INVALID,
                     "%s: %s at byte %" PRIu64 " of %zu; the file is cut or damaged, download it "
                     "again",
                     a->name, what, offset, a->file.bytes);
}

// Returns true if `bytes` bytes at `offset` lie in the file and begin with the mark.
static bool record_there(const struct archive *a, uint64_t offset, uint64_t bytes, uint32_t mark)
{
    return offset <= a->file.bytes && bytes <= a->file.bytes - offset &&
           text_number(a->file.at + offset, 4) == mark;
}

// Reads the zip64 record that the locator before the end record at `end` names.
static enum status end64_read(struct archive *a, uint64_t end)
{
    uint64_t locator = end - LOCATOR_BYTES;
    uint64_t offset = text_number(a->file.at + locator + 8, 8);
    if (!record_there(a, offset, END64_BYTES, end64_mark))
        return damaged(a, "the zip64 locator names no record", locator);
    const char *at = a->file.at + offset;
    a->count = text_number(at + 32, 8);
    a->directory_bytes = text_number(at + 40, 8);
    a->directory = text_number(at + 48, 8);
    return STATUS_OK;
}

// Finds the record at the file's end and reads the place of the central directory.
static enum status end_read(struct archive *a)
{
    uint64_t bytes = a->file.bytes, comment = 0;
    if (bytes < END_BYTES)
        return damaged(a, "there is no zip directory", bytes);
    uint64_t end = bytes - END_BYTES;
    while (!record_there(a, end, END_BYTES, end_mark) ||
           text_number(a->file.at + end + 20, 2) != comment) {
        if (end == 0 || comment == COMMENT_MAX)
            return damaged(a, "no zip directory ends", bytes);
        end--;
        comment++;
    }
    const char *at = a->file.at + end;
    a->count = text_number(at + 10, 2);
    a->directory_bytes = text_number(at + 12, 4);
    a->directory = text_number(at + 16, 4);
    if (text_number(at + 4, 2) != text_number(at + 6, 2) || text_number(at + 8, 2) != a->count)
        return damaged(a, "the archive is one part of several", end);
    if (end >= LOCATOR_BYTES && record_there(a, end - LOCATOR_BYTES, LOCATOR_BYTES, locator_mark)) {
        enum status status = end64_read(a, end);
        if (status != STATUS_OK)
            return status;
    }
    if (a->directory > end || a->directory_bytes > end - a->directory)
        return damaged(a, "the zip directory lies outside the file", end);
    if (a->count > ZIP_ENTRIES_MAX)
        return error_set(a->err, STATUS_TOO_LARGE,
                         "%s: the archive has %" PRIu64 " entries; at most %d are read", a->name,
                         a->count, ZIP_ENTRIES_MAX);
    return STATUS_OK;
}

// Replaces values of 0xffffffff by those of the zip64 field, which holds only such values, in the
// order size, packed size, offset. Returns false if the field lacks one.
static bool zip64_read(struct text extra, uint64_t values[3])
{
    while (extra.bytes >= 4) {
        uint64_t id = text_number(extra.at, 2), bytes = text_number(extra.at + 2, 2), used = 0;
        extra = text_span(extra.at + 4, extra.bytes - 4);
        if (bytes > extra.bytes)
            break;
        for (int i = 0; i < 3 && id == EXTRA_ZIP64; i++) {
            if (values[i] != UINT32_MAX)
                continue;
            if (used + 8 > bytes)
                return false;
            values[i] = text_number(extra.at + used, 8);
            used += 8;
        }
        if (id == EXTRA_ZIP64)
            return true;
        extra = text_span(extra.at + bytes, extra.bytes - bytes);
    }
    return values[0] != UINT32_MAX && values[1] != UINT32_MAX && values[2] != UINT32_MAX;
}

// Finds the data of an entry by its local header at `local`. The data must end before the central
// directory.
static enum status data_find(struct zip_entry *entry, const struct archive *a, uint64_t local,
                             uint64_t size)
{
    if (!record_there(a, local, LOCAL_BYTES, local_mark))
        return damaged(a, "an entry has no local header", local);
    const char *at = a->file.at + local;
    uint64_t name_bytes = text_number(at + 26, 2), extra_bytes = text_number(at + 28, 2);
    uint64_t data = local + LOCAL_BYTES + name_bytes + extra_bytes;
    if (data > a->directory || size > a->directory - data)
        return damaged(a, "an entry lies outside the archive", local);
    if (!text_equal(text_span(at + LOCAL_BYTES, name_bytes), entry->name))
        return damaged(a, "an entry has two names", local);
    entry->data = text_span(a->file.at + data, size);
    return STATUS_OK;
}

// Reads the entry of the central directory at *offset and moves *offset after it.
static enum status entry_read(struct zip_entry *entry, const struct archive *a, uint64_t *offset)
{
    uint64_t end = a->directory + a->directory_bytes, left = end - *offset;
    if (left < DIRECTORY_BYTES || !record_there(a, *offset, DIRECTORY_BYTES, directory_mark))
        return damaged(a, "the zip directory has no entry", *offset);
    const char *at = a->file.at + *offset;
    uint64_t flags = text_number(at + 8, 2), method = text_number(at + 10, 2);
    uint64_t name_bytes = text_number(at + 28, 2), extra_bytes = text_number(at + 30, 2);
    uint64_t bytes = DIRECTORY_BYTES + name_bytes + extra_bytes + text_number(at + 32, 2);
    uint64_t values[3] = {text_number(at + 24, 4), text_number(at + 20, 4),
                          text_number(at + 42, 4)};
    if (bytes > left)
        return damaged(a, "an entry of the zip directory is cut", *offset);
    entry->name = text_span(at + DIRECTORY_BYTES, name_bytes);
    if (!zip64_read(text_span(at + DIRECTORY_BYTES + name_bytes, extra_bytes), values))
        return damaged(a, "an entry lacks its zip64 sizes", *offset);
    entry->is_packed = (flags & FLAG_ENCRYPTED) || method != 0;
    if (!entry->is_packed && values[0] != values[1])
        return damaged(a, "a stored entry has two sizes", *offset);
    *offset += bytes;
    return data_find(entry, a, values[2], values[1]);
}

static int place_order(const void *a, const void *b)
{
    const struct text x = ((const struct zip_entry *)a)->data;
    const struct text y = ((const struct zip_entry *)b)->data;
    if (x.at != y.at)
        return x.at < y.at ? -1 : 1;
    return (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

static int name_order(const void *a, const void *b)
{
    return text_order(((const struct zip_entry *)a)->name, ((const struct zip_entry *)b)->name);
}

// Refuses entries that share bytes or have equal names; sorts the entries by name.
static enum status entries_check(struct zip *zip, const struct archive *a)
{
    struct zip_entry *entries = zip->entries;
    if (zip->count == 0)
        return STATUS_OK;
    qsort(entries, zip->count, sizeof *entries, place_order);
    for (uint32_t i = 1; i < zip->count; i++)
        if (entries[i - 1].data.at + entries[i - 1].data.bytes > entries[i].data.at)
            return damaged(a, "two entries overlap", (uint64_t)(entries[i].data.at - a->file.at));
    qsort(entries, zip->count, sizeof *entries, name_order);
    for (uint32_t i = 1; i < zip->count; i++)
        if (text_equal(entries[i - 1].name, entries[i].name))
            return error_set(a->err, STATUS_INVALID, "%s: the entry %s is there twice", a->name,
                             safe_of(entries[i].name).at);
    return STATUS_OK;
}

enum status zip_open(struct zip *zip, struct arena *arena, struct text file, const char *name,
                     struct error *err)
{
    struct archive a = {.file = file, .name = name, .err = err};
    enum status status = end_read(&a);
    *zip = (struct zip){.count = 0};
    if (status != STATUS_OK)
        return status;
    if (a.count > a.directory_bytes / DIRECTORY_BYTES)
        return damaged(&a, "the zip directory is too short for its entries", a.directory);
    zip->entries = arena_alloc_zeroed(arena, a.count + 1, sizeof *zip->entries);
    uint64_t offset = a.directory;
    for (uint64_t i = 0; i < a.count && status == STATUS_OK; i++)
        status = entry_read(&zip->entries[i], &a, &offset);
    if (status != STATUS_OK)
        return status;
    zip->count = (uint32_t)a.count;
    return entries_check(zip, &a);
}

const struct zip_entry *zip_find(const struct zip *zip, struct text name)
{
    const struct zip_entry key = {.name = name};
    if (zip->count == 0)
        return NULL;
    return bsearch(&key, zip->entries, zip->count, sizeof key, name_order);
}
