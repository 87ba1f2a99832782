// SPDX-License-Identifier: Apache-2.0
// Names of models on the Hugging Face hub: ORG/NAME, ORG/NAME:QUANT, either with @REVISION. Pure.
#pragma once

#include <stdbool.h>

enum { HUB_REPO_MAX = 200, HUB_WORD_MAX = 128 }; // sizes with the NUL

struct hub_name {
    char repo[HUB_REPO_MAX];     // "ORG/NAME"
    char quant[HUB_WORD_MAX];    // quantisation of a GGUF file, such as "Q4_K_M"; "": none given
    char revision[HUB_WORD_MAX]; // branch, tag or commit; "main" if none is given
};

// Returns true if the text has the form of a name and fills *out; *out is undefined otherwise.
bool hub_name_parse(struct hub_name *out, const char *text);

// Returns true if a model argument is a name of the hub: it has the form, nothing is at that path,
// it does not end with .gguf, and no folder ORG is in the working directory (then it is a mistyped
// path).
bool hub_name_is(struct hub_name *out, const char *text);

// Returns true for the 40 lower-case hexadecimal digits of a commit.
bool hub_is_commit(const char *text);
// Returns true for 7 to 39 of these digits, which may be the beginning of a commit.
bool hub_is_commit_prefix(const char *text);
