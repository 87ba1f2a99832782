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

// Logs one line. Whatever the arguments contain, the text is escaped (safe.h) and stays one line;
// it is cut at LINE_BYTES_MAX.
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A named value in a line.
struct log_value {
    const char *name;
    enum { LOG_VALUE_TEXT, LOG_VALUE_NUMBER, LOG_VALUE_BOOL } kind;
    struct text text; // value of LOG_VALUE_TEXT; escaped when written and cut at 1023 bytes
    double number;    // value of the other kinds; a bool is 0 or 1
    int decimals;     // digits after the decimal point of LOG_VALUE_NUMBER
};

// Logs one line with values: " name=value" after the message, or as members of the JSON object. A
// value that does not fit into the line is left out.
void log_values(enum log_level level, const char *message, const struct log_value *values,
                uint32_t count);

// Writes the text unchanged, whatever log_level_set set: no time and level before it, no line end
// after it; cut at LINE_BYTES_MAX - 1 bytes. The caller escapes foreign text with safe_of. In JSON
// format each line of the text becomes a message at level info.
void log_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Starts the log thread and the queue. Text that libraries print through `stderr` becomes log lines
// from then on, and SIGABRT and failed checks write the queue before the process ends. Called once,
// by a process that serves. NO_MEMORY if the thread cannot be started.
enum status log_start(struct error *err) MUST_USE;

// Waits until the queue is empty and written, for at most `ms` milliseconds; lines that other
// threads log meanwhile count too. Returns true if it is.
bool log_flush(uint32_t ms);

// Flushes at the end of a process, including text that a library printed without a line end; waits
// and returns like log_flush.
bool log_end(uint32_t ms);

// Returns the number of lines dropped so far.
uint64_t log_dropped(void);
