// SPDX-License-Identifier: Apache-2.0
// Removes models from the hub's cache; see remove.h. Nothing outside the folder of the repository
// is touched: links are removed and not followed.
#include "cli/hub/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t tree_bytes; // bytes of the files that tree_remove removed
static int tree_errno;

static int entry_remove(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)where;
    int failed = kind == FTW_DP || kind == FTW_D ? rmdir(path) : unlink(path);
    if (failed != 0)
        tree_errno = errno;
    else if (kind == FTW_F)
        tree_bytes += (uint64_t)about->st_blocks * 512;
    return 0;
}

static enum status tree_remove(const char *folder, struct error *err)
{
    tree_errno = 0;
    if (nftw(folder, entry_remove, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0)
        tree_errno = errno;
    return tree_errno == 0 ? STATUS_OK
                           : error_set(err, STATUS_IO, "%s cannot be removed: %s", folder,
                                       strerror(tree_errno));
}

// Returns an error if a process has a lock of the repository.
static enum status locks_check(const char *cache, const struct hub_name *name, struct arena *arena,
                               struct error *err)
{
    const char *repo = strrchr(hub_repo_folder(cache, name->repo, arena), '/') + 1;
    const char *locks = arena_format(arena, "%s/.locks/%s", cache, repo).at;
    DIR *entries = opendir(locks);
    struct dirent *entry;
    bool busy = false;
    while (entries && (entry = readdir(entries)) != NULL) {
        const char *path = arena_format(arena, "%s/%s", locks, entry->d_name).at;
        int fd = entry->d_name[0] == '.' ? -1 : open(path, O_RDWR | O_CLOEXEC);
        busy = busy || (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
        if (fd >= 0)
            close(fd);
    }
    if (entries)
        closedir(entries);
    return busy ? error_set(err, STATUS_REFUSED,
                            "%s is being downloaded by another process: end that first", name->repo)
                : STATUS_OK;
}

// Returns true if a file of any snapshot is a link to the blob.
static bool blob_is_used(const char *folder, const char *etag, struct arena *arena)
{
    DIR *entries = opendir(arena_format(arena, "%s/snapshots", folder).at);
    struct dirent *entry;
    bool used = false;
    while (entries && !used && (entry = readdir(entries)) != NULL) {
        struct hub_listing files;
        if (!hub_is_commit(entry->d_name))
            continue;
        hub_snapshot_list(&files, folder, entry->d_name, arena);
        for (size_t i = 0; i < files.count && !used; i++)
            used = files.files[i].etag && strcmp(files.files[i].etag, etag) == 0;
    }
    if (entries)
        closedir(entries);
    return used;
}

// Removes the branches and tags that are the commit.
static void refs_remove(const char *folder, const char *inside, const char *commit,
                        struct arena *arena)
{
    DIR *entries = opendir(arena_format(arena, "%s/refs/%s", folder, inside).at);
    struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL) {
        char known[HUB_COMMIT_BYTES];
        struct stat about;
        const char *ref = arena_format(arena, "%s%s", inside, entry->d_name).at;
        const char *path = arena_format(arena, "%s/refs/%s", folder, ref).at;
        if (entry->d_name[0] == '.' || lstat(path, &about) != 0)
            continue;
        if (S_ISDIR(about.st_mode)) {
            refs_remove(folder, arena_format(arena, "%s/", ref).at, commit, arena);
            continue;
        }
        hub_ref_read(known, folder, ref, arena);
        if (strcmp(known, commit) == 0)
            unlink(path);
    }
    if (entries)
        closedir(entries);
}

// Removes links of a snapshot, and the blobs that no other link uses.
static enum status files_remove(const char *folder, const char *commit,
                                const struct hub_listing *files, struct arena *arena,
                                struct error *err)
{
    const char *snapshot = arena_format(arena, "%s/snapshots/%s", folder, commit).at;
    for (size_t i = 0; i < files->count; i++) {
        const struct hub_file *file = &files->files[i];
        const char *path = arena_format(arena, "%s/%s", snapshot, file->path).at;
        if (unlink(path) != 0)
            return error_set(err, STATUS_IO, "%s cannot be removed: %s", path, strerror(errno));
        if (!file->etag)
            tree_bytes += file->bytes;
        else if (!blob_is_used(folder, file->etag, arena) &&
                 unlink(hub_blob_path(folder, file->etag, arena)) == 0)
            tree_bytes += file->bytes;
    }
    return STATUS_OK;
}

enum status hub_remove(uint64_t *bytes, const struct hub_name *given, bool only,
                       struct arena *arena, struct error *err)
{
    const char *cache;
    struct stat about;
    char commit[HUB_COMMIT_BYTES];
    struct hub_listing files, chosen = {0};
    struct hub_name wanted = *given;
    const struct hub_name *name = &wanted;
    enum status status = hub_cache_folder(&cache, arena, err);
    if (status != STATUS_OK)
        return status;
    const char *folder = hub_repo_folder(cache, name->repo, arena);
    if (lstat(folder, &about) != 0)
        return error_set(err, STATUS_NOT_FOUND, "%s is not in %s: 'weft list' shows what is",
                         name->repo, cache);
    status = hub_revision_complete(&wanted, folder, arena, err);
    if (status == STATUS_OK)
        status = locks_check(cache, name, arena, err);
    tree_bytes = 0;
    bool all = !only && name->quant[0] == '\0';
    if (status == STATUS_OK && all)
        status = tree_remove(folder, err);
    *bytes = tree_bytes;
    if (status != STATUS_OK || all)
        return status;
    hub_ref_read(commit, folder, name->revision, arena);
    hub_snapshot_list(&files, folder, commit, arena);
    if (commit[0] == '\0' || files.count == 0)
        return error_set(err, STATUS_NOT_FOUND, "%s is not in %s at revision %s", name->repo, cache,
                         name->revision);
    if (name->quant[0] != '\0')
        status = hub_gguf_select(&chosen, &files, name, arena, err);
    else
        chosen = files;
    if (status == STATUS_OK)
        status = files_remove(folder, commit, &chosen, arena, err);
    if (status == STATUS_OK && chosen.count == files.count) {
        status = tree_remove(arena_format(arena, "%s/snapshots/%s", folder, commit).at, err);
        refs_remove(folder, "", commit, arena);
    }
    *bytes = tree_bytes;
    return status;
}
