// One line per event on stderr: time, level, text. Safe from every thread. Until log_start a line
// is written by its caller; after it a thread of the log writes, so that a reader of stderr that
// stalls holds up nobody else. What finds the ring full is dropped, counted, and said once the
// reader takes lines again.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

// Lines above this level are not written; LOG_INFO at start. Set once, before threads start.
void log_level_set(enum log_level level);
enum log_level log_level_get(void);

// One line whatever the arguments hold: the text is made safe (safe.h).
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The text as it is: without time, level and line end, at every level. Foreign text in it goes
// through safe_of.
void log_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Lines go through the ring from here on. Once, by a process that serves.
enum status log_start(struct error *err) MUST_USE;

// Waits until what was logged so far is written, or that many milliseconds; true: it is.
bool log_flush(uint32_t ms);

// The same at the end of a process, with what a library printed without a line end.
bool log_end(uint32_t ms);

// Lines dropped since the start.
uint64_t log_dropped(void);
