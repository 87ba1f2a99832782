// SPDX-License-Identifier: Apache-2.0
// The layout of the hub's cache; see cache.h.
#include "cli/hub/cache.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/hub/sizes.h"
#include "cli/hub/stop.h"
#include "cli/options.h"
#include "runtime/model/config.h"
#include "runtime/source/modules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool hub_is_on(const char *name)
{
    static const char *const values[] = {"1", "on", "yes", "true"};
    const char *value = options_environment(name);
    for (size_t i = 0; value && i < sizeof values / sizeof *values; i++)
        if (strcasecmp(value, values[i]) == 0)
            return true;
    return false;
}

bool hub_is_offline(void)
{
    return hub_is_on("HF_HUB_OFFLINE") || hub_is_on("TRANSFORMERS_OFFLINE");
}

// Returns the text with a leading ~ replaced by the home folder.
static const char *home_expand(const char *path, struct arena *arena)
{
    const char *home = options_environment("HOME");
    if (path[0] != '~' || (path[1] != '/' && path[1] != '\0') || !home)
        return path;
    return arena_format(arena, "%s%s", home, path + 1).at;
}

const char *hub_home(struct arena *arena)
{
    const char *given = options_environment("HF_HOME");
    const char *cache = options_environment("XDG_CACHE_HOME");
    const char *home = options_environment("HOME");
    if (given)
        return home_expand(given, arena);
    if (cache)
        return arena_format(arena, "%s/huggingface", cache).at;
    return home ? arena_format(arena, "%s/.cache/huggingface", home).at : NULL;
}

enum status hub_cache_folder(const char **out, struct arena *arena, struct error *err)
{
    const char *given = options_environment("HF_HUB_CACHE");
    given = given ? given : options_environment("HUGGINGFACE_HUB_CACHE"); // its former name
    const char *home = hub_home(arena);
    *out = given ? home_expand(given, arena) : home ? arena_format(arena, "%s/hub", home).at : NULL;
    if (!*out)
        return error_set(err, STATUS_NOT_FOUND,
                         "the folder for models is not known: set HF_HUB_CACHE or HOME");
    if (strlen(*out) > FOLDER_BYTES_MAX / 4)
        return error_set(err, STATUS_INVALID, "the path of HF_HUB_CACHE or HF_HOME is too long");
    return STATUS_OK;
}

const char *hub_repo_folder(const char *cache, const char *repo, struct arena *arena)
{
    const char *slash = strchr(repo, '/');
    return arena_format(arena, "%s/models--%.*s--%s", cache, (int)(slash - repo), repo, slash + 1)
        .at;
}

void hub_ref_read(char commit[HUB_COMMIT_BYTES], const char *folder, const char *revision,
                  struct arena *arena)
{
    struct text text;
    commit[0] = '\0';
    if (hub_is_commit(revision)) {
        memcpy(commit, revision, HUB_COMMIT_BYTES);
        return;
    }
    const char *path = arena_format(arena, "%s/refs/%s", folder, revision).at;
    if (file_read(&text, arena, path, 256, &(struct error){0}) != STATUS_OK)
        return;
    while (text.bytes > 0 && strchr(" \n\r", text.at[text.bytes - 1]))
        text.bytes--;
    text = arena_copy(arena, text);
    if (hub_is_commit(text.at))
        memcpy(commit, text.at, HUB_COMMIT_BYTES);
}

enum status hub_revision_complete(struct hub_name *name, const char *folder, struct arena *arena,
                                  struct error *err)
{
    char commit[HUB_COMMIT_BYTES];
    hub_ref_read(commit, folder, name->revision, arena);
    if (commit[0] != '\0' || !hub_is_commit_prefix(name->revision))
        return STATUS_OK;
    size_t digits = strlen(name->revision);
    bool several = false;
    DIR *entries = opendir(arena_format(arena, "%s/snapshots", folder).at);
    struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL) {
        if (!hub_is_commit(entry->d_name) || strncmp(entry->d_name, name->revision, digits) != 0)
            continue;
        several = several || commit[0] != '\0';
        memcpy(commit, entry->d_name, HUB_COMMIT_BYTES);
    }
    if (entries)
        closedir(entries);
    if (several)
        return error_set(err, STATUS_INVALID,
                         "%s has several cached commits that begin with %s: give more digits",
                         name->repo, name->revision);
    if (commit[0] != '\0')
        memcpy(name->revision, commit, HUB_COMMIT_BYTES);
    return STATUS_OK;
}

static enum status write_failed(const char *path, struct error *err)
{
    return error_set(err, errno == ENOSPC ? STATUS_NO_SPACE : STATUS_IO, "%s cannot be written: %s",
                     path, strerror(errno));
}

enum status hub_folder_make(const char *path, struct error *err)
{
    char part[FOLDER_BYTES_MAX];
    if (strlen(path) >= sizeof part)
        return error_set(err, STATUS_TOO_LARGE, "the path %.100s... is too long", path);
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return write_failed(part, err);
    }
    return STATUS_OK;
}

// Creates the folder that the file is in.
static enum status parent_make(const char *path, struct arena *arena, struct error *err)
{
    size_t bytes = (size_t)(strrchr(path, '/') - path);
    return hub_folder_make(arena_copy(arena, text_span(path, bytes)).at, err);
}

enum status hub_ref_write(const char *folder, const char *revision, const char *commit,
                          struct arena *arena, struct error *err)
{
    char known[HUB_COMMIT_BYTES];
    hub_ref_read(known, folder, revision, arena);
    if (strcmp(known, commit) == 0)
        return STATUS_OK;
    const char *path = arena_format(arena, "%s/refs/%s", folder, revision).at;
    const char *part = arena_format(arena, "%s.%d.tmp", path, (int)getpid()).at;
    enum status status = parent_make(path, arena, err);
    if (status != STATUS_OK)
        return status;
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    bool wrote = out && fputs(commit, out) >= 0;
    if (out && fclose(out) != 0)
        wrote = false;
    if (wrote && rename(part, path) == 0)
        return STATUS_OK;
    status = write_failed(path, err);
    unlink(part);
    return status;
}

const char *hub_blob_path(const char *folder, const char *etag, struct arena *arena)
{
    return arena_format(arena, "%s/blobs/%s", folder, etag).at;
}

bool hub_blob_exists(const char *folder, const struct hub_file *file, struct arena *arena)
{
    struct stat about;
    return stat(hub_blob_path(folder, file->etag, arena), &about) == 0 && S_ISREG(about.st_mode) &&
           (uint64_t)about.st_size == file->bytes;
}

enum status hub_link(const char *folder, const char *commit, const struct hub_file *file,
                     struct arena *arena, struct error *err)
{
    struct stat about;
    const char *path = arena_format(arena, "%s/snapshots/%s/%s", folder, commit, file->path).at;
    if (stat(path, &about) == 0)
        return STATUS_OK;
    enum status status = parent_make(path, arena, err);
    if (status != STATUS_OK)
        return status;
    const char *up = "../..";
    for (const char *c = file->path; *c != '\0'; c++)
        if (*c == '/')
            up = arena_format(arena, "%s/..", up).at;
    const char *target = arena_format(arena, "%s/blobs/%s", up, file->etag).at;
    unlink(path);
    return symlink(target, path) == 0 || errno == EEXIST ? STATUS_OK : write_failed(path, err);
}

// Appends the files of a subfolder of a snapshot. inside: "" or the subfolder with a slash.
static void files_list(struct hub_listing *out, const char *snapshot, const char *inside, int depth,
                       struct arena *arena)
{
    DIR *entries = opendir(arena_format(arena, "%s/%s", snapshot, inside).at);
    struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL) {
        char target[PATH_MAX];
        struct stat about, itself; // a link to a folder may lead out of the cache
        const char *path = arena_format(arena, "%s%s", inside, entry->d_name).at;
        const char *full = arena_format(arena, "%s/%s", snapshot, path).at;
        if (entry->d_name[0] == '.' || stat(full, &about) != 0 || lstat(full, &itself) != 0)
            continue;
        if (S_ISDIR(itself.st_mode) && depth < 3)
            files_list(out, snapshot, arena_format(arena, "%s/", path).at, depth + 1, arena);
        if (!S_ISREG(about.st_mode))
            continue;
        struct hub_file file = {.path = path, .bytes = (uint64_t)about.st_size};
        ssize_t bytes = readlink(full, target, sizeof target - 1);
        if (bytes > 0) {
            target[bytes] = '\0';
            const char *slash = strrchr(target, '/');
            file.etag = arena_copy(arena, text_of(slash ? slash + 1 : target)).at;
        }
        hub_listing_add(out, file, arena);
    }
    if (entries)
        closedir(entries);
}

void hub_snapshot_list(struct hub_listing *out, const char *folder, const char *commit,
                       struct arena *arena)
{
    *out = (struct hub_listing){0};
    files_list(out, arena_format(arena, "%s/snapshots/%s", folder, commit).at, "", 0, arena);
}

// Returns false if the list of the commit's files, which newer programs of the hub store, names a
// small file that the snapshot lacks, or another size for a file that weft reads.
static bool tree_fits(const struct hub_listing *have, const struct hub_listing *chosen,
                      const char *folder, const char *commit, struct arena *arena)
{
    json_t *tree;
    bool fits = true;
    const char *key;
    json_t *value;
    const char *path = arena_format(arena, "%s/trees/%s.json", folder, commit).at;
    if (json_file_parse(&tree, path, HUB_JSON_BYTES_MAX, &(struct error){0}) != STATUS_OK)
        return true;
    json_object_foreach(json_object_get(tree, "files"), key, value)
    {
        int64_t size;
        const struct hub_file *file = hub_listing_find(have, key);
        bool description = hub_is_description(have, key);
        if (!file)
            fits = fits && !description;
        else if (file->etag && (description || hub_listing_find(chosen, key)) &&
                 json_integer_exact(json_object_get(value, "size"), &size))
            fits = fits && size == (int64_t)file->bytes;
    }
    json_decref(tree);
    return fits;
}

// Returns the subfolder with the weights: the first module of sentence-transformers.
static const char *weights_subfolder(const char *snapshot, struct arena *arena)
{
    json_t *modules;
    const char *path = arena_format(arena, "%s/modules.json", snapshot).at, *inside = "";
    if (json_file_parse(&modules, path, HUB_JSON_BYTES_MAX, &(struct error){0}) != STATUS_OK)
        return "";
    const char *first = json_string_value(json_object_get(json_array_get(modules, 0), "path"));
    if (first && first[0] != '\0')
        inside = arena_format(arena, "%s/", first).at;
    json_decref(modules);
    return inside;
}

// Returns false if a file of *have that weft reads has another size than was noted.
static bool sizes_fit(const struct hub_listing *have, const struct hub_listing *chosen,
                      const char *folder, struct arena *arena)
{
    json_t *sizes = hub_sizes_read(folder, arena);
    bool fit = true;
    for (size_t i = 0; i < have->count && fit; i++) {
        const struct hub_file *file = &have->files[i];
        int64_t noted;
        bool is_read = hub_is_description(have, file->path) || hub_listing_find(chosen, file->path);
        if (is_read && file->etag && json_integer_exact(json_object_get(sizes, file->etag), &noted))
            fit = noted == (int64_t)file->bytes;
    }
    json_decref(sizes);
    return fit;
}

static bool folder_complete(struct hub_listing *chosen, const char *snapshot,
                            const struct hub_listing *have, const struct hub_name *name,
                            struct arena *arena)
{
    json_t *index = NULL;
    const char *inside = weights_subfolder(snapshot, arena);
    const char *config = arena_format(arena, "%sconfig.json", inside).at;
    bool is_index;
    const char *weights = hub_weights_find(have, inside, &is_index, arena);
    if (!hub_listing_find(have, config) || !weights)
        return false;
    const char *path = arena_format(arena, "%s/%s", snapshot, weights).at;
    if (!is_index ||
        json_file_parse(&index, path, HUB_JSON_BYTES_MAX, &(struct error){0}) != STATUS_OK)
        index = NULL;
    bool complete = hub_folder_select(chosen, have, name, inside, index, arena,
                                      &(struct error){0}) == STATUS_OK;
    json_decref(index);
    return complete;
}

const char *hub_snapshot_find(const char *folder, const char *commit, const struct hub_name *name,
                              bool clear, struct arena *arena)
{
    struct hub_listing have, chosen = {0};
    const char *snapshot = arena_format(arena, "%s/snapshots/%s", folder, commit).at;
    if (commit[0] == '\0')
        return NULL;
    hub_snapshot_list(&have, folder, commit, arena);
    if (hub_is_folder(&have, name))
        return folder_complete(&chosen, snapshot, &have, name, arena) &&
                       tree_fits(&have, &chosen, folder, commit, arena) &&
                       sizes_fit(&have, &chosen, folder, arena)
                   ? snapshot
                   : NULL;
    struct hub_name wanted = *name;
    if (wanted.quant[0] == '\0' && clear)
        snprintf(wanted.quant, sizeof wanted.quant, "Q4_K_M");
    if (hub_gguf_select(&chosen, &have, &wanted, arena, &(struct error){0}) != STATUS_OK ||
        !sizes_fit(&have, &chosen, folder, arena))
        return NULL;
    return arena_format(arena, "%s/%s", snapshot, chosen.files[0].path).at;
}

enum status hub_lock(int *out, const char *cache, const char *repo, const char *etag, bool wait,
                     struct arena *arena, struct error *err)
{
    const char *slash = strchr(repo, '/');
    const char *path = arena_format(arena, "%s/.locks/models--%.*s--%s/%s.lock", cache,
                                    (int)(slash - repo), repo, slash + 1, etag)
                           .at;
    enum status status = parent_make(path, arena, err);
    *out = -1;
    bool told = false;
    while (status == STATUS_OK) {
        struct stat opened, there;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
        if (fd < 0)
            return write_failed(path, err);
        bool busy = flock(fd, LOCK_EX | LOCK_NB) != 0;
        if (busy && errno != EWOULDBLOCK && errno != EINTR) {
            close(fd);
            return error_set(err, STATUS_IO, "%s cannot be locked: %s", path, strerror(errno));
        }
        // The process that had the lock may have removed the file.
        if (!busy && fstat(fd, &opened) == 0 && stat(path, &there) == 0 &&
            opened.st_ino == there.st_ino) {
            *out = fd;
            return STATUS_OK;
        }
        close(fd);
        if (busy && !wait)
            return STATUS_OK;
        if (busy && !told && log_level_get() >= LOG_WARNING)
            log_text("waiting for another process that downloads %s\n", repo);
        told = told || busy;
        if (busy && !hub_sleep(100))
            status = hub_stopped(repo, err);
    }
    return status;
}

// Removes the links and folders below the folder, and the folder.
static void stage_remove(const char *stage, const struct hub_listing *files, struct arena *arena)
{
    for (size_t i = 0; i < files->count; i++) {
        char *path = (char *)arena_format(arena, "%s/%s", stage, files->files[i].path).at;
        unlink(path);
        for (char *slash = strrchr(path, '/'); slash > path + strlen(stage);
             slash = strrchr(path, '/')) {
            *slash = '\0';
            rmdir(path);
        }
    }
    rmdir(stage);
}

// Replaces the path of the stage in a sentence by the name of the model.
static void error_rename(struct error *err, const char *stage, const char *repo)
{
    char text[sizeof err->text];
    for (char *at = strstr(err->text, stage); at; at = strstr(err->text, stage)) {
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - err->text), err->text, repo,
                 at + strlen(stage));
        memcpy(err->text, text, sizeof text);
    }
}

// Creates an empty folder for links: in the repository's folder, or in that of temporary files if
// the cache is read-only. NULL, with errno, if it cannot.
static char *stage_make(const char *folder, struct arena *arena)
{
    const char *other = options_environment("TMPDIR");
    char *stage = (char *)arena_format(arena, "%s/.weft-XXXXXX", folder).at;
    if (mkdtemp(stage))
        return stage;
    stage = (char *)arena_format(arena, "%s/.weft-XXXXXX", other ? other : "/tmp").at;
    return mkdtemp(stage);
}

enum status hub_judge(const char **weights, const char *folder, const struct hub_name *name,
                      const struct hub_listing *files, struct arena *arena, struct error *err)
{
    char full[PATH_MAX];
    enum status status = STATUS_OK;
    *weights = "";
    const char *stage = realpath(folder, full) ? stage_make(folder, arena) : NULL;
    if (!stage)
        return write_failed(folder, err);
    for (size_t i = 0; i < files->count && status == STATUS_OK; i++) {
        const char *path = arena_format(arena, "%s/%s", stage, files->files[i].path).at;
        const char *blob = arena_format(arena, "%s/blobs/%s", full, files->files[i].etag).at;
        status = parent_make(path, arena, err);
        if (status == STATUS_OK && symlink(blob, path) != 0)
            status = write_failed(path, err);
    }
    struct model_config *config = arena_alloc_zeroed(arena, 1, sizeof *config);
    if (status == STATUS_OK)
        status = model_config_read(config, stage, err);
    size_t bytes = strlen(stage);
    if (status == STATUS_OK && strlen(config->weights_folder) > bytes)
        *weights = arena_format(arena, "%s/", config->weights_folder + bytes + 1).at;
    stage_remove(stage, files, arena);
    if (status != STATUS_OK)
        error_rename(err, stage, name->repo);
    if (status != STATUS_OK && !strstr(err->text, name->repo))
        error_prefix(err, "%s", name->repo);
    return status;
}
