// One line per event on stderr: time, level, text. Safe from every thread. Until log_start a line
// is written by its caller; after it a thread of the log writes, so that a stalled reader of stderr
// blocks nobody else. Lines that find the queue full are dropped and counted; their number is
// logged once the reader takes lines again.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON }; // JSON: one object a line with ts, level and message

// Lines above this level are not written; LOG_INFO at start. Set once, before threads start.
void log_level_set(enum log_level level);
enum log_level log_level_get(void);

// LOG_TEXT at start. Set once, before threads start.
void log_format_set(enum log_format format);
enum log_format log_format_get(void);

// One line whatever the arguments hold: the text is made safe (safe.h).
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A named value of a line.
struct log_value {
    const char *name;
    enum { LOG_VALUE_TEXT, LOG_VALUE_NUMBER, LOG_VALUE_BOOL } kind;
    struct text text; // made safe
    double number;    // a bool is 0 or 1
    int decimals;
};

// One line with values: " name=value" after the message, or members of the JSON object. A value
// that the line has no room for is left out.
void log_values(enum log_level level, const char *message, const struct log_value *values,
                uint32_t count);

// The text as it is: without time, level and line end, at every level. Foreign text in it goes
// through safe_of. In JSON each of its lines is a message at level info.
void log_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Lines go through the queue from here on. Once, by a process that serves.
enum status log_start(struct error *err) MUST_USE;

// Waits until what was logged so far is written, or that many milliseconds; true: it is.
bool log_flush(uint32_t ms);

// The same at the end of a process, with what a library printed without a line end.
bool log_end(uint32_t ms);

// Lines dropped since the start.
uint64_t log_dropped(void);
