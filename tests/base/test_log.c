// SPDX-License-Identifier: Apache-2.0
// The log writes in order and immediately for a command. For a server it writes through the ring: a
// stalled reader of stderr blocks no caller, dropped lines are counted and reported, and lines are
// not split. The order of the tests matters: log_start can be called only once.
#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

enum {
    PIPE_BYTES = 4096,
    THREADS = 4,
    LINES = 5000, // per thread: more than pipe and ring hold
    PADDING = 60,
    QUEUE_BYTES = 256 * 1024, // as in log.c; a record is its text and two bytes
    PAD_BYTES = 4,
    PADS = 15,     // lines of a record; many such records fill the ring
    STUCK_S = 120, // limit in seconds: a blocked caller ends the program
    FLUSH_MS = 30000,
    ABORTS = 5,
};

static int stderr_kept, reader; // reader: read end of the pipe that replaces stderr
static _Atomic uint32_t writes; // number of writes that log.c has started

ssize_t __real_write(int descriptor, const void *at, size_t bytes);
ssize_t __wrap_write(int descriptor, const void *at, size_t bytes);

ssize_t __wrap_write(int descriptor, const void *at, size_t bytes)
{
    atomic_fetch_add(&writes, 1);
    return __real_write(descriptor, at, bytes);
}

static void pipe_open(void)
{
    int ends[2];
    fflush(stderr);
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) > 0);
    stderr_kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    reader = ends[0];
}

static void pipe_close(void)
{
    dup2(stderr_kept, STDERR_FILENO);
    close(stderr_kept);
    close(reader);
}

static void test_lines_are_written_immediately_before_log_start(void **state)
{
    (void)state;
    char text[256] = "";
    pipe_open();
    log_text("first\n");
    log_line(LOG_WARNING, "number %d", 2);
    log_line(LOG_DEBUG, "not at this level");
    dprintf(STDERR_FILENO, "third\n");
    ssize_t got = read(reader, text, sizeof text - 1); // the text is there already
    bool flushed = log_flush(0);
    pipe_close();
    assert_true(got > 0 && flushed);
    assert_true(strncmp(text, "first\n", 6) == 0);
    const char *second = strstr(text, " warning number 2\n");
    assert_non_null(second);
    assert_string_equal(strchr(second, '\n'), "\nthird\n");
}

static void test_levels(void **state)
{
    (void)state;
    static const char *const names[] = {" error at 0\n", " warning at 1\n", " info at 2\n",
                                        " debug at 3\n"};
    assert_int_equal(log_level_get(), LOG_INFO);
    for (int most = LOG_ERROR; most <= LOG_DEBUG; most++) {
        char text[512] = "";
        log_level_set((enum log_level)most);
        assert_int_equal(log_level_get(), most);
        pipe_open();
        for (int level = LOG_ERROR; level <= LOG_DEBUG; level++)
            if (level % 2)
                log_line((enum log_level)level, "at %d", level);
            else
                log_values((enum log_level)level, level ? "at 2" : "at 0", NULL, 0);
        ssize_t got = read(reader, text, sizeof text - 1);
        pipe_close();
        assert_true(got > 0);
        for (int level = LOG_ERROR; level <= LOG_DEBUG; level++)
            assert_int_equal(strstr(text, names[level]) != NULL, level <= most);
    }
    log_level_set(LOG_INFO);
    assert_int_equal(log_format_get(), LOG_TEXT);
}

enum { PIECES = 5, PIECE_BYTES = 3000 }; // two of them do not fit into the pipe

static void *pieces_log(void *text)
{
    for (int i = 0; i < PIECES; i++)
        log_text("%s", (const char *)text);
    return NULL;
}

// Another process may have made the shared descriptor non-blocking: no line is lost.
static void test_a_descriptor_that_does_not_block(void **state)
{
    (void)state;
    char text[PIECE_BYTES + 1], heard[PIECE_BYTES];
    memset(text, 'x', PIECE_BYTES);
    text[PIECE_BYTES] = '\0';
    pthread_t thread;
    pipe_open();
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
    alarm(STUCK_S);
    assert_int_equal(pthread_create(&thread, NULL, pieces_log, text), 0);
    usleep(20000); // the pipe is full
    for (size_t got = 0; got < PIECES * PIECE_BYTES;) {
        ssize_t piece = read(reader, heard, sizeof heard);
        assert_true(piece > 0);
        got += (size_t)piece;
    }
    pthread_join(thread, NULL);
    alarm(0);
    pipe_close();
}

// A line is a single line of printable text whatever a client or a model file puts into it.
static void test_foreign_text(void **state)
{
    (void)state;
    char text[256] = "";
    pipe_open();
    log_line(LOG_INFO, "GET %s 404", "/x\n2026-11-22T00:00:00.000Z info stopped\x1b[2J\xff\u202E");
    ssize_t got = read(reader, text, sizeof text - 1);
    pipe_close();
    assert_true(got > 0);
    assert_non_null(strstr(text, " info GET /x\\n2026-11-22T00:00:00.000Z info stopped"
                                 "\\x1b[2J\\xff\\u{202e} 404\n"));
    assert_ptr_equal(strchr(text, '\n'), text + got - 1);
}

static void line_read(char *line, size_t size)
{
    ssize_t got = read(reader, line, size - 1); // each line is one write
    line[got > 0 ? got : 0] = '\0';
}

// In JSON a line is one object, whatever its contents and length.
static void object_check(const char *level, const char *message)
{
    char line[8192];
    line_read(line, sizeof line);
    json_t *object = json_loads(line, 0, NULL);
    const char *said = json_string_value(json_object_get(object, "message"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_non_null(said);
    assert_true(message ? strcmp(said, message) == 0 : strlen(said) > 1500);
    assert_string_equal(json_string_value(json_object_get(object, "level")), level);
    assert_int_equal(strlen(json_string_value(json_object_get(object, "ts"))), 24);
    json_decref(object);
}

static void test_json(void **state)
{
    (void)state;
    char lengthy[6000];
    memset(lengthy, '"', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    log_format_set(LOG_JSON);
    pipe_open();
    log_line(LOG_WARNING, "%s", "\"}\n{\"level\":\"x\\\x1b\xff\u202E");
    object_check("warning", "\"}\\n{\"level\":\"x\\\\x1b\\xff\\u{202e}");
    log_line(LOG_INFO, "%s", lengthy);
    object_check("info", NULL);
    log_text("\rone\n");
    object_check("info", "one");
    pipe_close();
    log_format_set(LOG_TEXT);
}

static void test_values(void **state)
{
    (void)state;
    char line[8192], lengthy[6000];
    memset(lengthy, '\\', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    const struct log_value values[] = {
        {.name = "route", .kind = LOG_VALUE_TEXT, .text = text_of("/a status=200\n\"")},
        {.name = "one", .kind = LOG_VALUE_TEXT, .text = text_of(lengthy)},
        {.name = "two", .kind = LOG_VALUE_TEXT, .text = text_of(lengthy)},
        {.name = "ms", .kind = LOG_VALUE_NUMBER, .number = 1.25, .decimals = 1},
        {.name = "three", .kind = LOG_VALUE_TEXT, .text = text_of("/b\n")},
        {.name = "gone", .kind = LOG_VALUE_BOOL, .number = 1},
    };
    pipe_open();
    log_values(LOG_INFO, "request", values, 6);
    line_read(line, sizeof line);
    assert_non_null(strstr(line, " info request route=\"/a status=200\\\\n\\\"\" one=\\"));
    assert_string_equal(strstr(line, " ms="), " ms=1.2 three=/b\\n gone=true\n");
    log_values(LOG_DEBUG, "request", values, 6);
    log_format_set(LOG_JSON);
    log_values(LOG_INFO, "request", values, 6);
    line_read(line, sizeof line);
    json_t *object = json_loads(line, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(object, "message")), "request");
    assert_string_equal(json_string_value(json_object_get(object, "route")), "/a status=200\\n\"");
    assert_true(json_number_value(json_object_get(object, "ms")) == 1.2);
    assert_true(json_is_true(json_object_get(object, "gone")));
    json_decref(object);
    pipe_close();
    log_format_set(LOG_TEXT);
}

static void line_put(int thread, int number)
{
    log_line(LOG_INFO, "thread %d line %d %.*s", thread, number, PADDING,
             "------------------------------------------------------------");
}

static void *lines_put(void *argument)
{
    const int *thread = argument;
    for (int i = 1; i <= LINES; i++)
        line_put(*thread, i);
    return NULL;
}

struct seen {
    uint64_t lines, dropped, notices;
    int next[THREADS];
    bool broken;
};

static void line_see(struct seen *seen, const char *line)
{
    int thread, number;
    unsigned long long dropped;
    const char *text = strstr(line, "Z info thread ");
    const char *notice = strstr(line, "Z warning ");
    if (text && sscanf(text, "Z info thread %d line %d ", &thread, &number) == 2 && thread >= 0 &&
        thread < THREADS && strspn(strrchr(text, ' ') + 1, "-") == PADDING) {
        seen->broken = seen->broken || number < seen->next[thread]; // in its caller's order
        seen->next[thread] = number + 1;
        seen->lines++;
    } else if (notice &&
               sscanf(notice, "Z warning %llu lines of the log were dropped", &dropped) == 1) {
        seen->dropped += dropped;
        seen->notices++;
    } else if (!strstr(line, "Z info the last line") && strcmp(line, "pad\n") != 0) {
        seen->broken = true;
    }
}

static void *reader_main(void *argument)
{
    struct seen *seen = argument;
    FILE *from = fdopen(dup(reader), "r");
    char line[512];
    while (fgets(line, sizeof line, from)) {
        line_see(seen, line);
        if (strstr(line, "the last line"))
            break;
    }
    fclose(from);
    return NULL;
}

// Opens a pipe and fills it. Afterwards the writer is blocked in the write of one line, and the
// ring is empty.
static void writer_stall(void)
{
    pipe_open();
    for (int i = 0; i < PIPE_BYTES / PAD_BYTES; i++)
        dprintf(STDERR_FILENO, "pad\n");
    uint32_t before = atomic_load(&writes);
    log_text("pad\n");
    while (atomic_load(&writes) == before)
        usleep(1000); // STUCK_S ends the program
}

static void test_a_stalled_reader_blocks_no_caller(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(log_start(&err), STATUS_OK);
    alarm(STUCK_S);
    writer_stall();
    bool flushed_held = log_flush(50);
    pthread_t threads[THREADS], reading;
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, lines_put, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL); // none was blocked, although no byte was read
    bool flushed_stalled = log_flush(50);
    uint64_t dropped = log_dropped();
    struct seen seen = {0};
    pthread_create(&reading, NULL, reader_main, &seen);
    bool flushed = log_flush(FLUSH_MS);
    log_line(LOG_INFO, "the last line");
    pthread_join(reading, NULL);
    pipe_close();
    alarm(0);
    assert_false(flushed_held);
    assert_false(flushed_stalled);
    assert_true(flushed);
    assert_false(seen.broken);
    assert_true(dropped > 0);
    assert_int_equal(seen.notices, 1);
    assert_int_equal(seen.dropped, dropped);
    assert_int_equal(seen.lines + dropped, THREADS * LINES);
    assert_int_equal(log_dropped(), dropped);
}

static void pads_put(int count)
{
    char text[PADS * PAD_BYTES + 1] = "";
    for (int i = 0; i < count; i++)
        strcat(text, "pad\n");
    log_text("%s", text);
}

// A record for which two bytes are missing is dropped.
static void test_the_ring_is_never_overfilled(void **state)
{
    (void)state;
    uint64_t before = log_dropped();
    struct seen seen = {0};
    pthread_t reading;
    alarm(STUCK_S);
    writer_stall();
    int left = QUEUE_BYTES;
    for (; left >= 2 * (PADS * PAD_BYTES + 2); left -= PADS * PAD_BYTES + 2)
        pads_put(PADS);
    int first = (left - 2) / PAD_BYTES / 2, rest = left - 2 - first * PAD_BYTES;
    pads_put(first);
    pads_put(rest / PAD_BYTES);
    uint64_t dropped = log_dropped() - before;
    pthread_create(&reading, NULL, reader_main, &seen);
    bool flushed = log_flush(FLUSH_MS);
    log_line(LOG_INFO, "the last line");
    pthread_join(reading, NULL);
    pipe_close();
    alarm(0);
    assert_true(flushed && rest % PAD_BYTES == 0 && rest / PAD_BYTES <= PADS);
    assert_false(seen.broken);
    assert_int_equal(seen.dropped, dropped);
    assert_int_equal(dropped, 1);
}

static pid_t child_start(const char *what)
{
    pipe_open();
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test_log", what, (char *)NULL);
        _exit(127);
    }
    dup2(stderr_kept, STDERR_FILENO); // only the child holds the write end
    return child;
}

// Reads the rest of the child's output, its beginning into `text`. Returns the child's wait status.
static int child_end(pid_t child, char *text, size_t size)
{
    char rest[PIPE_BYTES];
    size_t bytes = 0;
    for (ssize_t got; (got = read(reader, rest, sizeof rest)) > 0;) {
        size_t kept = (size_t)got < size - 1 - bytes ? (size_t)got : size - 1 - bytes;
        memcpy(text + bytes, rest, kept);
        bytes += kept;
    }
    text[bytes] = '\0';
    int status;
    waitpid(child, &status, 0);
    pipe_close();
    return status;
}

// A child that aborts in a check first writes the lines that it logged.
static void test_a_failed_check_writes_the_log(void **state)
{
    (void)state;
    char text[2048];
    int status = child_end(child_start("check"), text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    const char *logged = strstr(text, " info before the check\n");
    assert_non_null(logged);
    assert_non_null(strstr(logged, "check failed: 1 + 1 == 3: the sum is 2\n"));
}

// SIGABRT from outside ends the process, even while a thread is logging.
static void test_abort_from_outside(void **state)
{
    (void)state;
    char text[2048];
    for (int i = 0; i < ABORTS; i++) {
        pid_t child = child_start("busy");
        assert_true(read(reader, text, sizeof text) > 0); // it has started to log
        kill(child, SIGABRT);
        int status = child_end(child, text, sizeof text);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
    }
}

static void test_log_end_writes_everything(void **state)
{
    (void)state;
    char text[2048];
    int status = child_end(child_start("end"), text, sizeof text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(text, " warning library: half a line\n"));
}

static int child_main(const char *what)
{
    struct error err;
    alarm(STUCK_S);
    if (log_start(&err) != STATUS_OK)
        return 1;
    while (strcmp(what, "busy") == 0)
        log_line(LOG_INFO, "busy");
    if (strcmp(what, "end") == 0) {
        fprintf(stderr, "half a line");
        _exit(log_end(FLUSH_MS) ? 0 : 1);
    }
    log_line(LOG_INFO, "before the check");
    check(1 + 1 == 3, "the sum is %d", 1 + 1);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child_main(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_written_immediately_before_log_start),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_a_descriptor_that_does_not_block),
        cmocka_unit_test(test_foreign_text),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_a_stalled_reader_blocks_no_caller),
        cmocka_unit_test(test_the_ring_is_never_overfilled),
        cmocka_unit_test(test_a_failed_check_writes_the_log),
        cmocka_unit_test(test_abort_from_outside),
        cmocka_unit_test(test_log_end_writes_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
