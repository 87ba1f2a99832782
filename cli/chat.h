// SPDX-License-Identifier: Apache-2.0
// Shared by the files of `weft chat`: the two sources of answers (a model in this process, a
// server), reading of lines, and Ctrl-C. All functions run on the main thread.
#pragma once

#include "cli/command.h"

struct chat_params {
    double temperature, top_p; // -1: not set by the user
    uint32_t top_k, max_tokens;
    int64_t seed; // -1: random
};

// One answer. Zeroed by the caller before it is generated; the caller frees text.
struct chat_answer {
    struct json_buffer text; // answer text without reasoning
    uint32_t tokens;
    // clock_ns at the start, at the first text, at the end; first_ns 0: no text arrived
    uint64_t begun_ns, first_ns, ended_ns;
    bool stopped; // true if the user stopped it with Ctrl-C
    bool cut;     // true if max-tokens or a full context ended it
};

// The source of answers. `answer` generates the answer to the messages (borrowed) and returns when
// it is complete or stopped. After STATUS_IO or STATUS_DEVICE_FAULT it cannot answer again.
struct chat_source {
    void *state;
    enum status (*answer)(void *state, json_t *messages, const struct chat_params *params,
                          struct chat_answer *out, struct error *err);
};

// The parts of an answer that are printed differently.
enum chat_part { CHAT_ANSWER, CHAT_REASONING, CHAT_PARTS };
// Prints a piece of an answer. Answers go to stdout; reasoning goes to stdout (dim) if that is a
// terminal, else to stderr. On a terminal, characters other than line ends and tabs that could
// control it are escaped. Returns IO if stdout cannot be written. Call chat_show_open before the
// first piece.
enum status chat_show(enum chat_part part, struct text piece, struct error *err) MUST_USE;
void chat_show_open(void);
void chat_show_end(void); // call after each answer

// Ctrl-C and signals that end the process. Before interrupt_open, Ctrl-C ends the process; after
// it, Ctrl-C is reported by interrupt_poll. SIGTERM, SIGHUP and SIGQUIT are reported by
// interrupt_poll and interrupt_ends from then on: the caller that sees one returns to main, which
// calls interrupt_end. A second of these signals more than 100 ms after the first ends the process
// immediately. Both ways restore the terminal.
enum status interrupt_open(struct error *err) MUST_USE;
int interrupt_descriptor(void); // readable if one is pending; -1: not opened
bool interrupt_poll(void); // true if Ctrl-C came since the last call, or a signal ends the process
bool interrupt_ends(void); // true if a signal came that ends the process
void interrupt_end(void);  // ends the process by that signal; returns if there was none

// Reads the user's lines: with editing and history on a terminal, else unchanged.
struct chat_lines;
enum chat_line { CHAT_LINE, CHAT_END, CHAT_INTERRUPTED };
// Opens the input; also after an error, close *out. terminal: true if stdin and stdout are a
// terminal. history: file that stores the lines, or NULL; read and written on a terminal only.
enum status chat_lines_open(struct chat_lines **out, bool terminal, const char *history,
                            struct error *err) MUST_USE;
// Reads the next line without its line end into *out, valid until the next call. prompt: shown on a
// terminal. CHAT_INTERRUPTED: Ctrl-C, or a signal that ends the process. *out is set by CHAT_LINE
// only.
enum chat_line chat_lines_next(struct chat_lines *lines, const char *prompt, struct text *out);
void chat_lines_close(struct chat_lines *lines); // NULL is allowed

// A server with OpenAI's chat completions API.
struct chat_remote;
struct chat_remote_args {
    const char *url, *key; // key: NULL: none
    const char *model;     // NULL: the first model that the server lists
    uint32_t silence_s;    // seconds without text after which an answer is abandoned; 0: no limit
};
// Connects to the server; also after an error, close *out.
enum status chat_remote_open(struct chat_remote **out, const struct chat_remote_args *args,
                             struct error *err) MUST_USE;
const char *chat_remote_model(const struct chat_remote *remote);
// `answer` of a struct chat_source whose state is the remote.
enum status chat_remote_answer(void *remote, json_t *messages, const struct chat_params *params,
                               struct chat_answer *out, struct error *err) MUST_USE;
void chat_remote_close(struct chat_remote *remote); // NULL is allowed
