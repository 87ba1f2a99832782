// SPDX-License-Identifier: Apache-2.0
// Tests of the conversion of keys of a GGUF file to the documents of a Hugging Face folder. Each
// case is a small file: the keys of a model, with the lines of the case added or replacing them.
// One thread.
#pragma once

#include <stddef.h>

enum { NAME_MAX_BYTES = 2048 };

// lines: "KEY KIND VALUE", or "NAME tensor VALUE ROW [ROWS]", a float32 tensor with all elements
// equal. wanted: text that the document contains, the complete document ("=..."), or part of the
// error message ("!...").
struct document_case {
    const char *family, *document, *lines, *wanted;
};

// Checks all cases; fails the test after it has printed those that are wrong.
void cases_check(const struct document_case *cases, size_t count);
#define CHECK(cases) cases_check(cases, sizeof cases / sizeof *cases)
