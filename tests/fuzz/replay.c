// SPDX-License-Identifier: Apache-2.0
// Runs each fuzzer on its committed corpus, without libFuzzer: for the tests under ASan and UBSan,
// whose libraries are compiled anyway. Each input is in memory of its exact size, so that reads
// past its end are found.
//
// fuzz_replay FOLDER   FOLDER has a folder of inputs for each fuzzer (tests/fuzz/corpus)
#include "base/status.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// X(name): the entry point of fuzz_<name>.c.
#define FUZZERS(X)                                                                                 \
    X(begun)                                                                                       \
    X(calls)                                                                                       \
    X(config)                                                                                      \
    X(cors)                                                                                        \
    X(dialect)                                                                                     \
    X(gbnf)                                                                                        \
    X(gguf)                                                                                        \
    X(json)                                                                                        \
    X(message)                                                                                     \
    X(regex)                                                                                       \
    X(safetensors)                                                                                 \
    X(schema)                                                                                      \
    X(spm)                                                                                         \
    X(sse)                                                                                         \
    X(stop)                                                                                        \
    X(template)                                                                                    \
    X(tokenizer)                                                                                   \
    X(torch)                                                                                       \
    X(turns)

typedef int fuzz_entry(const uint8_t *data, size_t bytes);
#define DECLARED(name) fuzz_entry fuzz_##name;
FUZZERS(DECLARED)
#undef DECLARED

static const struct {
    const char *name;
    fuzz_entry *entry;
} fuzzers[] = {
#define ROW(name) {#name, fuzz_##name},
    FUZZERS(ROW)
#undef ROW
};

static void file_replay(fuzz_entry *entry, const char *path)
{
    FILE *file = fopen(path, "rb");
    check(file && fseek(file, 0, SEEK_END) == 0, "%s cannot be read", path);
    long bytes = ftell(file);
    check(bytes >= 0 && fseek(file, 0, SEEK_SET) == 0, "%s cannot be read", path);
    uint8_t *data = malloc((size_t)bytes);
    check(fread(data, 1, (size_t)bytes, file) == (size_t)bytes, "%s cannot be read", path);
    fclose(file);
    entry(data, (size_t)bytes);
    free(data);
}

// Returns the number of inputs.
static unsigned folder_replay(fuzz_entry *entry, const char *path)
{
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    unsigned count = 0;
    for (struct dirent *one = readdir(folder); one; one = readdir(folder)) {
        if (one->d_name[0] == '.')
            continue;
        char file[4096 + 257];
        snprintf(file, sizeof file, "%s/%s", path, one->d_name);
        file_replay(entry, file);
        count++;
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    check(argc == 2, "usage: fuzz_replay FOLDER");
    for (size_t i = 0; i < sizeof fuzzers / sizeof *fuzzers; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], fuzzers[i].name);
        unsigned count = folder_replay(fuzzers[i].entry, path);
        printf("fuzz_%s: replayed %u inputs\n", fuzzers[i].name, count);
        if (count == 0)
            return 1;
    }
    return 0;
}
