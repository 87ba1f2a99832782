// The three kinds of error, never mixed.
//
// Our own mistake: check() ends the process with file, line and values; it is always on.
// The world's mistake (a model file, an option, a missing driver): a function returns enum status
// and fills struct error with one sentence that a human can act on.
// A request's end is neither: it is data in an event (scheduler/port.h).
#pragma once

#include <stddef.h>

// The one list that yields enum, names and texts of the statuses.
#define STATUS_LIST(X)                                                                             \
    X(OK, "ok")                                                                                    \
    X(INVALID, "invalid input")                                                                    \
    X(UNSUPPORTED, "not supported")                                                                \
    X(NOT_FOUND, "not found")                                                                      \
    X(TOO_LARGE, "over a limit")                                                                   \
    X(NO_ROOM, "no room now")                                                                      \
    X(NO_MEMORY, "out of memory")                                                                  \
    X(NO_DEVICE, "no usable device")                                                               \
    X(IO, "input or output failed")                                                                \
    X(DEVICE_FAULT, "the device failed")                                                           \
    X(TIMEOUT, "timed out")                                                                        \
    X(REFUSED, "refused")                                                                          \
    X(UNWANTED, "ended because nobody waits for the result")

enum status {
#define STATUS_ENUM(name, text) STATUS_##name,
    STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
        STATUS_COUNT
};

#define MUST_USE __attribute__((warn_unused_result))

enum {
    ERROR_TEXT_MAX = 1024,
    LINE_BYTES_MAX = 4096, // of a line for stderr: a pipe takes so many bytes in one piece
};

// One sentence: what is wrong, where (file, offset), and what to do about it.
struct error {
    enum status status;
    char text[ERROR_TEXT_MAX];
};

// "INVALID" and so on; never NULL.
const char *status_name(enum status status);

// Fills err (which may be NULL) and returns status, so that a caller can write
// `return error_set(err, STATUS_INVALID, "...", ...)`. Text over ERROR_TEXT_MAX is cut at a
// character boundary of UTF-8.
enum status error_set(struct error *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Puts "context: " in front of an error that is being passed up; returns its status.
enum status error_prefix(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// The error of a pthread_create that returned `reason`; names the thread and the limits to raise.
enum status error_thread(struct error *err, int reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Ends the process after one line on stderr. Called by check() only.
_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

// Called before a failed check ends the process: what was logged comes out first. Set once.
void check_flush_set(void (*flush)(void));

// For our own mistakes. The text gives the values: check(n <= max, "%u rows, %u fit", n, max).
#define check(condition, ...)                                                                      \
    ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__))
