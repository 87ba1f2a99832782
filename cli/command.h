// A command of the executable, and what all commands share: usage, exit codes, reading stdin, and a
// session that runs one model on the calling thread.
#pragma once

#include "cli/load.h"
#include "base/json.h"
#include "base/safe.h"

enum exit_code { EXIT_CODE_OK = 0, EXIT_CODE_FAILURE = 1, EXIT_CODE_USAGE = 2 };

struct command {
    const char *name;
    const char *usage;   // after "weft NAME "
    const char *summary; // one line
    const char *details; // for --help
    const char *extra;   // the error for an argument too many: where it belongs
    int (*run)(const struct command *self, int argc, char **argv);
};

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

// Parses the arguments of a command that takes positional_min..max positional ones. Returns -1 to
// go on, else the exit code (help or a usage error was printed).
struct command_parse {
    const struct command *self;
    int argc;
    char **argv;
    const struct option_table *tables;
    void *const *fields;
    const char *const *titles; // for --help, one a table
    uint32_t table_count;
    uint32_t positional_min, positional_max;
    struct texts *given; // names of the options that were set, or NULL
};
int command_parse(const struct command_parse *args, struct arena *arena, struct texts *positional);

// Prints "weft: TEXT" and returns EXIT_CODE_FAILURE.
int command_failed(const struct error *err);

// Reads all of stdin into the arena.
enum status stdin_read(struct text *out, struct arena *arena, struct error *err) MUST_USE;

// Flushes stdout; an error where the disk is full (where its reader has left, SIGPIPE ends the
// process). Commands that answer line by line call it after each line, so that they end when their
// reader does.
enum status output_flush(struct error *err) MUST_USE;
// Text of a model or a file: as it is, but for what could drive a terminal, on one.
void output_text(FILE *to, struct text out);

// The next line of stdin without its newline; false at the end. The text lives until the next call.
struct line_reader {
    char *at;
    size_t bytes_allocated;
};
bool line_next(struct line_reader *reader, struct text *out);
// Refuses text that is not UTF-8: the tokenizer would take it for something else.
enum status text_check(const char *what, struct text text, struct error *err) MUST_USE;
// Frees the buffer. Returns so_far, or an error where reading failed.
enum status line_reader_end(struct line_reader *reader, enum status so_far,
                            struct error *err) MUST_USE;

// One model that is computed on the calling thread, without a server.
struct session {
    struct loaded loaded;
    struct loaded_model *model;
    struct waker *waker;
    struct port *port;
    bool misnamed; // what names the model has a mistake of its own: wrong arguments
};
// Opens the device and plans the model; session_open loads it, too. session_close ends both, also
// after an error.
enum status session_plan(struct session *session, const char *folder,
                         const struct model_settings *model, const struct device_settings *device,
                         struct error *err) MUST_USE;
enum status session_open(struct session *session, const char *folder,
                         const struct model_settings *model, const struct device_settings *device,
                         struct error *err) MUST_USE;
void session_close(struct session *session);
int session_failed(const struct session *session, const struct error *err); // as command_failed

// A command that computes one model: parses options (own, device, model), opens a session for the
// model folder and runs the body.
struct session_command {
    const struct command *self;
    int argc;
    char **argv;
    struct option_table own; // count 0: none
    const char *own_title;
    void *settings;              // what `own` fills
    const char *const *required; // a text option that must be given, or NULL
    bool required_filled;        // it must not be empty
    const char *required_name;
    const char **second; // where a second positional argument goes, or NULL: there is none
    enum model_kind kind;
    // Refuses settings that are wrong whatever the model is, or NULL; the exit code is 2.
    enum status (*settings_check)(const void *settings, struct error *err);
    enum status (*body)(struct session *session, void *settings, struct error *err);
};
int session_command_run(const struct session_command *c);
// The second half of it, for a command that parses its options itself: kind, body and settings are
// used. Returns the exit code; where a device failed, the process ends with it, for a thread may
// hang there.
int session_run(const struct session_command *c, const char *folder,
                const struct model_settings *model, const struct device_settings *device);

// Refuses a model of another kind with a sentence that names the right command.
enum status session_kind(const struct session *session, enum model_kind kind,
                         struct error *err) MUST_USE;

// Refuses tokens that the model does not know.
enum status session_tokens_check(const struct session *session, const int32_t *tokens,
                                 uint32_t count, struct error *err) MUST_USE;

enum status session_submit(struct session *session, const struct submit_args *args,
                           struct request **out, struct error *err) MUST_USE;
// One event of the request, or one step of the engine where there is none yet.
enum status session_poll(struct session *session, struct request *request, struct token_event *out,
                         bool *came, struct error *err) MUST_USE;
// Steps the engine until the request has an event.
enum status session_next(struct session *session, struct request *request, struct token_event *out,
                         struct error *err) MUST_USE;
// Submits one sequence to be pooled and waits for its values; an error where one is not finite. The
// caller ends the request with port_free.
enum status session_pool(struct session *session, const struct submit_args *args, uint32_t width,
                         struct request **out, struct error *err) MUST_USE;
