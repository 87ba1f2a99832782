// SPDX-License-Identifier: Apache-2.0
// The log: one queue of lines and the thread that writes them; see log.h. The lock is held while a
// few kilobytes are copied, but not during a write.
#include "base/log.h"

#include "base/safe.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_END_BYTES = 8, // space reserved for the end of a line
    VALUE_BYTES_MAX = 1024,
    CHARACTER_BYTES_MAX = 4,
    QUEUE_BYTES = 256 * 1024,
    CHECK_FLUSH_MS = 500, // how long a failing process waits for the log
    ABORT_POLL_MS = 2,
};

static enum log_level level_max = LOG_INFO;
static enum log_format line_format = LOG_TEXT;

struct line {
    char at[LINE_BYTES_MAX];
    size_t bytes;
};

struct line_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    bool started, writing; // writing: true while a piece removed from the queue is being written
    size_t first, used;    // contents: records of a length in two bytes and the text
    // number of lines dropped and not yet reported; while it is not 0, new lines are dropped too
    uint64_t unreported;
    _Atomic uint64_t dropped;
    char bytes[QUEUE_BYTES];
};

static struct line_queue queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

void log_level_set(enum log_level level)
{
    level_max = level;
}

enum log_level log_level_get(void)
{
    return level_max;
}

void log_format_set(enum log_format format)
{
    line_format = format;
}

enum log_format log_format_get(void)
{
    return line_format;
}

uint64_t log_dropped(void)
{
    return atomic_load_explicit(&queue.dropped, memory_order_relaxed);
}

// Writes to stderr; waits for a slow reader. After an error the rest is lost.
static void write_all(const char *at, size_t bytes)
{
    while (bytes > 0) {
        ssize_t wrote = write(STDERR_FILENO, at, bytes);
        // another process may have made the shared descriptor non-blocking
        if (wrote < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (wrote < 0 && errno != EINTR)
            return;
        if (wrote > 0) {
            at += wrote;
            bytes -= (size_t)wrote;
        }
    }
}

static void queue_write(const void *from, size_t bytes)
{
    size_t at = (queue.first + queue.used) % QUEUE_BYTES;
    size_t head = bytes < QUEUE_BYTES - at ? bytes : QUEUE_BYTES - at;
    memcpy(queue.bytes + at, from, head);
    memcpy(queue.bytes, (const char *)from + head, bytes - head);
    queue.used += bytes;
}

static void queue_peek(void *to, size_t offset, size_t bytes)
{
    size_t at = (queue.first + offset) % QUEUE_BYTES;
    size_t head = bytes < QUEUE_BYTES - at ? bytes : QUEUE_BYTES - at;
    memcpy(to, queue.bytes + at, head);
    memcpy((char *)to + head, queue.bytes, bytes - head);
}

// Removes complete records from the queue, at most LINE_BYTES_MAX bytes. Returns their size.
static size_t piece_pop(char *piece)
{
    size_t bytes = 0;
    while (queue.used > 0) {
        uint16_t length;
        queue_peek(&length, 0, sizeof length);
        if (bytes + length > LINE_BYTES_MAX)
            break;
        queue_peek(piece + bytes, sizeof length, length);
        bytes += length;
        queue.first = (queue.first + sizeof length + length) % QUEUE_BYTES;
        queue.used -= sizeof length + length;
    }
    return bytes;
}

// Appends an escaped text (safe.h) in quotes; only quotes and backslashes still need a JSON escape.
// Cuts it between characters if the line is full.
static void quoted_put(struct line *line, struct text in)
{
    line->at[line->bytes++] = '"';
    for (size_t i = 0; i < in.bytes; i++) {
        bool begins = ((unsigned char)in.at[i] & 0xC0) != 0x80;
        if (begins && line->bytes + CHARACTER_BYTES_MAX + LINE_END_BYTES > sizeof line->at)
            break;
        if (in.at[i] == '"' || in.at[i] == '\\')
            line->at[line->bytes++] = '\\';
        line->at[line->bytes++] = in.at[i];
    }
    line->at[line->bytes++] = '"';
}

static void line_begin(struct line *line, enum log_level level)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    struct timespec now;
    struct tm parts;
    char second[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(second, sizeof second, "%Y-%m-%dT%H:%M:%S", &parts);
    bool json = line_format == LOG_JSON;
    int bytes = snprintf(line->at, sizeof line->at, "%s%s.%03ldZ%s%s%s", json ? "{\"ts\":\"" : "",
                         second, now.tv_nsec / 1000000, json ? "\",\"level\":\"" : " ",
                         names[level], json ? "\",\"message\":" : " ");
    line->bytes = (size_t)bytes;
}

static void message_put(struct line *line, const char *format, va_list args)
{
    char text[LINE_BYTES_MAX];
    size_t space = sizeof line->at - line->bytes - LINE_END_BYTES;
    if (line_format == LOG_JSON)
        quoted_put(line, text_span(text, safe_format(text, sizeof text, format, args)));
    else
        line->bytes += safe_format(line->at + line->bytes, space, format, args);
}

static void value_put(struct line *line, const struct log_value *value)
{
    char text[VALUE_BYTES_MAX];
    bool json = line_format == LOG_JSON, quoted = value->kind == LOG_VALUE_TEXT;
    size_t bytes;
    if (value->kind == LOG_VALUE_TEXT)
        bytes = safe_put(text, sizeof text, value->text);
    else if (value->kind == LOG_VALUE_BOOL)
        bytes = (size_t)snprintf(text, sizeof text, "%s", value->number != 0 ? "true" : "false");
    else
        bytes = (size_t)snprintf(text, sizeof text, "%.*f", value->decimals, value->number);
    if (line->bytes + strlen(value->name) + 2 * bytes + 2 * LINE_END_BYTES > sizeof line->at)
        return;
    line->bytes += (size_t)snprintf(line->at + line->bytes, sizeof line->at - line->bytes,
                                    json ? ",\"%s\":" : " %s=", value->name);
    if (quoted && (json || bytes == 0 || strpbrk(text, " \"="))) {
        quoted_put(line, text_span(text, bytes));
        return;
    }
    memcpy(line->at + line->bytes, text, bytes);
    line->bytes += bytes;
}

static void line_end(struct line *line)
{
    if (line_format == LOG_JSON)
        line->at[line->bytes++] = '}';
    line->at[line->bytes++] = '\n';
}

static void line_make(struct line *line, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void line_make(struct line *line, enum log_level level, const char *format, ...)
{
    va_list args;
    line_begin(line, level);
    va_start(args, format);
    message_put(line, format, args);
    va_end(args);
}

// Queues the report about dropped lines. Waits until half of the queue is free, so that a slow
// reader gets one report for many lines. Call with the lock held.
static void unreported_queue(void)
{
    if (queue.unreported == 0 || queue.used > QUEUE_BYTES / 2)
        return;
    struct line line;
    line_make(&line, LOG_WARNING,
              "%llu lines of the log were dropped: the reader of stderr was slower",
              (unsigned long long)queue.unreported);
    line_end(&line);
    uint16_t length = (uint16_t)line.bytes;
    queue_write(&length, sizeof length);
    queue_write(line.at, line.bytes);
    queue.unreported = 0;
}

static void *writer_main(void *unused)
{
    (void)unused;
    char piece[LINE_BYTES_MAX];
    pthread_setname_np(pthread_self(), "log");
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        unreported_queue();
        size_t bytes = piece_pop(piece);
        if (bytes == 0) {
            queue.writing = false;
            pthread_cond_broadcast(&queue.emptied);
            pthread_cond_wait(&queue.filled, &queue.lock);
            continue;
        }
        queue.writing = true;
        pthread_mutex_unlock(&queue.lock);
        write_all(piece, bytes);
        pthread_mutex_lock(&queue.lock);
    }
    return NULL;
}

static void line_queue_put(const char *text, size_t bytes)
{
    pthread_mutex_lock(&queue.lock);
    bool direct = !queue.started;
    uint16_t length = (uint16_t)bytes;
    if (!direct && (queue.unreported > 0 || queue.used + sizeof length + bytes > QUEUE_BYTES)) {
        queue.unreported++;
        atomic_fetch_add_explicit(&queue.dropped, 1, memory_order_relaxed);
    } else if (!direct) {
        queue_write(&length, sizeof length);
        queue_write(text, bytes);
        pthread_cond_signal(&queue.filled);
    }
    pthread_mutex_unlock(&queue.lock);
    if (direct)
        write_all(text, bytes);
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level > level_max)
        return;
    struct line line;
    va_list args;
    line_begin(&line, level);
    va_start(args, format);
    message_put(&line, format, args);
    va_end(args);
    line_end(&line);
    line_queue_put(line.at, line.bytes);
}

void log_values(enum log_level level, const char *message, const struct log_value *values,
                uint32_t count)
{
    if (level > level_max)
        return;
    struct line line;
    line_make(&line, level, "%s", message);
    for (uint32_t i = 0; i < count; i++)
        value_put(&line, &values[i]);
    line_end(&line);
    line_queue_put(line.at, line.bytes);
}

static void text_lines_put(char *text)
{
    char *rest = text;
    for (char *at = strtok_r(rest, "\r\n", &rest); at; at = strtok_r(rest, "\r\n", &rest)) {
        struct line line;
        line_make(&line, LOG_INFO, "%s", at);
        line_end(&line);
        line_queue_put(line.at, line.bytes);
    }
}

void log_text(const char *format, ...)
{
    char text[LINE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    int wrote = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (wrote > 0 && line_format == LOG_JSON)
        text_lines_put(text);
    else if (wrote > 0)
        line_queue_put(text, (size_t)wrote < sizeof text ? (size_t)wrote : sizeof text - 1);
}

static void check_flush(void)
{
    log_flush(CHECK_FLUSH_MS);
}

static bool all_is_written(void)
{
    return !queue.started || (queue.used == 0 && queue.unreported == 0 && !queue.writing);
}

// Handler of SIGABRT, from abort() or from outside: waits until the log is written. The interrupted
// thread may hold the lock, so it only tries to lock, for at most CHECK_FLUSH_MS.
static void abort_flush(int number)
{
    bool written = false;
    for (int ms = 0; !written && ms < CHECK_FLUSH_MS; ms += ABORT_POLL_MS) {
        if (pthread_mutex_trylock(&queue.lock) == 0) {
            written = all_is_written();
            pthread_mutex_unlock(&queue.lock);
        }
        if (!written)
            nanosleep(&(struct timespec){.tv_nsec = ABORT_POLL_MS * 1000000}, NULL);
    }
    signal(number, SIG_DFL);
    raise(number); // blocked in this handler: ends the process when it returns
}

static ssize_t library_write(void *unused, const char *at, size_t bytes)
{
    (void)unused;
    for (size_t done = 0; done < bytes;) {
        const char *end = memchr(at + done, '\n', bytes - done);
        size_t line = end ? (size_t)(end - at) - done : bytes - done;
        if (line > 0)
            log_line(LOG_WARNING, "library: %.*s", (int)line, at + done);
        done += line + (end != NULL);
    }
    return (ssize_t)bytes;
}

// Sends what libraries print on stderr through the queue too: libh2o prints on h2o threads.
static void libraries_divert(void)
{
    FILE *out = fopencookie(NULL, "w", (cookie_io_functions_t){.write = library_write});
    check(out, "no stream for what libraries print");
    setvbuf(out, NULL, _IOLBF, LINE_BYTES_MAX);
    stderr = out;
    signal(SIGABRT, abort_flush);
}

enum status log_start(struct error *err)
{
    check(!queue.started, "the log was started before");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue.emptied, &monotonic);
    pthread_cond_init(&queue.filled, NULL);
    pthread_condattr_destroy(&monotonic);
    sigset_t all, before;
    sigfillset(&all); // signals are handled by main
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t writer;
    int failed = pthread_create(&writer, NULL, writer_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        return error_thread(err, failed, "the thread of the log");
    pthread_detach(writer); // not joined: it may hang in a write when the process ends
    pthread_mutex_lock(&queue.lock);
    queue.started = true;
    pthread_mutex_unlock(&queue.lock);
    check_flush_set(check_flush);
    libraries_divert();
    return STATUS_OK;
}

bool log_flush(uint32_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&queue.lock);
    int late = 0;
    bool written;
    while (!(written = all_is_written()) && late == 0)
        late = pthread_cond_timedwait(&queue.emptied, &queue.lock, &until);
    pthread_mutex_unlock(&queue.lock);
    return written;
}

bool log_end(uint32_t ms)
{
    fflush(stderr);
    return log_flush(ms);
}
