// SPDX-License-Identifier: Apache-2.0
// The three kinds of error, which are kept apart.
//
// A bug in weft: check() ends the process with file, line and values; it is always enabled.
// A mistake from outside (a model file, an option, a missing driver): a function returns enum
// status and fills struct error with one sentence that states what to do.
// The end of a request is neither: it is data in an event (scheduler/port.h).
#pragma once

#include <stddef.h>

// The list from which the enum and the names of the statuses are generated. The text is the
// meaning.
#define STATUS_LIST(X)                                                                             \
    X(OK, "ok")                                                                                    \
    X(INVALID, "invalid input")                                                                    \
    X(UNSUPPORTED, "not supported")                                                                \
    X(NOT_FOUND, "not found")                                                                      \
    X(TOO_LARGE, "over a limit")                                                                   \
    X(NO_SPACE, "no space now")                                                                    \
    X(NO_MEMORY, "out of memory")                                                                  \
    X(NO_DEVICE, "no usable device")                                                               \
    X(IO, "input or output failed")                                                                \
    X(DEVICE_FAULT, "the device failed")                                                           \
    X(TIMEOUT, "timed out")                                                                        \
    X(REFUSED, "refused")                                                                          \
    X(UNWANTED, "ended because the result is not needed")

enum status {
#define STATUS_ENUM(name, text) STATUS_##name,
    STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
        STATUS_COUNT
};

#define MUST_USE __attribute__((warn_unused_result))

enum {
    ERROR_TEXT_MAX = 1024,
    // limit of a line on stderr: a pipe accepts this many bytes atomically (PIPE_BUF)
    LINE_BYTES_MAX = 4096,
};

// One sentence: what is wrong, where (file, offset), and what to do about it.
struct error {
    enum status status;
    char text[ERROR_TEXT_MAX];
};

// Returns the name without STATUS_, such as "INVALID"; "UNKNOWN" for other values.
const char *status_name(enum status status);

// Fills err (which may be NULL) and returns status, so that a caller can write `return
// error_set(err, STATUS_INVALID, "...", ...)`. Text over ERROR_TEXT_MAX - 1 bytes is cut between
// characters. No argument may point into err->text.
enum status error_set(struct error *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Inserts the formatted text and ": " before the text of an error that is being passed up. Keeps
// and returns its status; returns STATUS_INVALID if err is NULL.
enum status error_prefix(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Fills err for a pthread_create that returned `reason` (an errno value) and returns
// STATUS_NO_MEMORY. format: names the thread, the subject of the sentence, which also names the
// limits to raise.
enum status error_thread(struct error *err, int reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Writes the log, prints one line on stderr and aborts the process. Called by check() only.
_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

// Sets a function that a failed check calls before it ends the process, to write the log. Set once.
void check_flush_set(void (*flush)(void));

// Ends the process if the condition is false, which is a bug in weft. The text gives the values:
// check(n <= max, "%u rows, %u fit", n, max).
#define check(condition, ...)                                                                      \
    ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__))
