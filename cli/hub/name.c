// SPDX-License-Identifier: Apache-2.0
// Parses names of models on the hub; see name.h. Any thread.
#include "cli/hub/name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PART_BYTES_MAX = 96 }; // the hub's limit for each of ORG and NAME

static bool is_plain(char c, const char *more)
{
    return c != '\0' && (isalnum((unsigned char)c) || strchr(more, c));
}

// Returns true if the bytes may be ORG or NAME: the hub's rules, which keep a name from leaving its
// folder of the cache.
static bool part_is_valid(const char *at, size_t bytes)
{
    if (bytes == 0 || bytes > PART_BYTES_MAX || strchr(".-", at[0]) || strchr(".-", at[bytes - 1]))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!is_plain(at[i], "._-") ||
            (i > 0 && at[i] == at[i - 1] && (at[i] == '-' || at[i] == '.')))
            return false;
    return true;
}

// Copies a word of the characters in `more`, letters and digits; returns false if it is not one.
static bool word_copy(char out[HUB_WORD_MAX], const char *at, size_t bytes, const char *more)
{
    if (bytes == 0 || bytes >= HUB_WORD_MAX || strchr("./-", at[0]) || at[bytes - 1] == '/')
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!is_plain(at[i], more) || (at[i] == '.' && i > 0 && strchr("./", at[i - 1])))
            return false;
    memcpy(out, at, bytes);
    out[bytes] = '\0';
    return true;
}

bool hub_name_parse(struct hub_name *out, const char *text)
{
    *out = (struct hub_name){.revision = "main"};
    size_t repo = strcspn(text, ":@"), org = strcspn(text, "/");
    if (org >= repo || repo >= HUB_REPO_MAX || !part_is_valid(text, org) ||
        !part_is_valid(text + org + 1, repo - org - 1))
        return false;
    memcpy(out->repo, text, repo);
    const char *at = text + repo;
    if (*at == ':') {
        size_t bytes = strcspn(++at, "@");
        if (!word_copy(out->quant, at, bytes, "._-"))
            return false;
        at += bytes;
    }
    return *at == '\0' || word_copy(out->revision, at + 1, strlen(at + 1), "._-/+");
}

bool hub_name_is(struct hub_name *out, const char *text)
{
    static const char gguf[] = ".gguf";
    struct stat about;
    size_t tail = sizeof gguf - 1;
    if (!hub_name_parse(out, text) || stat(text, &about) == 0)
        return false;
    size_t bytes = strlen(out->repo);
    if (bytes > tail && strcmp(out->repo + bytes - tail, gguf) == 0)
        return false;
    char owner[HUB_REPO_MAX];
    snprintf(owner, sizeof owner, "%.*s", (int)strcspn(out->repo, "/"), out->repo);
    return stat(owner, &about) != 0 || !S_ISDIR(about.st_mode);
}

// Returns the number of digits if the text has only the digits of a commit, else 0.
static size_t commit_digits(const char *text)
{
    size_t digits = strspn(text, "0123456789abcdef");
    return text[digits] == '\0' ? digits : 0;
}

bool hub_is_commit(const char *text)
{
    return commit_digits(text) == 40;
}

bool hub_is_commit_prefix(const char *text)
{
    return commit_digits(text) >= 7 && commit_digits(text) < 40;
}
