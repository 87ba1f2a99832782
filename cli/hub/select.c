// SPDX-License-Identifier: Apache-2.0
// Chooses the files of a repository that weft reads; see select.h.
#include "cli/hub/select.h"

#include "base/text.h"
#include "runtime/model/dequantise.h"
#include "runtime/text/tokenizer.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <strings.h>

static const char default_quant[] = "Q4_K_M";

void hub_listing_add(struct hub_listing *listing, struct hub_file file, struct arena *arena)
{
    listing->files = arena_extend(arena, listing->files, listing->count, &listing->allocated,
                                  sizeof *listing->files);
    listing->files[listing->count++] = file;
}

const struct hub_file *hub_listing_find(const struct hub_listing *listing, const char *path)
{
    for (size_t i = 0; i < listing->count; i++)
        if (strcmp(listing->files[i].path, path) == 0)
            return &listing->files[i];
    return NULL;
}

static bool ends_with(const char *path, const char *tail)
{
    size_t bytes = strlen(path), tail_bytes = strlen(tail);
    return bytes >= tail_bytes && strcasecmp(path + bytes - tail_bytes, tail) == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Returns the number of bytes of the folder of a module of sentence-transformers, such as
// "1_Pooling/", that the path begins with.
static size_t module_prefix(const char *path)
{
    size_t digits = strspn(path, "0123456789");
    const char *slash = strchr(path, '/');
    return digits > 0 && path[digits] == '_' && slash ? (size_t)(slash - path) + 1 : 0;
}

// Returns true for model.safetensors and its index, also of a module.
static bool is_safetensors(const char *path)
{
    path += module_prefix(path);
    return strcmp(path, "model.safetensors") == 0 ||
           strcmp(path, "model.safetensors.index.json") == 0;
}

static bool has_safetensors(const struct hub_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        if (is_safetensors(listing->files[i].path))
            return true;
    return false;
}

bool hub_is_description(const struct hub_listing *listing, const char *path)
{
    static const char *const names[] = {
        "config.json",
        "generation_config.json",
        "tokenizer_config.json",
        "added_tokens.json",
        "special_tokens_map.json",
        "chat_template.jinja",
        "chat_template.json",
        "modules.json",
        "config_sentence_transformers.json",
        "adapter_config.json",
        "model.safetensors.index.json",
        "sentence_bert_config.json",
        "quantize_config.json",
        "sentence_roberta_config.json",
        "sentence_xlm-roberta_config.json",
        "hf_quant_config.json",
    };
    static const char templates[] = "additional_chat_templates/";
    if (strncmp(path, templates, sizeof templates - 1) == 0)
        return ends_with(path, ".jinja") && !strchr(path + sizeof templates - 1, '/');
    path += module_prefix(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return strcmp(path, "pytorch_model.bin.index.json") == 0 && !has_safetensors(listing);
}

static bool has_gguf(const struct hub_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        if (ends_with(listing->files[i].path, ".gguf"))
            return true;
    return false;
}

bool hub_is_folder(const struct hub_listing *listing, const struct hub_name *name)
{
    return name->quant[0] == '\0' && (has_safetensors(listing) || !has_gguf(listing));
}

const char *hub_format(const struct hub_listing *listing)
{
    bool pytorch = false;
    for (size_t i = 0; i < listing->count; i++)
        pytorch |= text_begins(text_of(base_name(listing->files[i].path)), "pytorch_model");
    return pytorch && !has_safetensors(listing) ? "pytorch" : "safetensors";
}

static bool add_if_there(struct hub_listing *out, const struct hub_listing *listing,
                         const char *folder, const char *name, struct arena *arena)
{
    const struct hub_file *file =
        hub_listing_find(listing, arena_format(arena, "%s%s", folder, name).at);
    if (file && !hub_listing_find(out, file->path))
        hub_listing_add(out, *file, arena);
    return file != NULL;
}

// Reports that a repository has no weights that weft reads, and what it has instead.
static enum status weights_missing(const struct hub_listing *listing, const struct hub_name *name,
                                   struct error *err)
{
    static const char *const others[] = {".pth", ".pt", ".onnx", ".h5", ".msgpack", ".bin"};
    for (size_t i = 0; i < listing->count; i++)
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (ends_with(listing->files[i].path, others[k]))
                return error_set(err, STATUS_UNSUPPORTED,
                                 "%s has its weights only in files such as %.200s, which weft does "
                                 "not read: choose a repository with safetensors or GGUF files",
                                 name->repo, listing->files[i].path);
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s has no model.safetensors, no pytorch_model.bin and no GGUF file: it is "
                     "not a model that weft reads",
                     name->repo);
}

// The forms of weights in a folder, the best one first: a file with all tensors, or an index.
static const struct {
    const char *single, *index;
} forms[] = {
    {"model.safetensors", "model.safetensors.index.json"},
    {"pytorch_model.bin", "pytorch_model.bin.index.json"},
};

const char *hub_weights_find(const struct hub_listing *listing, const char *folder, bool *is_index,
                             struct arena *arena)
{
    *is_index = false;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const char *single = arena_format(arena, "%s%s", folder, forms[i].single).at;
        const char *index = arena_format(arena, "%s%s", folder, forms[i].index).at;
        if (hub_listing_find(listing, single))
            return single;
        *is_index = hub_listing_find(listing, index) != NULL;
        if (*is_index)
            return index;
    }
    return NULL;
}

static enum status shards_add(struct hub_listing *out, const struct hub_listing *listing,
                              const struct hub_name *name, const char *folder, const char *path,
                              const json_t *index, struct arena *arena, struct error *err)
{
    const char *key;
    json_t *value;
    json_t *map = json_object_get(index, "weight_map");
    json_object_foreach(map, key, value)
    {
        const char *shard = json_string_value(value);
        if (!shard || !add_if_there(out, listing, folder, shard, arena))
            return error_set(err, STATUS_NOT_FOUND,
                             "%s: %s names %.200s, which the repository lacks", name->repo, path,
                             shard ? shard : "no file");
    }
    return json_object_size(map) > 0 ? STATUS_OK : weights_missing(listing, name, err);
}

// Appends the files of a tokenizer in `folder`. Returns false if there is none that weft reads.
static bool tokenizer_add(struct hub_listing *out, const struct hub_listing *listing,
                          const char *folder, struct arena *arena)
{
    const char *merges = arena_format(arena, "%smerges.txt", folder).at, *name;
    for (size_t i = 0; (name = tokenizer_file_name(i)) != NULL; i++) {
        bool pair = strcmp(name, "vocab.json") == 0;
        if (strcmp(name, "merges.txt") == 0 || (pair && !hub_listing_find(listing, merges)) ||
            !add_if_there(out, listing, folder, name, arena))
            continue;
        return !pair || add_if_there(out, listing, folder, "merges.txt", arena);
    }
    return false;
}

enum status hub_folder_select(struct hub_listing *out, const struct hub_listing *listing,
                              const struct hub_name *name, const char *folder, const void *index,
                              struct arena *arena, struct error *err)
{
    enum status status = STATUS_OK;
    bool is_index;
    const char *weights = hub_weights_find(listing, folder, &is_index, arena);
    if (!weights || (is_index && !index))
        status = weights_missing(listing, name, err);
    else if (is_index)
        status = shards_add(out, listing, name, folder, weights, index, arena, err);
    else
        add_if_there(out, listing, "", weights, arena);
    bool tokenizer = tokenizer_add(out, listing, "", arena);
    if (folder[0] != '\0')
        tokenizer |= tokenizer_add(out, listing, folder, arena);
    if (status == STATUS_OK && !tokenizer)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "%s has no tokenizer.json and no other file with a tokenizer that weft reads: "
            "vocab.txt, vocab.json with merges.txt, tekken.json, a SentencePiece model such as "
            "tokenizer.model, tiktoken.model or qwen.tiktoken",
            name->repo);
    return status;
}

// A GGUF file, or the parts of one: PREFIX-00001-of-00003.gguf.
struct gguf_group {
    const char *stem; // path without the numbers of the parts and the ending
    uint32_t parts, found;
};

// Sets *parts to the number of parts; returns the length of the stem. 0: not a file of weights.
static size_t stem_bytes(const char *path, uint32_t *parts)
{
    const char *name = base_name(path);
    *parts = 1;
    if (!ends_with(path, ".gguf") || strncasecmp(name, "mmproj", 6) == 0)
        return 0;
    uint32_t part, count;
    size_t stem = gguf_part_stem(path, &part, &count);
    if (stem == 0 || part == 0 || part > count)
        return strlen(path) - strlen(".gguf");
    *parts = count;
    return stem;
}

// Returns how well the stem fits the quant: 0: not at all; 2: the quant is the end of the file's
// name; 1: it is inside of it or the name of the folder.
static int quant_fit(const char *stem, const char *quant)
{
    size_t bytes = strlen(quant), length = strlen(stem);
    int fit = 0;
    if (strcasecmp(base_name(stem), quant) == 0)
        return 3;
    for (size_t at = 0; at + bytes <= length; at++) {
        bool begins = at == 0 || strchr("-._/", stem[at - 1]);
        bool ends = at + bytes == length || strchr("-._/", stem[at + bytes]);
        if (begins && ends && strncasecmp(stem + at, quant, bytes) == 0)
            fit = at + bytes == length ? 2 : fit > 1 ? fit : 1;
    }
    return fit;
}

static struct gguf_group *groups_make(size_t *count, const struct hub_listing *listing,
                                      struct arena *arena)
{
    struct gguf_group *groups = arena_alloc_zeroed(arena, listing->count + 1, sizeof *groups);
    *count = 0;
    for (size_t i = 0; i < listing->count; i++) {
        uint32_t parts;
        size_t bytes = stem_bytes(listing->files[i].path, &parts), k = 0;
        if (bytes == 0)
            continue;
        const char *stem = arena_copy(arena, text_span(listing->files[i].path, bytes)).at;
        while (k < *count && (strcmp(groups[k].stem, stem) != 0 || groups[k].parts != parts))
            k++;
        if (k == *count)
            groups[(*count)++] = (struct gguf_group){stem, parts, 0};
        groups[k].found++;
    }
    return groups;
}

// Returns the best group for the quant, NULL if none fits. Of equally good ones the shortest name
// wins: X-Q4_K_M before X-UD-Q4_K_M.
static const struct gguf_group *group_choose(const struct gguf_group *groups, size_t count,
                                             const char *quant)
{
    const struct gguf_group *best = NULL;
    int best_fit = 0;
    for (size_t i = 0; i < count; i++) {
        int fit = quant_fit(groups[i].stem, quant);
        if (fit > best_fit ||
            (fit > 0 && fit == best_fit && strlen(groups[i].stem) < strlen(best->stem))) {
            best = &groups[i];
            best_fit = fit;
        }
    }
    return best;
}

static enum status quant_unclear(const struct gguf_group *groups, size_t count,
                                 const struct hub_name *name, struct error *err)
{
    char listed[600] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof listed - 200; i++)
        used += (size_t)snprintf(listed + used, sizeof listed - used, "%s%.150s", i > 0 ? ", " : "",
                                 base_name(groups[i].stem));
    if (count == 0)
        return error_set(err, STATUS_NOT_FOUND, "%s has no GGUF file: give its name without :%s",
                         name->repo, name->quant);
    return error_set(err, STATUS_NOT_FOUND,
                     "%s has no file for %s: give the end of one of these as %s:QUANT: %s%s",
                     name->repo, name->quant[0] != '\0' ? name->quant : default_quant, name->repo,
                     listed, used >= sizeof listed - 200 ? ", ..." : "");
}

enum status hub_quant_check(const char *path, const struct hub_name *name, struct error *err)
{
    enum { TYPES_MAX = 64 }; // numbers of types in the format
    uint32_t parts;
    size_t stem = stem_bytes(path, &parts), begin = stem;
    while (begin > 0 && !strchr("-./", path[begin - 1]))
        begin--;
    for (uint32_t id = 0; id < TYPES_MAX; id++) {
        const struct gguf_type *type = gguf_type_of(id);
        if (!type || type->elements == 1 || dequantise_knows(type))
            continue;
        size_t bytes = strlen(type->name);
        bool ends = stem - begin == bytes || (stem - begin > bytes && path[begin + bytes] == '_');
        if (ends && strncasecmp(path + begin, type->name, bytes) == 0)
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s: %.200s has tensors in %s, which weft does not read: choose "
                             "another file, such as one in Q4_K_M or Q8_0",
                             name->repo, path, type->name);
    }
    return STATUS_OK;
}

static int file_order(const void *a, const void *b)
{
    return strcmp(((const struct hub_file *)a)->path, ((const struct hub_file *)b)->path);
}

enum status hub_gguf_select(struct hub_listing *out, const struct hub_listing *listing,
                            const struct hub_name *name, struct arena *arena, struct error *err)
{
    size_t count;
    const struct gguf_group *groups = groups_make(&count, listing, arena);
    bool given = name->quant[0] != '\0';
    const struct gguf_group *chosen =
        group_choose(groups, count, given ? name->quant : default_quant);
    if (!chosen && !given && count == 1)
        chosen = groups;
    if (!chosen)
        return quant_unclear(groups, count, name, err);
    size_t stem = strlen(chosen->stem), before = out->count;
    for (size_t i = 0; i < listing->count; i++) {
        uint32_t parts;
        const char *path = listing->files[i].path;
        if (stem_bytes(path, &parts) == stem && parts == chosen->parts &&
            strncmp(path, chosen->stem, stem) == 0)
            hub_listing_add(out, listing->files[i], arena);
    }
    qsort(out->files + before, out->count - before, sizeof *out->files, file_order);
    if (chosen->found != chosen->parts)
        return error_set(err, STATUS_NOT_FOUND, "%s: %u of the %u parts of %.200s are there",
                         name->repo, chosen->found, chosen->parts, chosen->stem);
    return STATUS_OK;
}
