// SPDX-License-Identifier: Apache-2.0
// The cache that the Hugging Face hub's programs share: models--ORG--NAME with blobs, snapshots and
// refs, and a lock file for each blob. They read files that weft writes there, and weft reads
// theirs. All texts are in the caller's arena. cache: the folder of hub_cache_folder; folder: that
// of a repository in it (hub_repo_folder). One thread.
#pragma once

#include "cli/hub/select.h"

enum { HUB_COMMIT_BYTES = 41, HUB_JSON_BYTES_MAX = 128 << 20 };

// Returns true if the variable of the environment is set to 1, on, yes or true.
bool hub_is_on(const char *name);
bool hub_is_offline(void); // true if HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is on

// Stores the path of the cache: HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub/ in hub_home.
// NOT_FOUND if none of these is set, INVALID if the path is too long.
enum status hub_cache_folder(const char **out, struct arena *arena, struct error *err) MUST_USE;
// Returns HF_HOME, else huggingface/ in XDG_CACHE_HOME, else ~/.cache/huggingface; NULL if HOME is
// not set either.
const char *hub_home(struct arena *arena);

// Returns the folder of a repository: CACHE/models--ORG--NAME.
const char *hub_repo_folder(const char *cache, const char *repo, struct arena *arena);

// Reads the commit that the cache stores for the revision into commit; "" if it stores none. A
// revision that is a commit is copied, even if the cache has no snapshot of it.
void hub_ref_read(char commit[HUB_COMMIT_BYTES], const char *folder, const char *revision,
                  struct arena *arena);
// Completes name->revision if it is 7 to 39 digits with which the commit of a cached snapshot
// begins. A cached branch or tag of this name has priority. INVALID if several commits begin so.
enum status hub_revision_complete(struct hub_name *name, const char *folder, struct arena *arena,
                                  struct error *err) MUST_USE;
// Stores the commit of a branch or tag; does nothing if the revision is a commit. IO or NO_SPACE.
enum status hub_ref_write(const char *folder, const char *revision, const char *commit,
                          struct arena *arena, struct error *err) MUST_USE;

// Finds the model in a snapshot. Returns the path of the folder or of the (first) GGUF file to
// open, or NULL if a file is missing or its size differs from the one that hub_sizes_note, or
// another program's list of the commit's files, has stored. clear matters for a GGUF model whose
// name has no quant: if true, only Q4_K_M is accepted; if false, also the only GGUF file of the
// snapshot, even though the hub may have Q4_K_M.
const char *hub_snapshot_find(const char *folder, const char *commit, const struct hub_name *name,
                              bool clear, struct arena *arena);

// Lists the files of a snapshot with paths relative to it: regular files, and links to existing
// ones, but no hidden files. etag: name of the file that the link leads to; NULL if it is no link.
void hub_snapshot_list(struct hub_listing *out, const char *folder, const char *commit,
                       struct arena *arena);

// Returns the path of the blob with this name.
const char *hub_blob_path(const char *folder, const char *etag, struct arena *arena);
// Returns true if the blob of the file exists and has the file's size.
bool hub_blob_exists(const char *folder, const struct hub_file *file, struct arena *arena);

// Creates the link from a file of a snapshot to its blob. Replaces a link to a missing file; leaves
// a file, or a link to an existing one, unchanged.
enum status hub_link(const char *folder, const char *commit, const struct hub_file *file,
                     struct arena *arena, struct error *err) MUST_USE;

// Creates the folder and its parents, unless they exist. IO, NO_SPACE or TOO_LARGE.
enum status hub_folder_make(const char *path, struct error *err) MUST_USE;

// Locks a blob as the package filelock does, so that only one process downloads it, and stores the
// descriptor, which the caller closes to unlock it. If another process has the lock: with wait,
// sleeps until it is free (UNWANTED after hub_stop); without wait, stores -1 and returns OK.
enum status hub_lock(int *out, const char *cache, const char *repo, const char *etag, bool wait,
                     struct arena *arena, struct error *err) MUST_USE;

// Reads the small files of a model, whose blobs must be in the cache, and returns the error with
// which they would keep the model from being loaded. *weights: receives the subfolder of the
// weights with a slash at its end, or "".
enum status hub_judge(const char **weights, const char *folder, const struct hub_name *name,
                      const struct hub_listing *files, struct arena *arena,
                      struct error *err) MUST_USE;
