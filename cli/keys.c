// SPDX-License-Identifier: Apache-2.0
// Collects the API keys; see keys.h. Main thread.
#include "cli/keys.h"

#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "http/key_rules.h"

#include <string.h>
#include <sys/stat.h>

enum { KEY_CHARACTERS = 32, KEY_FILE_BYTES_MAX = 1 << 20 };

// Appends a key. The list's memory doubles when it is full: a file may contain half a million keys.
static void key_add(struct texts *list, const char *key, struct arena *arena)
{
    size_t bytes = list->count * sizeof *list->at;
    if ((list->count & (list->count - 1)) == 0)
        list->at = arena_grow(arena, list->at, bytes, bytes > 0 ? 2 * bytes : sizeof *list->at);
    list->at[list->count++] = key;
}

void secret_file_warn(const char *option, const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && (about.st_mode & (S_IRGRP | S_IROTH)) != 0)
        log_line(LOG_WARNING, "%s %s can be read by other users: chmod 600 it", option, path);
}

// Splits the text in place and appends its keys: the list points into the text.
static enum status lines_read(struct texts *list, char *text, const char *path, struct arena *arena,
                              struct error *err)
{
    uint32_t number = 1;
    for (char *line = text; *line != '\0';) {
        size_t bytes = strcspn(line, "\r\n");
        char end = line[bytes];
        line[bytes] = '\0';
        if (bytes > 0 && *line != '#') {
            if (key_check(line, err) != STATUS_OK)
                return error_prefix(err, "%s line %u", path, number);
            key_add(list, line, arena);
        }
        line += bytes + (end != '\0');
        number += end == '\n';
    }
    return STATUS_OK;
}

static enum status file_keys(struct serve_keys *out, const char *path, struct arena *arena,
                             struct error *err)
{
    struct texts *list = &out->list;
    enum status status = file_read(&out->file, arena, path, KEY_FILE_BYTES_MAX, err);
    if (status != STATUS_OK)
        return status;
    secret_file_warn("--api-key-file", path);
    if (memchr(out->file.at, '\0', out->file.bytes))
        return error_set(err, STATUS_INVALID,
                         "%s contains a NUL byte: write it as text, one key per line", path);
    uint32_t before = list->count;
    status = lines_read(list, (char *)out->file.at, path, arena, err);
    if (status != STATUS_OK)
        return status;
    return list->count > before
               ? STATUS_OK
               : error_set(err, STATUS_INVALID, "%s contains no key (one per line)", path);
}

static void key_make(struct serve_keys *out, struct arena *arena)
{
    // 32 characters: each encodes five random bits
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char random[KEY_CHARACTERS];
    random_fill(random, sizeof random);
    char *key = arena_alloc(arena, KEY_CHARACTERS + 6);
    memcpy(key, "weft-", 5);
    for (int i = 0; i < KEY_CHARACTERS; i++)
        key[5 + i] = letters[random[i] & 31];
    key[5 + KEY_CHARACTERS] = '\0';
    explicit_bzero(random, sizeof random);
    key_add(&out->list, key, arena);
    out->made = true;
}

bool keys_are_given(const struct serve_settings *settings)
{
    return settings->api_keys.count > 0 || settings->admin_keys.count > 0 ||
           settings->api_key_file || options_environment_key();
}

enum status keys_options_check(const struct serve_settings *settings, struct error *err)
{
    for (uint32_t i = 0; i < settings->api_keys.count; i++)
        if (key_check(settings->api_keys.at[i], err) != STATUS_OK)
            return error_prefix(err, "--api-key");
    for (uint32_t i = 0; i < settings->admin_keys.count; i++)
        if (key_check(settings->admin_keys.at[i], err) != STATUS_OK)
            return error_prefix(err, "--admin-key");
    if (keys_are_given(settings) || host_is_loopback(settings->host))
        return STATUS_OK;
    return error_set(err, STATUS_REFUSED,
                     "listening on %s needs a key: give --api-key, --api-key-file or WEFT_API_KEY",
                     settings->host);
}

enum status keys_collect(struct serve_keys *out, const struct serve_settings *settings,
                         struct arena *arena, struct error *err)
{
    *out = (struct serve_keys){0};
    for (uint32_t i = 0; i < settings->admin_keys.count; i++)
        key_add(&out->list, settings->admin_keys.at[i], arena);
    for (uint32_t i = 0; i < settings->api_keys.count; i++)
        key_add(&out->list, settings->api_keys.at[i], arena);
    enum status status = keys_options_check(settings, err);
    if (status == STATUS_OK && settings->api_key_file)
        status = file_keys(out, settings->api_key_file, arena, err);
    const char *environment = options_environment_key();
    if (environment && out->list.count == settings->admin_keys.count) {
        key_add(&out->list, environment, arena);
        if (status == STATUS_OK && key_check(environment, err) != STATUS_OK)
            status = error_prefix(err, "WEFT_API_KEY");
    }
    if (status == STATUS_OK && out->list.count == 0)
        key_make(out, arena);
    return status;
}

enum status keys_of_file(struct serve_keys *out, const char *path, struct arena *arena,
                         struct error *err)
{
    *out = (struct serve_keys){0};
    return file_keys(out, path, arena, err);
}

void keys_wipe(struct serve_keys *keys)
{
    const char *environment = options_environment_key();
    if (environment)
        explicit_bzero((char *)environment, strlen(environment));
    for (uint32_t i = 0; i < keys->list.count; i++)
        explicit_bzero((char *)keys->list.at[i], strlen(keys->list.at[i]));
    keys->list.count = 0;
    if (keys->file.at) // complete, because comment lines may contain old keys
        explicit_bzero((char *)keys->file.at, keys->file.bytes);
}
