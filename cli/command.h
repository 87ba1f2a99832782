// SPDX-License-Identifier: Apache-2.0
// The commands of the executable, and what they share: usage, exit codes, reading stdin, and a
// session that runs one model on the calling thread. Main thread.
#pragma once

#include "cli/load.h"
#include "base/json.h"
#include "base/safe.h"

enum exit_code { EXIT_CODE_OK = 0, EXIT_CODE_FAILURE = 1, EXIT_CODE_USAGE = 2 };

struct command {
    const char *name;
    const char *usage;   // arguments, printed after "weft NAME "
    const char *summary; // one line
    const char *details; // further lines for --help; may be empty
    const char *extra;   // hint for the error about an extra argument
    int (*run)(const struct command *self, int argc, char **argv);
};

int command_bench(const struct command *self, int argc, char **argv);
int command_serve(const struct command *self, int argc, char **argv);
int command_generate(const struct command *self, int argc, char **argv);
int command_tokenize(const struct command *self, int argc, char **argv);
int command_detokenize(const struct command *self, int argc, char **argv);
int command_render(const struct command *self, int argc, char **argv);
int command_embed(const struct command *self, int argc, char **argv);
int command_rerank(const struct command *self, int argc, char **argv);
int command_perplexity(const struct command *self, int argc, char **argv);
int command_inspect(const struct command *self, int argc, char **argv);
int command_chat(const struct command *self, int argc, char **argv);
int command_pull(const struct command *self, int argc, char **argv);
int command_list(const struct command *self, int argc, char **argv);
int command_rm(const struct command *self, int argc, char **argv);

struct command_parse {
    const struct command *self;
    int argc;
    char **argv;
    const struct option_table *tables;
    void *const *fields;
    const char *const *titles; // headings for --help, one per table
    uint32_t table_count;
    uint32_t positional_min, positional_max;
    struct texts *given; // receives the names of the options that were set; may be NULL
};
// Parses the arguments of a command that expects positional_min to positional_max positional ones,
// and stores those in *positional. Returns -1 to continue, else the exit code, after printing help
// or a usage error.
int command_parse(const struct command_parse *args, struct arena *arena, struct texts *positional);

// Prints "weft: TEXT" on stderr and returns EXIT_CODE_FAILURE.
int command_failed(const struct error *err);

// Reads all of stdin into the arena, without a NUL after it. IO if reading fails.
enum status stdin_read(struct text *out, struct arena *arena, struct error *err) MUST_USE;

// Flushes stdout; returns an error if the write failed, for example on a full disk. (If the reader
// of a pipe is gone, SIGPIPE ends the process.) Commands that answer line by line call it after
// each line, so that they end when their reader does.
enum status output_flush(struct error *err) MUST_USE;
// Writes text of a model or a file. On a terminal, characters that could control it are escaped;
// otherwise the text is unchanged.
void output_text(FILE *to, struct text out);

struct line_reader { // zeroed by the caller first
    char *at;
    size_t bytes_allocated;
};
// Reads the next line of stdin without its line end (\n or \r\n); returns false at the end and if
// reading fails (line_reader_end). The text is valid until the next call.
bool line_next(struct line_reader *reader, struct text *out);
// Returns INVALID if the text is not UTF-8, which the tokenizer would read as other text. what: the
// subject of the error sentence, such as "the prompt".
enum status text_check(const char *what, struct text text, struct error *err) MUST_USE;
// Frees the buffer. Returns so_far, or an error if reading stdin failed.
enum status line_reader_end(struct line_reader *reader, enum status so_far,
                            struct error *err) MUST_USE;

// One model that is computed on the calling thread, without a server.
struct session {
    struct loaded loaded;
    struct loaded_model *model;
    struct waker *waker;
    struct port *port;
    bool misnamed; // true if the model argument itself is wrong: a usage error
};
// session_plan opens the device, downloads the model if it is a name of the hub, and plans it;
// session_open also loads it. session_close frees all; call it also after an error. folder: the
// MODEL argument (model_spec_find).
enum status session_plan(struct session *session, const char *folder,
                         const struct model_settings *model, const struct device_settings *device,
                         struct error *err) MUST_USE;
enum status session_open(struct session *session, const char *folder,
                         const struct model_settings *model, const struct device_settings *device,
                         struct error *err) MUST_USE;
void session_close(struct session *session);
// Prints the error and returns the exit code: a usage error if misnamed, else failure.
int session_failed(const struct session *session, const struct error *err);

// A command that runs one model: parses its own options and those of device and model, opens a
// session for the model folder and runs the body.
struct session_command {
    const struct command *self;
    int argc;
    char **argv;
    struct option_table own; // count 0: none
    const char *own_title;
    void *settings;              // struct that `own` fills
    const char *const *required; // points to the value of a text option that is mandatory, or NULL
    bool required_filled;        // true: that value must not be empty
    const char *required_name;
    const char **second; // receives a second positional argument; NULL: there is none
    enum model_kind kind;
    // Checks settings before the model is opened; an error leads to exit code 2. May be NULL.
    enum status (*settings_check)(const void *settings, struct error *err);
    enum status (*body)(struct session *session, void *settings, struct error *err);
};
int session_command_run(const struct session_command *c);
// The second half of session_command_run, for a command that parses its options itself; uses only
// kind, body and settings. Returns the exit code. If a device failed, ends the process with that
// code instead, because a thread may hang in the device.
int session_run(const struct session_command *c, const char *folder,
                const struct model_settings *model, const struct device_settings *device);

// Returns an error that names the right command if the model is of another kind.
enum status session_kind(const struct session *session, enum model_kind kind,
                         struct error *err) MUST_USE;

// Returns an error if a token is not in the model's vocabulary.
enum status session_tokens_check(const struct session *session, const int32_t *tokens,
                                 uint32_t count, struct error *err) MUST_USE;

enum status session_submit(struct session *session, const struct submit_args *args,
                           struct request **out, struct error *err) MUST_USE;
// Reads one event of the request (*came true). If there is none yet, runs one step of the engine
// instead (*came false). Returns an error if the event is FINISH_ERROR.
enum status session_poll(struct session *session, struct request *request, struct token_event *out,
                         bool *came, struct error *err) MUST_USE;
// Steps the engine until the request has an event, and reads it.
enum status session_next(struct session *session, struct request *request, struct token_event *out,
                         struct error *err) MUST_USE;
// Submits one sequence for pooling and waits for its values, [width] f32; returns an error if one
// is not finite. If OK, the caller reads them with request_values and frees the request with
// port_free.
enum status session_pool(struct session *session, const struct submit_args *args, uint32_t width,
                         struct request **out, struct error *err) MUST_USE;
