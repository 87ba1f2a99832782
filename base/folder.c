// SPDX-License-Identifier: Apache-2.0
// Error sentences for paths that are not models; see folder.h. Loading thread only.
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_MAX = 4096 }; // most entries of a folder that are examined

static bool is_there(const char *folder, const char *name)
{
    char path[FOLDER_BYTES_MAX + 64];
    struct stat about;
    int wrote = snprintf(path, sizeof path, "%s/%s", folder, name);
    return wrote > 0 && (size_t)wrote < sizeof path && stat(path, &about) == 0;
}

static enum status path_absent(const char *path, int reason, struct error *err)
{
    bool file = text_ends(text_of(path), ".gguf");
    if (reason != ENOENT)
        return error_set(err, STATUS_NOT_FOUND, "the model %s %s cannot be opened: %s",
                         file ? "file" : "folder", path, strerror(reason));
    if (file)
        return error_set(err, STATUS_NOT_FOUND,
                         "there is no file %s (%s): give the path of a GGUF file", path,
                         strerror(reason));
    return error_set(err, STATUS_NOT_FOUND,
                     "there is no folder %s (%s): give the path of a model folder%s", path,
                     strerror(reason),
                     strchr(path, '/') && !strstr(path, "://")
                         ? ""
                         : ", or a name of the Hugging Face hub, which has the form "
                           "ORG/NAME (openai-community/gpt2)");
}

static enum status file_is_no_model(const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    int folder = !slash ? 1 : slash == path ? 1 : (int)(slash - path);
    if (text_ends(text_of(path), ".gguf"))
        return error_set(err, STATUS_NOT_FOUND,
                         "%s does not begin as a GGUF file: it is cut or something else that was "
                         "downloaded in its place, download it again",
                         path);
    if (text_ends(text_of(path), ".safetensors") || text_ends(text_of(path), ".bin") ||
        text_ends(text_of(path), "config.json"))
        return error_set(err, STATUS_NOT_FOUND,
                         "%s is a file, not a model folder: give the folder that holds it, %.*s",
                         path, folder, !slash ? "." : path);
    return error_set(err, STATUS_NOT_FOUND,
                     "%s is a file, not a model folder: give a folder with config.json, "
                     "*.safetensors and tokenizer.json, or a GGUF file",
                     path);
}

static enum status file_check(const char *path, struct error *err)
{
    char head[4] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return path_absent(path, errno, err);
    bool read_all = read(fd, head, sizeof head) == sizeof head;
    close(fd);
    return read_all && memcmp(head, "GGUF", sizeof head) == 0 ? STATUS_OK
                                                              : file_is_no_model(path, err);
}

enum status folder_check(const char *path, struct error *err)
{
    struct stat about;
    if (strlen(path) > FOLDER_BYTES_MAX / 2)
        return error_set(err, STATUS_INVALID, "the name of the model folder is too long");
    if (stat(path, &about) != 0)
        return path_absent(path, errno, err);
    if (S_ISDIR(about.st_mode))
        return STATUS_OK;
    return S_ISREG(about.st_mode) ? file_check(path, err) : file_is_no_model(path, err);
}

// Writes the name of the first entry, in alphabetical order, for which passes returns true; empty
// if there is none. out has FOLDER_BYTES_MAX bytes.
static void first_entry(char *out, const char *folder,
                        bool (*passes)(const char *folder, const char *name))
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    out[0] = '\0';
    for (int i = 0; entries && i < ENTRIES_MAX && (entry = readdir(entries)) != NULL; i++)
        if (entry->d_name[0] != '.' && (out[0] == '\0' || strcmp(entry->d_name, out) < 0) &&
            passes(folder, entry->d_name))
            snprintf(out, FOLDER_BYTES_MAX, "%s", entry->d_name);
    if (entries)
        closedir(entries);
}

static bool is_model(const char *folder, const char *name)
{
    char config[FOLDER_BYTES_MAX];
    snprintf(config, sizeof config, "%s/config.json", name);
    return is_there(folder, config);
}

static bool is_gguf(const char *folder, const char *name)
{
    (void)folder;
    return text_ends(text_of(name), ".gguf");
}

// Returns true for weight files of other libraries, or of other forms of a model.
static bool is_other_weight(const char *folder, const char *name)
{
    static const char *const tails[] = {".pth", ".pt", "tf_model.h5", "flax_model.msgpack",
                                        ".onnx"};
    (void)folder;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++)
        if (text_ends(text_of(name), tails[i]))
            return true;
    return false;
}

enum status folder_lacks(const char *path, const char *lacks, struct error *err)
{
    char found[FOLDER_BYTES_MAX], inside[FOLDER_BYTES_MAX];
    if (is_there(path, "adapter_config.json"))
        return error_set(err, STATUS_NOT_FOUND,
                         "%s %s: it is an adapter; merge it into its base model and give that",
                         path, lacks);
    first_entry(found, path, is_other_weight);
    if (found[0] != '\0')
        return error_set(err, STATUS_NOT_FOUND,
                         "%s %s: %s is not read, only safetensors and pytorch_model.bin are; "
                         "convert it once, for example with transformers: "
                         "AutoModel...from_pretrained(IN).save_pretrained(OUT)",
                         path, lacks, found);
    first_entry(found, path, is_gguf);
    if (found[0] != '\0')
        return error_set(err, STATUS_NOT_FOUND, "%s %s: give the GGUF file itself, %s/%s", path,
                         lacks, path, found);
    first_entry(found, path, is_model);
    snprintf(inside, sizeof inside, "%s/snapshots", path); // layout of a hub's download cache
    const char *between = "";
    if (found[0] == '\0') {
        first_entry(found, inside, is_model);
        between = "snapshots/";
    }
    if (found[0] != '\0' && !is_there(path, "config.json"))
        return error_set(err, STATUS_NOT_FOUND,
                         "%s %s, but folders in it are models: give one of them, such as %s/%s%s",
                         path, lacks, path, between, found);
    return error_set(err, STATUS_NOT_FOUND,
                     "%s %s: give a folder with config.json, *.safetensors and tokenizer.json, or "
                     "a GGUF file",
                     path, lacks);
}
