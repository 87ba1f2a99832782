// SPDX-License-Identifier: Apache-2.0
// Downloads contents into the cache; see transfer.h. A file is fetched in segments of 16 MiB, which
// are written to ETAG.weft.incomplete in any order. Its first bytes without a gap are hashed as
// they become complete, and ETAG.weft.prefix stores their number, so that a later process continues
// there. Older programs of the hub would continue a file without ".weft" in its name at its end.
#include "cli/hub/transfer.h"

#include "base/clock.h"
#include "base/log.h"
#include "cli/hub/cache.h"
#include "cli/hub/digest.h"
#include "cli/hub/request.h"
#include "cli/hub/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    SEGMENT_BYTES = 16 << 20,
    CONNECTIONS = 4,
    POLL_MS = 200,
    HOPS_MAX = 5,
    EXPIRED_MAX = 2,
    READ_BYTES = 1 << 20, // piece that is read back to be hashed
};

struct incoming {
    const struct hub_file *file;
    const char *path, *note; // path of the incomplete file; path of the note of `prefix`
    const char *url;         // address on the hub
    const char *target;      // address after redirects; NULL: not known yet
    int fd;                  // -1: not open
    struct digest *digest;
    uint64_t prefix;  // bytes without a gap, which are hashed
    uint64_t next;    // offset of the next segment
    uint32_t running; // segments that are being fetched
    bool *done;       // [segments] true: complete
    bool ranges;      // true if the server has sent a part of the file
    bool resumed;     // true if its first bytes are of an earlier process
    bool complete;
};

struct segment_request {
    CURL *easy;
    struct curl_slist *headers;
    struct incoming *file;  // NULL: idle
    uint64_t from, at, end; // the segment, and the next byte of it
    uint64_t wait_ns;       // time before which the request does not begin again; 0: it runs
    uint32_t tries;         // attempts without a byte
    uint32_t hops;          // redirects followed without a byte
    uint32_t expired;       // answers 403 or 404 of redirect targets since the last byte
    const char *url;        // where the last request went: file->url or a target of it
    bool begun;             // true if the answer's first bytes were checked
    struct hub_answer answer;
    struct download *download;
};

struct download {
    const struct hub_client *client;
    const struct hub_name *name;
    CURLM *multi;
    struct segment_request connections[CONNECTIONS];
    struct incoming *files;
    size_t count;
    struct hub_progress *progress;
    char *buffer; // [READ_BYTES]
    struct arena *arena;
    struct error *err;
    enum status status;
};

static enum status file_failed(struct download *d, const struct incoming *f)
{
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return error_set(d->err, full ? STATUS_NO_SPACE : STATUS_IO, "%s cannot be written: %s%s",
                     f->path, strerror(errno),
                     full ? "; free space, and the next start continues the download" : "");
}

static void prefix_note(const struct incoming *f)
{
    int fd = open(f->note, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (out)
        fprintf(out, "%llu\n", (unsigned long long)f->prefix);
    if (out)
        fclose(out);
}

// Returns the noted number of bytes, 0 if there is none or the file is shorter.
static uint64_t prefix_read(const struct incoming *f)
{
    unsigned long long prefix = 0;
    struct stat about;
    FILE *in = fopen(f->note, "r");
    bool read = in && fscanf(in, "%llu", &prefix) == 1;
    if (in)
        fclose(in);
    bool fits = read && fstat(f->fd, &about) == 0 && prefix <= (uint64_t)about.st_size &&
                prefix <= f->file->bytes && prefix % SEGMENT_BYTES == 0;
    return fits ? prefix : 0;
}

// Hashes the bytes from `from` to f->prefix of the incomplete file.
static enum status bytes_hash(struct download *d, struct incoming *f, uint64_t from)
{
    while (from < f->prefix) {
        uint64_t left = f->prefix - from;
        ssize_t got =
            pread(f->fd, d->buffer, left < READ_BYTES ? (size_t)left : READ_BYTES, (off_t)from);
        if (got <= 0)
            return file_failed(d, f);
        digest_add(f->digest, d->buffer, (size_t)got);
        from += (uint64_t)got;
    }
    return STATUS_OK;
}

static enum status digest_restart(struct download *d, struct incoming *f)
{
    digest_close(f->digest);
    f->digest = NULL;
    return digest_open(&f->digest, f->file->large, f->file->bytes, d->err);
}

static enum status incoming_open(struct download *d, struct incoming *f)
{
    f->fd = open(f->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (f->fd < 0)
        return file_failed(d, f);
    size_t segments = (size_t)(f->file->bytes / SEGMENT_BYTES) + 1;
    f->done = arena_alloc_zeroed(d->arena, segments, sizeof *f->done);
    f->prefix = f->next = prefix_read(f);
    f->resumed = f->prefix > 0;
    enum status status = digest_restart(d, f);
    if (status == STATUS_OK)
        status = bytes_hash(d, f, 0);
    d->progress->bytes += f->prefix;
    d->progress->bytes_first += f->prefix;
    return status;
}

static void incoming_close(struct incoming *f)
{
    digest_close(f->digest);
    if (f->fd >= 0)
        close(f->fd);
    f->digest = NULL;
    f->fd = -1;
}

// Begins the file again from its first byte.
static enum status incoming_restart(struct download *d, struct incoming *f)
{
    d->progress->bytes -= d->progress->bytes < f->prefix ? d->progress->bytes : f->prefix;
    f->prefix = f->next = 0;
    memset(f->done, 0, (size_t)(f->file->bytes / SEGMENT_BYTES) + 1);
    prefix_note(f);
    return ftruncate(f->fd, 0) == 0 ? digest_restart(d, f) : file_failed(d, f);
}

// Compares the digest of a complete file, and gives it its name.
static enum status incoming_finish(struct download *d, struct incoming *f)
{
    char found[DIGEST_TEXT_BYTES];
    digest_finish(f->digest, found);
    if (strcmp(found, f->file->etag) == 0) {
        const char *blob =
            arena_format(d->arena, "%.*s%s", (int)(strrchr(f->path, '/') + 1 - f->path), f->path,
                         f->file->etag)
                .at;
        if (fsync(f->fd) != 0 || rename(f->path, blob) != 0)
            return file_failed(d, f);
        unlink(f->note);
        incoming_close(f);
        f->complete = true;
        return STATUS_OK;
    }
    if (f->resumed) { // the earlier process may have left wrong bytes
        f->resumed = false;
        return incoming_restart(d, f);
    }
    unlink(f->path);
    unlink(f->note);
    return error_set(d->err, STATUS_IO,
                     "%s of %s has the %s %s, but the hub names %s: what was received is wrong and "
                     "was removed; check the proxy and try again",
                     f->file->path, d->name->repo, f->file->large ? "SHA-256" : "SHA-1", found,
                     f->file->etag);
}

// Handles that the bytes [from, end) are complete: hashes what has no gap now.
static enum status segment_finish(struct download *d, struct incoming *f, uint64_t from,
                                  uint64_t end)
{
    uint64_t before = f->prefix;
    for (uint64_t at = from; at < end; at += SEGMENT_BYTES)
        f->done[at / SEGMENT_BYTES] = true;
    while (f->prefix < f->file->bytes && f->done[f->prefix / SEGMENT_BYTES]) {
        uint64_t after = f->prefix + SEGMENT_BYTES;
        f->prefix = after < f->file->bytes ? after : f->file->bytes;
    }
    enum status status = bytes_hash(d, f, before);
    if (status == STATUS_OK && f->prefix > before && f->prefix < f->file->bytes)
        prefix_note(f);
    if (status == STATUS_OK && f->prefix == f->file->bytes)
        status = incoming_finish(d, f);
    return status;
}

// Handles an answer with the complete file in place of the part that was requested: this connection
// reads all of it. Returns false if other connections read other parts.
static bool whole_begin(struct segment_request *c)
{
    struct incoming *f = c->file;
    struct download *d = c->download;
    if (f->running > 1)
        return false;
    if (c->at > 0) {
        d->progress->bytes -= c->at < d->progress->bytes ? c->at : d->progress->bytes;
        f->prefix = 0;
        d->status = digest_restart(d, f);
    }
    c->from = c->at = 0;
    c->end = f->next = f->file->bytes;
    return d->status == STATUS_OK;
}

// Checks, at the first bytes of an answer, that it is what was requested.
static bool answer_begin(struct segment_request *c)
{
    struct incoming *f = c->file;
    bool part = c->answer.code == 206 && c->answer.range_from == c->at &&
                c->answer.range_size == f->file->bytes;
    c->begun = true;
    f->ranges = f->ranges || part;
    if (part || (c->answer.code == 200 && whole_begin(c)))
        return true;
    if (c->download->status == STATUS_OK)
        c->download->status =
            error_set(c->download->err, STATUS_IO,
                      "%s: the server sent another part of %s than was requested: check the proxy "
                      "and try again",
                      c->download->name->repo, f->file->path);
    return false;
}

static size_t data_handle(char *at, size_t one, size_t bytes, void *context)
{
    struct segment_request *c = context;
    struct download *d = c->download;
    (void)one;
    if (c->answer.code != 200 && c->answer.code != 206)
        return bytes; // the body of a redirect or of an error
    if (!c->begun && !answer_begin(c))
        return 0;
    if (bytes > c->end - c->at) {
        d->status =
            error_set(d->err, STATUS_IO,
                      "%s: the server sent more than the %llu bytes of %s: check the proxy "
                      "and try again",
                      d->name->repo, (unsigned long long)c->file->file->bytes, c->file->file->path);
        return 0;
    }
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = pwrite(c->file->fd, at + done, bytes - done, (off_t)c->at);
        if (wrote <= 0 && errno != EINTR) {
            d->status = file_failed(d, c->file);
            return 0;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
        c->at += wrote > 0 ? (uint64_t)wrote : 0;
    }
    c->tries = c->hops = c->expired = 0;
    d->progress->bytes += bytes;
    return bytes;
}

static void request_begin(struct segment_request *c)
{
    char range[64];
    struct incoming *f = c->file;
    c->wait_ns = 0;
    c->begun = false;
    c->url = f->target ? f->target : f->url;
    hub_request_set(c->download->client, c->easy, c->url, &c->answer, &c->headers);
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)c->at,
             (unsigned long long)c->end - 1);
    curl_easy_setopt(c->easy, CURLOPT_RANGE, range);
    curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, data_handle);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    curl_multi_add_handle(c->download->multi, c->easy);
}

// Returns the next file of which a segment can be fetched, NULL if there is none now. The first
// segment of a file is alone until the server has shown that it sends parts.
static struct incoming *incoming_next(struct download *d)
{
    for (size_t i = 0; i < d->count && d->status == STATUS_OK; i++) {
        struct incoming *f = &d->files[i];
        if (f->complete || (f->running > 0 && !f->ranges))
            continue;
        if (f->fd < 0)
            d->status = incoming_open(d, f);
        if (d->status == STATUS_OK && f->prefix == f->file->bytes)
            d->status = incoming_finish(d, f); // an empty file
        if (d->status == STATUS_OK && !f->complete && f->next < f->file->bytes)
            return f;
    }
    return NULL;
}

// Gives idle connections segments and begins requests whose time has come. Returns the number of
// connections in use.
static uint32_t connections_begin(struct download *d)
{
    uint32_t used = 0;
    uint64_t now = clock_ns();
    for (uint32_t i = 0; i < CONNECTIONS && d->status == STATUS_OK; i++) {
        struct segment_request *c = &d->connections[i];
        if (!c->file && (c->file = incoming_next(d)) != NULL) {
            c->from = c->at = c->file->next;
            c->end = c->from + SEGMENT_BYTES;
            c->end = c->end < c->file->file->bytes ? c->end : c->file->file->bytes;
            c->file->next = c->end;
            c->file->running++;
            c->tries = c->hops = c->expired = 0;
            request_begin(c);
        } else if (c->file && c->wait_ns > 0 && now >= c->wait_ns) {
            request_begin(c);
        }
        used += c->file != NULL;
    }
    return used;
}

static bool redirect_follow(struct segment_request *c)
{
    struct incoming *f = c->file;
    struct download *d = c->download;
    const char *target = hub_redirect_target(d->client, c->url, &c->answer);
    if (c->answer.linked_etag[0] != '\0' && strcmp(c->answer.linked_etag, f->file->etag) != 0) {
        d->status = error_set(d->err, STATUS_IO,
                              "%s: the hub names other contents of %s than its list of files: try "
                              "again",
                              d->name->repo, f->file->path);
        return false;
    }
    if (!target || ++c->hops > HOPS_MAX) {
        d->status = error_set(d->err, STATUS_IO, "%s: %s is redirected %s: check HF_ENDPOINT",
                              d->name->repo, f->file->path,
                              target ? "in a circle" : "to an address that is not allowed");
        return false;
    }
    f->target = target;
    request_begin(c);
    return true;
}

// Handles the end of a request: the segment is complete, or is requested again from the byte that
// it has reached.
static void request_finish(struct segment_request *c, CURLcode code)
{
    struct download *d = c->download;
    struct incoming *f = c->file;
    uint32_t wait_ms;
    curl_multi_remove_handle(d->multi, c->easy);
    curl_slist_free_all(c->headers);
    c->headers = NULL;
    if (d->status != STATUS_OK)
        return;
    bool good = code == CURLE_OK && c->answer.code / 100 == 2;
    if (good && c->at == c->end) {
        f->running--;
        c->file = NULL;
        d->status = segment_finish(d, f, c->from, c->end);
        return;
    }
    if (code == CURLE_OK && c->answer.code / 100 == 3) {
        redirect_follow(c);
        return;
    }
    // The signed address of a large file is valid for a limited time. When it ends, each connection
    // gets such an answer; those that fail before a new address is known ask the hub for one.
    bool again = c->url != f->url && (c->answer.code == 403 || c->answer.code == 404) &&
                 c->expired++ < EXPIRED_MAX;
    wait_ms = 0;
    c->hops = 0;
    if (f->target == c->url)
        f->target = NULL;
    if (!again)
        again = hub_is_passing(&c->answer, good ? CURLE_PARTIAL_FILE : code, c->tries++, &wait_ms);
    if (!again)
        d->status =
            hub_failed(d->client, d->name, &c->answer, good ? CURLE_PARTIAL_FILE : code, d->err);
    c->wait_ns = clock_ns() + wait_ms * 1000000ull + 1;
}

static void download_run(struct download *d)
{
    while (connections_begin(d) > 0 && d->status == STATUS_OK) {
        int running, left;
        CURLMsg *message;
        if (hub_is_stopped()) {
            d->status = hub_stopped(d->name->repo, d->err);
            return;
        }
        curl_multi_perform(d->multi, &running);
        while ((message = curl_multi_info_read(d->multi, &left)) != NULL) {
            struct segment_request *c = NULL;
            CURLcode code = message->data.result;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&c);
            request_finish(c, code);
        }
        hub_progress_show(d->progress);
        if (d->status == STATUS_OK && running > 0)
            curl_multi_poll(d->multi, NULL, 0, POLL_MS, NULL);
        else if (d->status == STATUS_OK)
            usleep(1000); // all connections wait for their time
    }
}

// Returns an error if the disk has less space than the missing bytes need.
static enum status space_check(struct download *d, const char *folder, uint64_t bytes)
{
    struct statvfs about;
    if (statvfs(folder, &about) != 0)
        return STATUS_OK;
    uint64_t free = (uint64_t)about.f_bavail * about.f_frsize;
    if (bytes <= free)
        return STATUS_OK;
    return error_set(d->err, STATUS_NO_SPACE,
                     "%s needs %.2f GB and %.2f GB are free in %s: free space, or set HF_HUB_CACHE "
                     "to a folder on another disk",
                     d->name->repo, (double)bytes * 1e-9, (double)free * 1e-9, folder);
}

// Lists the files whose blobs are missing. Returns the bytes that they still need on the disk.
static uint64_t incoming_list(struct download *d, const char *folder, const char *commit,
                              const struct hub_listing *files)
{
    uint64_t missing = 0;
    d->files = arena_alloc_zeroed(d->arena, files->count + 1, sizeof *d->files);
    for (size_t i = 0; i < files->count; i++) {
        const struct hub_file *file = &files->files[i];
        struct stat about;
        bool known = hub_blob_exists(folder, file, d->arena);
        for (size_t k = 0; k < d->count && !known; k++)
            known = strcmp(d->files[k].file->etag, file->etag) == 0;
        if (known)
            continue;
        struct incoming *f = &d->files[d->count++];
        const char *blob = hub_blob_path(folder, file->etag, d->arena);
        *f = (struct incoming){.file = file, .fd = -1};
        f->path = arena_format(d->arena, "%s.weft.incomplete", blob).at;
        f->note = arena_format(d->arena, "%s.weft.prefix", blob).at;
        f->url = arena_format(d->arena, "%s/%s/resolve/%s/%s", d->client->endpoint, d->name->repo,
                              commit, hub_url_escape(file->path, d->arena))
                     .at;
        uint64_t have = stat(f->path, &about) == 0 ? (uint64_t)about.st_blocks * 512 : 0;
        missing += have < file->bytes ? file->bytes - have : 0;
        d->progress->bytes_all += file->bytes;
    }
    return missing;
}

enum status hub_transfer(const struct hub_client *client, const struct hub_name *name,
                         const char *folder, const char *commit, const struct hub_listing *files,
                         struct hub_progress *progress, struct error *err)
{
    struct download *d = heap_alloc_zeroed(1, sizeof *d);
    d->client = client;
    d->name = name;
    d->progress = progress;
    d->arena = client->arena;
    d->err = err;
    const char *blobs = arena_format(d->arena, "%s/blobs", folder).at;
    d->status = hub_folder_make(blobs, err);
    if (d->status == STATUS_OK)
        d->status = space_check(d, blobs, incoming_list(d, folder, commit, files));
    d->buffer = heap_alloc(READ_BYTES);
    d->multi = curl_multi_init();
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        d->connections[i] = (struct segment_request){.easy = curl_easy_init(), .download = d};
    check(d->multi && d->connections[CONNECTIONS - 1].easy, "libcurl cannot be initialized");
    curl_multi_setopt(d->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING); // a socket for each
    if (d->status == STATUS_OK)
        download_run(d);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        curl_multi_remove_handle(d->multi, d->connections[i].easy);
        curl_slist_free_all(d->connections[i].headers);
        curl_easy_cleanup(d->connections[i].easy);
    }
    curl_multi_cleanup(d->multi);
    for (size_t i = 0; i < d->count; i++)
        incoming_close(&d->files[i]);
    enum status status = d->status;
    heap_free(d->buffer);
    heap_free(d);
    return status;
}
