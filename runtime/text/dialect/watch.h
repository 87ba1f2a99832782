// SPDX-License-Identifier: Apache-2.0
// Where in an answer the grammar of optional calls (dialect_grammar_args.resumes) begins to hold:
// the markers of a dialect as a table of tokens (runtime/grammar/token_watch.h).
#pragma once

#include "runtime/grammar/token_watch.h"
#include "runtime/text/dialect/dialect.h"

// Returns true if each call of the dialect begins with a marker. If not, any text may be a call.
bool dialect_marks_calls(const struct dialect *d);

// Creates the table of a dialect that marks its calls, for answers in which reasoning counts.
// Called at model load.
struct token_watch *dialect_watch(const struct dialect *d, const struct vocabulary *v);

// Returns the phase in which an answer begins.
enum token_phase dialect_watch_start(const struct dialect *d, enum dialect_start start);
