// SPDX-License-Identifier: Apache-2.0
// Sizes of contents; see sizes.h. The file is replaced as a whole, so that a reader never sees a
// part of it. If two processes write it at the same time, the sizes of one may be lost.
#include "cli/hub/sizes.h"

#include "base/json.h"
#include "cli/hub/cache.h"

#include <stdio.h>
#include <unistd.h>

json_t *hub_sizes_read(const char *folder, struct arena *arena)
{
    json_t *sizes = NULL;
    const char *path = arena_format(arena, "%s/.weft/sizes.json", folder).at;
    if (json_file_parse(&sizes, path, HUB_JSON_BYTES_MAX, &(struct error){0}) == STATUS_OK &&
        json_is_object(sizes))
        return sizes;
    json_decref(sizes);
    return json_object();
}

void hub_sizes_note(const char *folder, const struct hub_listing *files, struct arena *arena)
{
    json_t *sizes = hub_sizes_read(folder, arena);
    bool news = false;
    for (size_t i = 0; i < files->count; i++) {
        const struct hub_file *file = &files->files[i];
        int64_t noted;
        if (json_integer_exact(json_object_get(sizes, file->etag), &noted) &&
            noted == (int64_t)file->bytes)
            continue;
        json_object_set_new(sizes, file->etag, json_integer((json_int_t)file->bytes));
        news = true;
    }
    const char *inside = arena_format(arena, "%s/.weft", folder).at;
    const char *path = arena_format(arena, "%s/sizes.json", inside).at;
    const char *part = arena_format(arena, "%s.%d.tmp", path, (int)getpid()).at;
    if (news && hub_folder_make(inside, &(struct error){0}) == STATUS_OK &&
        (json_dump_file(sizes, part, JSON_COMPACT | JSON_SORT_KEYS) != 0 ||
         rename(part, path) != 0))
        unlink(part);
    json_decref(sizes);
}
