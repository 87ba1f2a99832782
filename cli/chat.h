// What the files of `weft chat` share: the two that answer (a model of this process, a server), the
// reading of lines, Ctrl-C. Everything runs on the main thread.
#pragma once

#include "cli/command.h"

struct chat_params {
    double temperature, top_p; // -1: not said
    uint32_t top_k, max_tokens;
    int64_t seed; // -1: random
};

// One answer. All zero before; text is the caller's to free.
struct chat_answer {
    struct json_buffer text; // without reasoning
    uint32_t tokens;
    uint64_t begun_ns, first_ns, ended_ns; // first_ns 0: nothing came
    bool stopped;                          // by Ctrl-C
    bool cut;                              // by max-tokens or the context
};

// Where the answers come from. STATUS_IO and STATUS_DEVICE_FAULT: it cannot be asked again.
struct chat_source {
    void *state;
    enum status (*answer)(void *state, json_t *messages, const struct chat_params *params,
                          struct chat_answer *out, struct error *err);
};

// What answers are made of.
enum chat_part { CHAT_ANSWER, CHAT_REASONING, CHAT_PARTS };
// Prints a piece: an answer to stdout, reasoning to stdout, dim, where that is a terminal, else to
// stderr. On a terminal it is made safe for it, line ends and tabs kept. To be opened before.
enum status chat_show(enum chat_part part, struct text piece, struct error *err) MUST_USE;
void chat_show_open(void);
void chat_show_end(void); // an answer is over

// Ctrl-C: before interrupt_open it ends the process, then it is told. So are SIGTERM, SIGHUP and
// SIGQUIT, which stay there to be taken: whoever learns of one goes back, and interrupt_end ends
// the process by it. A second one, later than 100 ms, ends it at once; the terminal is put right
// then, too.
enum status interrupt_open(struct error *err) MUST_USE;
int interrupt_descriptor(void); // readable while one was not taken; -1: not opened
bool interrupt_take(void);      // whether one came since the last call
bool interrupt_ends(void);      // whether one came that ends the process
void interrupt_end(void);       // returns where none did

// Lines: edited, with history, on a terminal; else as they come.
struct chat_lines;
enum chat_line { CHAT_LINE, CHAT_END, CHAT_INTERRUPTED };
// history: a file, or NULL.
enum status chat_lines_open(struct chat_lines **out, bool terminal, const char *history,
                            struct error *err) MUST_USE;
// The text, without its line end, lives until the next call.
enum chat_line chat_lines_next(struct chat_lines *lines, const char *prompt, struct text *out);
void chat_lines_close(struct chat_lines *lines); // NULL is allowed

// A server with OpenAI's chat completions.
struct chat_remote;
struct chat_remote_args {
    const char *url, *key; // key: NULL: none
    const char *model;     // NULL: the first that the server lists
    uint32_t silence_s;    // without text for so long an answer is given up; 0: never
};
enum status chat_remote_open(struct chat_remote **out, const struct chat_remote_args *args,
                             struct error *err) MUST_USE;
const char *chat_remote_model(const struct chat_remote *remote);
enum status chat_remote_answer(void *remote, json_t *messages, const struct chat_params *params,
                               struct chat_answer *out, struct error *err) MUST_USE;
void chat_remote_close(struct chat_remote *remote); // NULL is allowed
