// SPDX-License-Identifier: Apache-2.0
// weft pull, list and rm: the models in the hub's cache. Main thread.
#include "cli/command.h"
#include "cli/hub/cache.h"
#include "cli/hub/hub.h"
#include "cli/hub/remove.h"
#include "cli/load_memory.h"
#include "base/log.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct log_settings {
    int log_level;
};

static const struct option_row log_rows[] = {
    OPTION_CHOICES("log-level", offsetof(struct log_settings, log_level), "warning",
                   "which lines are written to stderr", "error", "warning", "info", "debug")};
static const struct option_table log_table = {log_rows, 1};

static enum status name_read(struct hub_name *out, const char *text, struct error *err)
{
    return hub_name_parse(out, text)
               ? STATUS_OK
               : error_set(err, STATUS_INVALID,
                           "'%s' is not ORG/NAME, ORG/NAME:QUANT or one of them with @REVISION",
                           text);
}

static enum status name_pull(const char *text, struct arena *arena, struct error *err)
{
    struct hub_name name;
    const char *path;
    enum status status = name_read(&name, text, err);
    if (status == STATUS_OK)
        status = hub_fetch(&path, &name, HUB_NEWEST, arena, err);
    if (status == STATUS_OK) {
        output_text(stdout, text_of(path));
        putchar('\n');
        status = output_flush(err);
    }
    return status;
}

static enum status name_remove(const char *text, struct arena *arena, struct error *err)
{
    struct hub_name name;
    uint64_t bytes;
    enum status status = name_read(&name, text, err);
    if (status == STATUS_OK)
        status = hub_remove(&bytes, &name, strchr(text, '@') != NULL, arena, err);
    if (status == STATUS_OK) {
        printf("removed %s: %.2f GB\n", text, (double)bytes * 1e-9);
        status = output_flush(err);
    }
    return status;
}

// Runs the body for each name of the command line.
static int names_run(const struct command *self, int argc, char **argv,
                     enum status (*body)(const char *, struct arena *, struct error *))
{
    struct log_settings settings = {LOG_WARNING};
    void *const fields[] = {&settings};
    static const char *const titles[] = {"Options:"};
    struct arena *arena = arena_create(0, 0);
    struct texts positional;
    struct command_parse parse = {self, argc, argv, &log_table, fields, titles, 1, 1, 64, NULL};
    int code = command_parse(&parse, arena, &positional);
    log_level_set((enum log_level)settings.log_level);
    for (uint32_t i = 0; code < 0 && i < positional.count; i++) {
        struct error err;
        enum status status = body(positional.at[i], arena, &err);
        if (status != STATUS_OK)
            code = command_failed(&err);
        if (status == STATUS_INVALID)
            code = EXIT_CODE_USAGE;
    }
    arena_destroy(arena);
    return code < 0 ? EXIT_CODE_OK : code;
}

int command_pull(const struct command *self, int argc, char **argv)
{
    return names_run(self, argc, argv, name_pull);
}

int command_rm(const struct command *self, int argc, char **argv)
{
    return names_run(self, argc, argv, name_remove);
}

struct cache_list {
    const char *cache;
    struct model_settings model;
    struct device_settings device;
    struct arena *arena;
    uint32_t rows;
};

// Prints one row: what serving the model takes, or why it is not served.
static void row_print(struct cache_list *list, const char *name, const char *revision,
                      const char *format, uint64_t bytes, const char *path)
{
    struct session session = {0};
    struct error err;
    uint64_t memory = 0;
    if (list->rows++ == 0)
        printf("%-44s %-12s %9s %-9s %-11s %9s  %s\n", "NAME", "REVISION", "SIZE", "KIND", "FORMAT",
               "MEMORY", "RUNS");
    printf("%-44s %-12s %6.2f GB ", safe_of(text_of(name)).at, safe_of(text_of(revision)).at,
           (double)bytes * 1e-9);
    fflush(stdout);
    if (!path) {
        printf("%-9s %-11s %9s  no: it is not complete, 'weft pull' completes it\n", "-", format,
               "-");
        return;
    }
    enum status status = session_plan(&session, path, &list->model, &list->device, &err);
    if (status == STATUS_OK) {
        const struct loaded_model *m = &session.loaded.models[0];
        struct device_need need = memory_planned(m);
        for (uint32_t i = 0; i < need.count; i++)
            memory += need.entry[i].bytes;
        printf("%-9s %-11s %6.2f GB  yes\n", model_kind_name(m->plan->facts.kind), format,
               (double)memory * 1e-9);
    } else {
        printf("%-9s %-11s %9s  no: %s\n", "-", format, "-", safe_of(text_of(err.text)).at);
    }
    session_close(&session);
}

// Prints a row for each GGUF file of the snapshot. Files whose names end with the same quant as
// another's are named by more of their names.
static void gguf_rows_print(struct cache_list *list, const struct hub_name *repo,
                            const char *folder, const char *commit, const char *revision,
                            const struct hub_listing *files)
{
    for (size_t i = 0; i < files->count; i++) {
        const char *path = files->files[i].path, *base = strrchr(path, '/');
        struct hub_name name = *repo;
        struct hub_listing parts = {0};
        size_t bytes = strlen(base = base ? base + 1 : path);
        if (bytes < 6 || strcmp(base + bytes - 5, ".gguf") != 0)
            continue;
        const char *part = strstr(base, "-00001-of-");
        if (!part && strstr(base, "-of-"))
            continue; // a further part
        bytes = part ? (size_t)(part - base) : bytes - 5;
        for (size_t from = bytes;
             from-- > 0;) { // the shortest end of the name that means this file
            if (from > 0 && !strchr("-.", base[from - 1]))
                continue;
            snprintf(name.quant, sizeof name.quant, "%.*s", (int)(bytes - from), base + from);
            parts = (struct hub_listing){0};
            if (hub_gguf_select(&parts, files, &name, list->arena, &(struct error){0}) ==
                    STATUS_OK &&
                strcmp(parts.files[0].path, path) == 0)
                break;
        }
        uint64_t size = 0;
        for (size_t k = 0; k < parts.count; k++)
            size += parts.files[k].bytes;
        const char *shown = arena_format(list->arena, "%s:%s", name.repo, name.quant).at;
        row_print(list, shown, revision, "gguf", size,
                  hub_snapshot_find(folder, commit, &name, true, list->arena));
    }
}

// Returns the branch or tag that the commit is, else the beginning of the commit.
static const char *revision_name(const struct cache_list *list, const char *folder,
                                 const char *commit)
{
    char known[HUB_COMMIT_BYTES];
    const char *name = NULL;
    const char *refs = arena_format(list->arena, "%s/refs", folder).at;
    DIR *entries = opendir(refs);
    struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL) {
        hub_ref_read(known, folder, entry->d_name, list->arena);
        bool better = !name || strcmp(entry->d_name, "main") == 0;
        if (entry->d_name[0] != '.' && better && strcmp(known, commit) == 0)
            name = arena_copy(list->arena, text_of(entry->d_name)).at;
    }
    if (entries)
        closedir(entries);
    return name ? name : arena_copy(list->arena, text_span(commit, 12)).at;
}

static void snapshot_print(struct cache_list *list, const struct hub_name *repo, const char *folder,
                           const char *commit)
{
    struct hub_listing files;
    const char *revision = revision_name(list, folder, commit);
    hub_snapshot_list(&files, folder, commit, list->arena);
    if (!hub_is_folder(&files, repo)) {
        gguf_rows_print(list, repo, folder, commit, revision, &files);
        return;
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < files.count; i++)
        bytes += files.files[i].bytes;
    row_print(list, repo->repo, revision, hub_format(&files), bytes,
              hub_snapshot_find(folder, commit, repo, true, list->arena));
}

static int entry_is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void repo_print(struct cache_list *list, const char *entry)
{
    static const char head[] = "models--";
    const char *org = entry + sizeof head - 1;
    const char *between = strncmp(entry, head, sizeof head - 1) == 0 ? strstr(org, "--") : NULL;
    struct hub_name repo;
    struct dirent **commits;
    if (!between ||
        !hub_name_parse(
            &repo, arena_format(list->arena, "%.*s/%s", (int)(between - org), org, between + 2).at))
        return;
    const char *folder = arena_format(list->arena, "%s/%s", list->cache, entry).at;
    const char *snapshots = arena_format(list->arena, "%s/snapshots", folder).at;
    int count = scandir(snapshots, &commits, entry_is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        if (hub_is_commit(commits[i]->d_name))
            snapshot_print(list, &repo, folder, commits[i]->d_name);
        free(commits[i]);
    }
    if (count >= 0)
        free(commits);
}

static enum status cache_print(struct cache_list *list, struct error *err)
{
    struct dirent **entries;
    enum status status = hub_cache_folder(&list->cache, list->arena, err);
    if (status != STATUS_OK)
        return status;
    int count = scandir(list->cache, &entries, entry_is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        repo_print(list, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    if (list->rows == 0)
        safe_line(stderr, "weft: no models in %s; 'weft pull ORG/NAME' fetches one", list->cache);
    return output_flush(err);
}

int command_list(const struct command *self, int argc, char **argv)
{
    struct cache_list list = {.arena = arena_create(0, 0)};
    model_settings_init(&list.model);
    device_settings_init(&list.device);
    list.device.log_level = LOG_ERROR;
    const struct option_table tables[] = {device_options_table, session_options_table};
    void *const fields[] = {&list.device, &list.model};
    static const char *const titles[] = {"Device:", "Model (for the column MEMORY):"};
    struct texts positional;
    struct command_parse parse = {self, argc, argv, tables, fields, titles, 2, 0, 0, NULL};
    int code = command_parse(&parse, list.arena, &positional);
    log_level_set((enum log_level)list.device.log_level);
    log_format_set((enum log_format)list.device.log_format);
    if (code < 0) {
        struct error err;
        code = cache_print(&list, &err) == STATUS_OK ? EXIT_CODE_OK : command_failed(&err);
    }
    arena_destroy(list.arena);
    return code;
}
