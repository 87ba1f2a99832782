// SPDX-License-Identifier: Apache-2.0
// Reads the lines that the user types for `weft chat`, with libedit on a terminal, and handles
// Ctrl-C; see chat.h. Main thread, except for the signal handler.
#include "cli/chat.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

enum { HISTORY_LINES = 1000, REPEATED_END_NS = 100000000 };

struct chat_lines {
    EditLine *edit; // NULL: stdin or stdout is not a terminal
    History *history;
    const char *history_file, *prompt;
    struct line_reader reader;
    bool interrupted;
    bool marks; // true: request marks around pasted text (bracketed paste)
};

static const int ends[] = {SIGTERM, SIGHUP, SIGQUIT};
enum { ENDS = sizeof ends / sizeof *ends };

static int interrupts = -1;
static volatile sig_atomic_t ending; // the signal that ends the process; 0: none
static volatile uint64_t ending_ns;  // clock_ns when it arrived
static struct termios terminal_was;  // terminal modes before libedit changed them
static volatile sig_atomic_t marked; // true if the terminal still sends marks around pasted text

#define MARKS_ON "\x1b[?2004h"
#define MARKS_OFF "\x1b[?2004l"

// Records the first signal that ends the process. Returns true for a second one, but not within 100
// ms, because a terminal or a shell may send the same signal twice.
static bool is_second_end(int signal)
{
    uint64_t now = clock_ns();
    if (ending != 0)
        return now - ending_ns > REPEATED_END_NS;
    ending_ns = now;
    ending = signal;
    return false;
}

// The signal handler. It calls only async-signal-safe functions; writing to an eventfd is safe too.
static void on_interrupt(int signal)
{
    int kept = errno;
    uint64_t one = 1;
    if (signal != SIGINT && is_second_end(signal))
        interrupt_end();
    ssize_t wrote = write(interrupts, &one, sizeof one);
    (void)wrote;
    errno = kept;
}

enum status interrupt_open(struct error *err)
{
    interrupts = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < ENDS; i++)
        sigaddset(&action.sa_mask, ends[i]);
    if (interrupts < 0 || tcgetattr(STDIN_FILENO, &terminal_was) != 0 ||
        sigaction(SIGINT, &action, NULL) != 0)
        return error_set(err, STATUS_IO, "Ctrl-C cannot be handled: %s", strerror(errno));
    for (int i = 0; i < ENDS; i++) {
        struct sigaction now;
        // not if it is ignored, as SIGHUP is by nohup
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(ends[i], &action, NULL);
    }
    return STATUS_OK;
}

bool interrupt_ends(void)
{
    return ending != 0;
}

void interrupt_end(void)
{
    if (ending == 0)
        return;
    signal(SIGTTOU, SIG_IGN); // else the terminal would stop a background process
    if (marked) {
        ssize_t wrote = write(STDOUT_FILENO, MARKS_OFF "\x1b[0m", sizeof MARKS_OFF "\x1b[0m" - 1);
        (void)wrote;
    }
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal_was);
    signal(ending, SIG_DFL);
    raise(ending);
}

int interrupt_descriptor(void)
{
    return interrupts;
}

bool interrupt_poll(void)
{
    uint64_t count;
    bool came = interrupts >= 0 && read(interrupts, &count, sizeof count) == sizeof count;
    return came || ending != 0;
}

// Reads one byte of the terminal. Returns 1, 0 at the end, -1 on Ctrl-C and on errors.
static int byte_read(struct chat_lines *lines, char *out)
{
    struct pollfd wait[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = interrupts, .events = POLLIN}};
    for (;;) {
        if (poll(wait, 2, -1) < 0 && errno != EINTR)
            return -1;
        lines->interrupted = interrupt_poll();
        if (lines->interrupted)
            return -1;
        if (wait[0].revents == 0)
            continue;
        ssize_t got = read(STDIN_FILENO, out, 1);
        if (got >= 0 || errno != EINTR)
            return got == 1 ? 1 : got == 0 ? 0 : -1;
    }
}

// libedit callback: reads the next character. Skips bytes that are not UTF-8.
static int character_read(EditLine *edit, wchar_t *out)
{
    struct chat_lines *lines = NULL;
    el_get(edit, EL_CLIENTDATA, &lines);
    mbstate_t state = {0};
    for (;;) {
        char byte;
        int got = byte_read(lines, &byte);
        if (got != 1)
            return got;
        size_t is = mbrtowc(out, &byte, 1, &state);
        if (is == (size_t)-1)
            state = (mbstate_t){0};
        else if (is != (size_t)-2)
            return 1;
    }
}

// libedit callback at the mark that begins pasted text: inserts everything up to the closing mark,
// including line ends, into the current message.
static unsigned char paste_read(EditLine *edit, int key)
{
    static const wchar_t end[] = L"\x1b[201~";
    size_t matched = 0;
    wchar_t text[2] = {0};
    (void)key;
    while (end[matched] != 0) {
        if (el_wgetc(edit, &text[0]) != 1)
            return CC_EOF;
        matched = text[0] == end[matched] ? matched + 1 : text[0] == end[0];
        if (matched == 0 && (!iswcntrl((wint_t)text[0]) || wcschr(L"\n\t", text[0])))
            el_winsertstr(edit, text);
    }
    return CC_REFRESH;
}

static char *prompt_get(EditLine *edit)
{
    struct chat_lines *lines = NULL;
    el_get(edit, EL_CLIENTDATA, &lines);
    return (char *)(uintptr_t)lines->prompt; // libedit does not modify it
}

// Loads the history. The file is overwritten at the end, so a file with other content is refused.
static enum status history_load(struct chat_lines *lines, const char *file, struct error *err)
{
    HistEvent event;
    struct stat is;
    int fd = open(file, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, STATUS_IO, "--history %s cannot be written: %s", file,
                         strerror(errno));
    bool plain = fstat(fd, &is) == 0 && S_ISREG(is.st_mode);
    close(fd);
    if (!plain || (is.st_size > 0 && history(lines->history, &event, H_LOAD, file) < 0))
        return error_set(err, STATUS_INVALID,
                         "--history %s exists and is not a history of weft chat: name another file",
                         file);
    lines->history_file = file;
    return STATUS_OK;
}

static enum status history_open(struct chat_lines *lines, const char *file, struct error *err)
{
    HistEvent event;
    lines->history = history_init();
    check(lines->history, "no memory for a history of %d lines", HISTORY_LINES);
    history(lines->history, &event, H_SETSIZE, HISTORY_LINES);
    history(lines->history, &event, H_SETUNIQUE, 1);
    el_set(lines->edit, EL_HIST, history, lines->history);
    return file ? history_load(lines, file, err) : STATUS_OK;
}

// Key codes that libedit does not bind, so that they would be inserted as text.
static const char *const keys[][2] = {
    {"^R", "em-inc-search-prev"},  {"\\e[1;5C", "em-next-word"},  // Ctrl and arrow keys
    {"\\e[1;5D", "ed-prev-word"},  {"\\e[5~", "ed-prev-history"}, // page up and down
    {"\\e[6~", "ed-next-history"}, {"\\e[200~", "paste"},         // marks around pasted text
    {"\\e[201~", "ed-ignore"},
};

enum status chat_lines_open(struct chat_lines **out, bool terminal, const char *file,
                            struct error *err)
{
    struct chat_lines *lines = heap_alloc_zeroed(1, sizeof *lines);
    *out = lines;
    if (!terminal)
        return STATUS_OK;
    lines->edit = el_init("weft", stdin, stdout, stderr);
    if (!lines->edit)
        return error_set(err, STATUS_IO,
                         "this terminal does not support line editing: set TERM, or send the lines "
                         "through a pipe");
    el_set(lines->edit, EL_CLIENTDATA, lines);
    el_set(lines->edit, EL_EDITOR, "emacs");
    el_set(lines->edit, EL_SIGNAL, 0);
    el_set(lines->edit, EL_PROMPT, prompt_get);
    el_set(lines->edit, EL_GETCFN, character_read);
    el_set(lines->edit, EL_ADDFN, "paste", "Insert pasted text", paste_read);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_set(lines->edit, EL_BIND, keys[i][0], keys[i][1], NULL);
    el_source(lines->edit, NULL); // ~/.editrc
    const char *kind = NULL;
    el_get(lines->edit, EL_TERMINAL, &kind);
    lines->marks = kind && strcmp(kind, "dumb") != 0;
    return history_open(lines, file, err);
}

// Switches echo off between prompts, so that keys typed then are kept unseen for the next prompt
// and have their meaning there. libedit and the end of the chat restore the terminal's modes.
static void keys_hide(void)
{
    struct termios modes;
    if (tcgetattr(STDIN_FILENO, &modes) != 0)
        return;
    modes.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
    tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

static enum chat_line line_edit(struct chat_lines *lines, struct text *out)
{
    HistEvent event;
    int bytes = 0;
    lines->interrupted = false;
    if (lines->marks) { // again for each line: a shell may have switched them off
        marked = true;
        fputs(MARKS_ON, stdout);
    }
    el_resize(lines->edit);
    const char *line = el_gets(lines->edit, &bytes);
    keys_hide();
    if (!line || bytes <= 0) {
        fputs("\n", stdout);
        return lines->interrupted ? CHAT_INTERRUPTED : CHAT_END;
    }
    size_t length = (size_t)bytes;
    if (strspn(line, " \t\n") < length)
        history(lines->history, &event, H_ENTER, line);
    *out = text_span(line, length - (line[length - 1] == '\n'));
    return CHAT_LINE;
}

enum chat_line chat_lines_next(struct chat_lines *lines, const char *prompt, struct text *out)
{
    lines->prompt = prompt;
    if (lines->edit)
        return line_edit(lines, out);
    return line_next(&lines->reader, out) ? CHAT_LINE : CHAT_END;
}

void chat_lines_close(struct chat_lines *lines)
{
    HistEvent event;
    if (!lines)
        return;
    errno = 0;
    if (lines->history && lines->history_file &&
        history(lines->history, &event, H_SAVE, lines->history_file) < 0)
        safe_line(stderr, "weft: the history cannot be written to %s: %s", lines->history_file,
                  errno != 0 ? strerror(errno) : event.str);
    if (lines->history)
        history_end(lines->history);
    if (marked) {
        fputs(MARKS_OFF, stdout);
        fflush(stdout); // now, because a signal may end the process
    }
    marked = false;
    if (lines->edit)
        el_end(lines->edit);
    heap_free(lines->reader.at);
    heap_free(lines);
}
