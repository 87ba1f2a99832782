// SPDX-License-Identifier: Apache-2.0
// Computes system_fingerprint; see fingerprint.h. Main thread, once the model is loaded.
#include "cli/fingerprint.h"

#include "base/hash.h"
#include "base/log.h"
#include "runtime/source/modules.h"
#include "runtime/source/source.h"
#include "runtime/text/tokenizer.h"

#include <stdio.h>
#include <string.h>

// A constant, not a secret: equal processes must have equal fingerprints.
static const uint64_t key[2] = {0x7765667420667069, 0x6e676572707269};

static struct hash hash_text(struct text text)
{
    return hash_bytes(key, text.at ? text.at : "", text.bytes);
}

// Returns the hash of a file; zeros if it does not exist, which the model permits.
// TOKENIZER_FILE_BYTES_MAX suffices, because no file that was read for the model is larger.
static struct hash file_hash(const char *model, const char *folder, const char *name)
{
    char path[MODULE_FOLDER_MAX];
    struct text text = {0};
    struct error err;
    struct arena *arena = arena_create(0, 0);
    enum status status = folder_path(path, folder, name, &err);
    if (status == STATUS_OK)
        status = model_file_read(&text, arena, path, TOKENIZER_FILE_BYTES_MAX, &err);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        log_line(LOG_WARNING, "model '%s': system_fingerprint does not include this file: %s",
                 model, err.text);
    struct hash hash = status == STATUS_OK ? hash_text(text) : (struct hash){0, 0};
    arena_destroy(arena);
    return hash;
}

// Returns a hash of the files that determine how weights, texts and end ids are read. The
// tokenizer's files are in the folder of the weights or in the folder above it.
static struct hash files_hash(const struct loaded_model *model)
{
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "tokenizer_config.json", "added_tokens.json",
                                        "special_tokens_map.json"};
    enum { NAMES = sizeof names / sizeof *names, FILES_MAX = 32 };
    const char *folder = model->spec.folder, *weights_folder = model->plan->weights_folder;
    const char *id = model->spec.id;
    bool one_folder = strcmp(folder, weights_folder) == 0; // then large files are read only once
    struct hash hashes[2 * FILES_MAX] = {{0, 0}};
    for (size_t i = 0; i < FILES_MAX; i++) {
        const char *name = i < NAMES ? names[i] : tokenizer_file_name(i - NAMES);
        if (!name)
            break;
        hashes[i] = file_hash(id, weights_folder, name);
        hashes[FILES_MAX + i] = one_folder ? hashes[i] : file_hash(id, folder, name);
    }
    return hash_bytes(key, hashes, sizeof hashes);
}

void fingerprint_make(char out[FINGERPRINT_BYTES], const struct loaded_model *model)
{
    const struct model_facts *facts = engine_facts(model->engine);
    const struct model_defaults *defaults = &facts->defaults;
    const struct model_settings *s = &model->spec.settings;
    const struct hash weights = {facts->checkpoint_hash[0], facts->checkpoint_hash[1]};
    struct hash files = files_hash(model), chat = hash_text(model->chat_source);
    char text[512];
    int bytes =
        snprintf(text, sizeof text,
                 "%s %s %d %s %d %u %d %d %g %g %g %g %g %g %d %llx %llx %llx %llx %llx %llx",
                 WEFT_VERSION, facts->architecture, (int)facts->dtype, facts->formats,
                 (int)facts->kv_dtype, facts->ranks, model->device->facts.exact, (int)facts->rerank,
                 defaults->temperature, defaults->top_p, defaults->top_k, defaults->min_p,
                 defaults->repetition_penalty, defaults->max_tokens, s->special_tokens_in_text,
                 (unsigned long long)weights.low, (unsigned long long)weights.high,
                 (unsigned long long)files.low, (unsigned long long)files.high,
                 (unsigned long long)chat.low, (unsigned long long)chat.high);
    struct hash all = hash_text(text_span(text, (size_t)bytes));
    snprintf(out, FINGERPRINT_BYTES, "fp_%010llx", (unsigned long long)(all.low & 0xFFFFFFFFFFu));
}
