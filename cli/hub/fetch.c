// SPDX-License-Identifier: Apache-2.0
// From a name to a complete model in the cache; see hub.h. The order keeps a model from being half
// there: contents first, then the links of a snapshot, config.json as the last of them, then the
// commit of the revision.
#include "cli/hub/hub.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/hub/cache.h"
#include "cli/hub/digest.h"
#include "cli/hub/sizes.h"
#include "cli/hub/stop.h"
#include "cli/hub/transfer.h"
#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGES_MAX = 1000,                       // pages of the list of files
    DESCRIPTIONS_MAX = 1024,                // files other than weights and tokenizers
    DESCRIPTION_BYTES = HUB_JSON_BYTES_MAX, // largest of them, which is parsed in memory
};
#define FILE_BYTES_MAX ((int64_t)1 << 50) // larger ones are not listed; sums do not overflow

struct fetch {
    struct hub_name *name; // the revision may become a commit
    bool checks;           // true if contents that are in the cache are compared with their digests
    const char *cache, *folder;
    char commit[HUB_COMMIT_BYTES];
    struct hub_client client;
    struct hub_listing listing; // all files of the commit
    struct hub_listing wanted;  // files that weft reads
    struct hub_progress progress;
    struct arena *arena;
};

// Requests the commit that the revision is.
static enum status commit_request(struct fetch *f, struct error *err)
{
    json_t *info;
    const char *revision = f->name->revision;
    const char *slash = strchr(revision, '/');
    // a branch such as refs/pr/1 is one part of the path
    const char *escaped =
        slash
            ? arena_format(f->arena, "%.*s%%2F%s", (int)(slash - revision), revision, slash + 1).at
            : hub_url_escape(revision, f->arena);
    for (slash = strchr(escaped, '/'); slash; slash = strchr(escaped, '/'))
        escaped =
            arena_format(f->arena, "%.*s%%2F%s", (int)(slash - escaped), escaped, slash + 1).at;
    const char *url = arena_format(f->arena, "%s/api/models/%s/revision/%s", f->client.endpoint,
                                   f->name->repo, escaped)
                          .at;
    enum status status = hub_json(&f->client, &info, url, f->name, NULL, err);
    if (status != STATUS_OK)
        return status;
    const char *commit = json_string_value(json_object_get(info, "sha"));
    bool known = commit && hub_is_commit(commit);
    if (known)
        memcpy(f->commit, commit, HUB_COMMIT_BYTES);
    json_decref(info);
    return known ? STATUS_OK
                 : error_set(err, STATUS_IO, "%s does not name the commit of %s: check HF_ENDPOINT",
                             f->client.endpoint, f->name->repo);
}

// Returns true if the path stays in its folder and the etag is a file name.
static bool entry_is_safe(const char *path, const char *etag)
{
    size_t digits = strspn(etag, "0123456789abcdef");
    for (const char *c = path; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) // it would reach the terminal
            return false;
    if (path[0] == '/' || path[0] == '\0' || etag[digits] != '\0' || (digits != 40 && digits != 64))
        return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t bytes = strcspn(part, "/");
        if (bytes == 0 || strncmp(part, ".", bytes) == 0 || strncmp(part, "..", bytes) == 0)
            return false;
    }
    return true;
}

static void entry_add(struct fetch *f, const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    const json_t *large = json_object_get(entry, "lfs");
    const json_t *source = json_is_object(large) ? large : entry;
    const char *etag = json_string_value(json_object_get(source, "oid"));
    int64_t bytes;
    if (!type || strcmp(type, "file") != 0 || !path || !etag || !entry_is_safe(path, etag) ||
        !json_integer_exact(json_object_get(source, "size"), &bytes) || bytes < 0 ||
        bytes > FILE_BYTES_MAX)
        return;
    struct hub_file file = {.path = arena_copy(f->arena, text_of(path)).at,
                            .bytes = (uint64_t)bytes,
                            .etag = arena_copy(f->arena, text_of(etag)).at,
                            .large = strlen(etag) == 64};
    hub_listing_add(&f->listing, file, f->arena);
}

// Requests the files of the commit, in pages.
static enum status listing_request(struct fetch *f, struct error *err)
{
    const char *url = arena_format(f->arena, "%s/api/models/%s/tree/%s?recursive=true",
                                   f->client.endpoint, f->name->repo, f->commit)
                          .at;
    for (int pages = 0; url && pages < PAGES_MAX; pages++) {
        json_t *page;
        size_t i;
        json_t *entry;
        enum status status = hub_json(&f->client, &page, url, f->name, &url, err);
        if (status != STATUS_OK)
            return status;
        json_array_foreach(page, i, entry) entry_add(f, entry);
        json_decref(page);
    }
    return url ? error_set(err, STATUS_TOO_LARGE,
                           "%s has more than %d pages of files: it is not read, download the files "
                           "of the model to a folder and give that",
                           f->name->repo, PAGES_MAX)
               : STATUS_OK;
}

static int etag_order(const void *a, const void *b)
{
    return strcmp(((const struct hub_file *)a)->etag, ((const struct hub_file *)b)->etag);
}

// Returns true if the content of the blob has the digest that is its name, or cannot be compared
// with it.
static bool blob_is_right(struct fetch *f, const struct hub_file *file)
{
    enum { PIECE_BYTES = 1 << 20 };
    char found[DIGEST_TEXT_BYTES];
    struct digest *digest;
    FILE *in = fopen(hub_blob_path(f->folder, file->etag, f->arena), "re");
    if (!in)
        return true; // the loader reports it
    bool known = digest_open(&digest, file->large, file->bytes, &(struct error){0}) == STATUS_OK;
    char *piece = heap_alloc(PIECE_BYTES);
    for (size_t got = 1; known && got > 0 && !hub_is_stopped();) {
        got = fread(piece, 1, PIECE_BYTES, in);
        digest_add(digest, piece, got);
        f->progress.bytes += got;
        hub_progress_show(&f->progress);
    }
    bool right = !known || ferror(in) || hub_is_stopped();
    if (!right) {
        digest_finish(digest, found);
        right = strcmp(found, file->etag) == 0;
    }
    if (known)
        digest_close(digest);
    heap_free(piece);
    fclose(in);
    return right;
}

// Removes a blob that has another digest than its name. The caller has its lock.
static enum status damaged_remove(struct fetch *f, const struct hub_file *file, struct error *err)
{
    const char *blob = hub_blob_path(f->folder, file->etag, f->arena);
    if (!f->checks || !hub_blob_exists(f->folder, file, f->arena) || blob_is_right(f, file))
        return STATUS_OK;
    hub_progress_end(&f->progress);
    log_line(LOG_WARNING, "%s: %s in the cache is damaged and is fetched again", f->name->repo,
             file->path);
    return unlink(blob) == 0 ? STATUS_OK
                             : error_set(err, STATUS_IO, "%s is damaged and cannot be removed: %s",
                                         blob, strerror(errno));
}

// Lists the files whose blobs are missing or damaged.
static struct hub_listing missing_list(struct fetch *f, const struct hub_listing *files)
{
    struct hub_listing missing = {0};
    hub_progress_begin(&f->progress, "checking", f->name->repo);
    for (size_t i = 0; i < files->count; i++)
        if (f->checks && hub_blob_exists(f->folder, &files->files[i], f->arena))
            f->progress.bytes_all += files->files[i].bytes;
    for (size_t i = 0; i < files->count; i++)
        if (!hub_blob_exists(f->folder, &files->files[i], f->arena) ||
            (f->checks && !blob_is_right(f, &files->files[i])))
            hub_listing_add(&missing, files->files[i], f->arena);
    hub_progress_end(&f->progress);
    return missing;
}

// Downloads what is missing of the files. Locks the blobs in the order of their names, so that two
// processes cannot wait for each other.
static enum status files_fetch(struct fetch *f, const struct hub_listing *files, struct error *err)
{
    struct hub_listing missing = missing_list(f, files);
    if (missing.count == 0)
        return hub_is_stopped() ? hub_stopped(f->name->repo, err) : STATUS_OK;
    qsort(missing.files, missing.count, sizeof *missing.files, etag_order);
    int *locks = arena_alloc(f->arena, missing.count * sizeof *locks);
    size_t locked = 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < missing.count && status == STATUS_OK; i++) {
        if (i > 0 && strcmp(missing.files[i].etag, missing.files[i - 1].etag) == 0)
            continue;
        status = hub_lock(&locks[locked], f->cache, f->name->repo, missing.files[i].etag, true,
                          f->arena, err);
        locked += status == STATUS_OK;
        if (status == STATUS_OK)
            status = damaged_remove(f, &missing.files[i], err);
    }
    hub_progress_begin(&f->progress, "fetching", f->name->repo);
    if (status == STATUS_OK)
        status =
            hub_transfer(&f->client, f->name, f->folder, f->commit, &missing, &f->progress, err);
    while (locked > 0)
        close(locks[--locked]);
    return status;
}

// Reads the index of the weights' files, NULL if there is none.
static json_t *index_read(const struct fetch *f, const char *weights)
{
    json_t *index = NULL;
    bool is_index;
    const char *path = hub_weights_find(&f->listing, weights, &is_index, f->arena);
    const struct hub_file *file = is_index ? hub_listing_find(&f->listing, path) : NULL;
    const char *blob = file ? hub_blob_path(f->folder, file->etag, f->arena) : NULL;
    if (!blob || json_file_parse(&index, blob, HUB_JSON_BYTES_MAX, &(struct error){0}) != STATUS_OK)
        return NULL;
    return index;
}

// Adds the small files to f->wanted. Returns an error if there is nothing to judge, or they are too
// large.
static enum status descriptions_select(struct fetch *f, struct error *err)
{
    struct hub_listing ignored = {0};
    if (hub_listing_find(&f->listing, "adapter_config.json"))
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s is an adapter, not a model (adapter_config.json), and weft serves no "
                         "adapters: merge it into its base model and serve that folder",
                         f->name->repo);
    if (!hub_listing_find(&f->listing, "config.json"))
        return hub_folder_select(&ignored, &f->listing, f->name, "", NULL, f->arena, err) ==
                       STATUS_OK
                   ? error_set(err, STATUS_UNSUPPORTED,
                               "%s has no config.json: it is not a model that weft reads",
                               f->name->repo)
                   : err->status;
    for (size_t i = 0; i < f->listing.count; i++) {
        const struct hub_file *file = &f->listing.files[i];
        if (!hub_is_description(&f->listing, file->path))
            continue;
        if (file->bytes > DESCRIPTION_BYTES)
            return error_set(
                err, STATUS_TOO_LARGE,
                "%s: %s has %.0f MB, and at most %d MB are read: it is not the file of "
                "a model",
                f->name->repo, file->path, (double)file->bytes * 1e-6, DESCRIPTION_BYTES / 1000000);
        if (f->wanted.count == DESCRIPTIONS_MAX)
            return error_set(err, STATUS_TOO_LARGE,
                             "%s has more than %d templates and settings: it is not read",
                             f->name->repo, DESCRIPTIONS_MAX);
        hub_listing_add(&f->wanted, *file, f->arena);
    }
    return STATUS_OK;
}

// Downloads the small files, judges the model by them, and adds weights and tokenizer to f->wanted.
static enum status folder_describe(struct fetch *f, struct error *err)
{
    const char *weights;
    enum status status = descriptions_select(f, err);
    if (status == STATUS_OK)
        status = files_fetch(f, &f->wanted, err);
    if (status == STATUS_OK)
        status = hub_judge(&weights, f->folder, f->name, &f->wanted, f->arena, err);
    if (status != STATUS_OK)
        return status;
    json_t *index = index_read(f, weights);
    status = hub_folder_select(&f->wanted, &f->listing, f->name, weights, index, f->arena, err);
    json_decref(index);
    return status;
}

static void start_show(const struct fetch *f)
{
    uint64_t bytes = 0, missing = 0;
    for (size_t i = 0; i < f->wanted.count; i++) {
        bytes += f->wanted.files[i].bytes;
        if (!hub_blob_exists(f->folder, &f->wanted.files[i], f->arena))
            missing += f->wanted.files[i].bytes;
    }
    if (log_level_get() >= LOG_WARNING && missing > 0)
        log_text("fetching %s at commit %s (%s): %zu files, %.2f GB\n", f->name->repo, f->commit,
                 f->name->revision, f->wanted.count, (double)bytes * 1e-9);
}

// Creates the links of the snapshot and stores the commit of the revision.
static enum status snapshot_write(struct fetch *f, struct error *err)
{
    enum status status = STATUS_OK;
    const struct hub_file *last = NULL;
    for (size_t i = 0; i < f->wanted.count && status == STATUS_OK; i++) {
        const struct hub_file *file = &f->wanted.files[i];
        if (strcmp(file->path, "config.json") == 0)
            last = file;
        else
            status = hub_link(f->folder, f->commit, file, f->arena, err);
    }
    if (status == STATUS_OK && last)
        status = hub_link(f->folder, f->commit, last, f->arena, err);
    if (status == STATUS_OK)
        hub_sizes_note(f->folder, &f->wanted, f->arena);
    return status == STATUS_OK
               ? hub_ref_write(f->folder, f->name->revision, f->commit, f->arena, err)
               : status;
}

static enum status model_download(struct fetch *f, const char **out, struct error *err)
{
    bool folder = hub_is_folder(&f->listing, f->name);
    uint64_t begun = clock_ns();
    enum status status = folder ? folder_describe(f, err)
                                : hub_gguf_select(&f->wanted, &f->listing, f->name, f->arena, err);
    if (status == STATUS_OK && !folder)
        status = hub_quant_check(f->wanted.files[0].path, f->name, err);
    if (status != STATUS_OK)
        return status;
    start_show(f);
    status = files_fetch(f, &f->wanted, err);
    hub_progress_end(&f->progress);
    if (status == STATUS_OK)
        status = snapshot_write(f, err);
    if (status != STATUS_OK)
        return status;
    log_line(LOG_INFO, "%s is complete at commit %s in %.1f s", f->name->repo, f->commit,
             (double)(clock_ns() - begun) * 1e-9);
    const char *inside = folder ? "" : f->wanted.files[0].path;
    *out = arena_format(f->arena, "%s/snapshots/%s%s%s", f->folder, f->commit, folder ? "" : "/",
                        inside)
               .at;
    return STATUS_OK;
}

// Asks the hub. known: the model in the cache, or NULL.
static enum status hub_ask(struct fetch *f, const char *known, const char **out, struct error *err)
{
    enum status status = hub_client_open(&f->client, f->arena, err);
    if (status == STATUS_OK && !hub_is_commit(f->name->revision))
        status = commit_request(f, err);
    else if (status == STATUS_OK)
        memcpy(f->commit, f->name->revision, HUB_COMMIT_BYTES);
    *out = NULL;
    if (status == STATUS_OK && !f->checks)
        *out = hub_snapshot_find(f->folder, f->commit, f->name, true, f->arena);
    if (*out)
        status = hub_ref_write(f->folder, f->name->revision, f->commit, f->arena, err);
    else if (status == STATUS_OK) {
        status = listing_request(f, err);
        if (status == STATUS_OK) {
            known = NULL; // the hub answers: a failure of the download is reported
            status = model_download(f, out, err);
        }
    }
    if (status == STATUS_IO && known) {
        log_line(LOG_WARNING, "%s: the model in the cache is used, because %s", f->name->repo,
                 err->text);
        *out = known;
        hub_ref_read(f->commit, f->folder, f->name->revision, f->arena);
        status = STATUS_OK;
    }
    hub_client_close(&f->client);
    return status;
}

// Finds the model in the cache, else asks the hub. f: with the name, what is checked and the arena.
static enum status model_find(struct fetch *f, const char **out, struct error *err)
{
    enum status status = hub_cache_folder(&f->cache, f->arena, err);
    if (status != STATUS_OK)
        return status;
    f->folder = hub_repo_folder(f->cache, f->name->repo, f->arena);
    status = hub_revision_complete(f->name, f->folder, f->arena, err);
    if (status != STATUS_OK)
        return status;
    hub_ref_read(f->commit, f->folder, f->name->revision, f->arena);
    *out = hub_snapshot_find(f->folder, f->commit, f->name, true, f->arena);
    bool offline = hub_is_offline();
    if (*out && (!f->checks || offline)) {
        log_line(LOG_INFO, "%s: commit %s of the cache", f->name->repo, f->commit);
        return STATUS_OK;
    }
    const char *known =
        *out ? *out : hub_snapshot_find(f->folder, f->commit, f->name, false, f->arena);
    if (!offline)
        return hub_ask(f, known, out, err);
    *out = known;
    return known ? STATUS_OK
                 : error_set(err, STATUS_NOT_FOUND,
                             "there is no folder %s here, %s is not complete in %s, and "
                             "HF_HUB_OFFLINE is set: unset it, or copy the model there",
                             f->name->repo, f->name->repo, f->cache);
}

enum status hub_fetch(const char **out, const struct hub_name *name, enum hub_wish wish,
                      struct arena *arena, struct error *err)
{
    struct hub_name wanted = *name;
    struct fetch f = {.name = &wanted, .checks = wish == HUB_NEWEST, .arena = arena};
    enum status status = model_find(&f, out, err);
    if (status == STATUS_OK && f.checks && log_level_get() >= LOG_WARNING)
        log_text("%s at commit %s (%s)\n", name->repo, f.commit, name->revision);
    return status;
}

enum status hub_model_find(const char **out, const char *text, struct arena *arena,
                           struct error *err)
{
    struct hub_name name;
    *out = text;
    return hub_name_is(&name, text) ? hub_fetch(out, &name, HUB_CACHED, arena, err) : STATUS_OK;
}
