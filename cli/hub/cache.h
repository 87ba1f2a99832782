// SPDX-License-Identifier: Apache-2.0
// The cache that the Hugging Face hub's programs share: models--ORG--NAME with blobs, snapshots and
// refs, and a lock file for each blob. What weft writes there they read, and the other way round.
// All texts are in the caller's arena. cache: the folder of hub_cache_folder; folder: that of a
// repository in it (hub_repo_folder). One thread.
#pragma once

#include "cli/hub/select.h"

enum { HUB_COMMIT_BYTES = 41, HUB_JSON_BYTES_MAX = 128 << 20 };

// Stores the folder of the cache: HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub/ in hub_home.
// NOT_FOUND if there is none of these, INVALID if the path is too long.
enum status hub_cache_folder(const char **out, struct arena *arena, struct error *err) MUST_USE;
// Returns HF_HOME, else huggingface/ in XDG_CACHE_HOME, else ~/.cache/huggingface; NULL if HOME is
// unset, too.
const char *hub_home(struct arena *arena);

// Returns the folder of a repository: CACHE/models--ORG--NAME.
const char *hub_repo_folder(const char *cache, const char *repo, struct arena *arena);

// Reads the commit that the cache knows for the revision: "" if it knows none. A revision that is a
// commit is returned unchanged, also if the cache has no snapshot of it.
void hub_ref_read(char commit[HUB_COMMIT_BYTES], const char *folder, const char *revision,
                  struct arena *arena);
// Replaces a revision that is the beginning of the commit of one cached snapshot, and no cached
// branch or tag, by that commit. INVALID if it is the beginning of several.
enum status hub_revision_complete(struct hub_name *name, const char *folder, struct arena *arena,
                                  struct error *err) MUST_USE;
// Stores the commit of a branch or tag; does nothing if the revision is a commit.
enum status hub_ref_write(const char *folder, const char *revision, const char *commit,
                          struct arena *arena, struct error *err) MUST_USE;

// Finds the model in a snapshot. Returns the folder or the GGUF file that the other modules of weft
// open, or NULL if a file is missing or has another size than hub_sizes_note stored. clear: for a
// GGUF model whose name has no quant. true: only Q4_K_M, the default, is accepted; false: also the
// only GGUF file of the snapshot, although the hub may have Q4_K_M.
const char *hub_snapshot_find(const char *folder, const char *commit, const struct hub_name *name,
                              bool clear, struct arena *arena);

// Lists the files of a snapshot whose links lead to a blob, with paths relative to it. etag: the
// name of the blob, or NULL if the file is not a link.
void hub_snapshot_list(struct hub_listing *out, const char *folder, const char *commit,
                       struct arena *arena);

const char *hub_blob_path(const char *folder, const char *etag, struct arena *arena);
// Returns true if the blob of the file exists and has the file's size.
bool hub_blob_exists(const char *folder, const struct hub_file *file, struct arena *arena);

// Creates the link of a file in a snapshot, in place of one that leads nowhere; a file or link that
// leads to a blob stays.
enum status hub_link(const char *folder, const char *commit, const struct hub_file *file,
                     struct arena *arena, struct error *err) MUST_USE;

// Creates the folder and those above it, unless they exist.
enum status hub_folder_make(const char *path, struct error *err) MUST_USE;

// Locks a blob as the package filelock does, so that one process downloads it; stores the
// descriptor, which the caller closes to unlock. If another process has the lock: with wait, sleeps
// until it is free; without, stores -1 and returns OK.
enum status hub_lock(int *out, const char *cache, const char *repo, const char *etag, bool wait,
                     struct arena *arena, struct error *err) MUST_USE;

// Reads the small files of a model, whose blobs must be in the cache, and returns the error that
// loading the model would report for them. *weights: the subfolder of the weights with a slash, or
// "".
enum status hub_judge(const char **weights, const char *folder, const struct hub_name *name,
                      const struct hub_listing *files, struct arena *arena,
                      struct error *err) MUST_USE;
