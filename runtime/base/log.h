// One line per event on stderr: time, level, text. Safe from every thread (one write(2) a line).
#pragma once

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

// Lines above this level are dropped; LOG_INFO at start. Set once, before threads start.
void log_level_set(enum log_level level);
enum log_level log_level_get(void);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
