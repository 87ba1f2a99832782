// SPDX-License-Identifier: Apache-2.0
// One line per event on stderr: time, level, text. Any thread. Before log_start the caller writes
// the line itself; after it a log thread writes, so that a stalled reader of stderr blocks no other
// thread. If the queue is full, lines are dropped and counted; their number is logged once the
// reader continues.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON }; // LOG_JSON: one object per line with ts, level and message

// Sets the level above which lines are not written; initially LOG_INFO. Call it once, before
// threads start.
void log_level_set(enum log_level level);
enum log_level log_level_get(void);

// Sets the format; initially LOG_TEXT. Call it once, before threads start.
void log_format_set(enum log_format format);
enum log_format log_format_get(void);

// Logs one line. Whatever the arguments contain, the text is escaped (safe.h) and stays one line.
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A named value in a line.
struct log_value {
    const char *name;
    enum { LOG_VALUE_TEXT, LOG_VALUE_NUMBER, LOG_VALUE_BOOL } kind;
    struct text text; // escaped when written
    double number;    // a bool is 0 or 1
    int decimals;
};

// Logs one line with values: " name=value" after the message, or as members of the JSON object. A
// value that does not fit into the line is left out.
void log_values(enum log_level level, const char *message, const struct log_value *values,
                uint32_t count);

// Writes the text unchanged, without time, level and line end, at any level. The caller escapes
// foreign text with safe_of. In JSON format each line of the text becomes a message at level info.
void log_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Starts the log thread and the queue. Called once, by a process that serves.
enum status log_start(struct error *err) MUST_USE;

// Waits until all lines logged so far are written, for at most `ms` milliseconds. Returns true if
// they are.
bool log_flush(uint32_t ms);

// Flushes at the end of a process, including text that a library printed without a line end; waits
// and returns like log_flush.
bool log_end(uint32_t ms);

// Returns the number of lines dropped so far.
uint64_t log_dropped(void);
