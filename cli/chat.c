// SPDX-License-Identifier: Apache-2.0
// weft chat: a conversation in the terminal, with a model of this process or with a server. A line
// that begins with / is a command; every other line is a message that is answered. Main thread.
#include "cli/chat.h"
#include "cli/continuation.h"
#include "cli/near.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 64 << 20 };

struct chat_settings {
    const char *url, *api_key, *system, *history;
    uint32_t timeout;
};

struct chat {
    const struct chat_settings *settings;
    struct chat_source source;
    struct chat_params params;
    json_t *messages; // messages without the system message
    json_t *system;   // string with the system message, or NULL
    // string with the path that the conversation was last saved to or loaded from; NULL: none
    json_t *file;
    struct arena *line_arena; // memory for one line and its answer
    struct session *session;
    struct chat_answer last;
    bool terminal, speed; // speed: true: print the speed after each answer
    bool ended;
};

#define AT(field) offsetof(struct chat_settings, field)
static const struct option_row chat_rows[] = {
    OPTION_ROW("url", OPTION_TEXT, AT(url), "none",
               "chat with the server at this address, over OpenAI's chat completions API; "
               "MODEL is then the name of one of its models"),
    OPTION_ROW("api-key", OPTION_TEXT, AT(api_key), "OPENAI_API_KEY of the environment",
               "API key for the server of --url"),
    OPTION_ROW("system", OPTION_TEXT, AT(system), "none", "system message"),
    OPTION_ROW("history", OPTION_TEXT, AT(history), "none: lines are not stored",
               "file that stores the lines typed at a terminal"),
    OPTION_NUMBER("timeout", OPTION_COUNT, AT(timeout), 0, 1e9, "600",
                  "seconds without text after which an answer is abandoned; 0: no limit"),
};
#undef AT

static const struct option_row params_rows[] = {
    GENERATION_ROWS(struct chat_params, "the model's, else 0.7 or a server's own",
                    "the model's, else 0.95 or a server's own"),
};
static const struct option_table params_table = {params_rows,
                                                 sizeof params_rows / sizeof *params_rows};

static enum status chat_piece_show(void *context, bool reasoning, struct text piece,
                                   struct error *err)
{
    (void)context;
    return chat_show(reasoning ? CHAT_REASONING : CHAT_ANSWER, piece, err);
}

static bool chat_stop_poll(void *context)
{
    struct chat_answer *answer = context;
    answer->stopped |= interrupt_poll();
    return answer->stopped;
}

static float or_else(double value, double fallback)
{
    return (float)(isnan(value) ? fallback : value);
}

// Answers with the model of this process; for chat_source. A parameter that is not set has the
// value that the model recommends.
static enum status session_answer(void *state, json_t *messages, const struct chat_params *params,
                                  struct chat_answer *out, struct error *err)
{
    struct chat *chat = state;
    uint64_t seed = params->seed == -1 ? random_seed() : (uint64_t)params->seed;
    const struct model_defaults *own = &chat->session->model->plan->facts.recommended;
    double temperature = params->temperature >= 0 ? params->temperature : own->temperature;
    double top_p = params->top_p >= 0 ? params->top_p : own->top_p;
    double top_k = params->top_k > 0 ? params->top_k : own->top_k;
    struct submit_args submit = {.kind = REQUEST_GENERATE,
                                 .sequence_count = 1,
                                 .choice_count = 1,
                                 .sampling = {.seed = seed,
                                              .temperature = or_else(temperature, 0.7),
                                              .top_p = or_else(top_p, 0.95),
                                              .top_k = top_k > 0 ? (uint32_t)top_k : 0,
                                              .min_p = or_else(own->min_p, 0),
                                              .repetition = or_else(own->repetition_penalty, 1)}};
    out->begun_ns = clock_ns();
    enum status status =
        conversation_encode(chat->session, messages, chat->line_arena, &submit, err);
    if (status == STATUS_OK)
        status = prompt_bounds(chat->session, &submit, params->max_tokens, err);
    if (status != STATUS_OK)
        return status;
    uint32_t start[2] = {0, submit.token_count};
    submit.sequence_start = start;
    struct continuation made = {0};
    struct continue_args args = {.submit = &submit,
                                 .show = chat_piece_show,
                                 .stop = chat_stop_poll,
                                 .context = out,
                                 .arena = chat->line_arena,
                                 .separate_reasoning = true};
    status = prompt_continue(chat->session, &args, &made, err);
    out->ended_ns = clock_ns();
    out->first_ns = made.first_ns;
    out->tokens = made.token_count;
    out->cut = made.finish == FINISH_LENGTH || made.finish == FINISH_CONTEXT;
    json_put_raw(&out->text, json_buffer_text(&made.text));
    continuation_end(&made);
    return status;
}

static enum status server_answer(void *state, json_t *messages, const struct chat_params *params,
                                 struct chat_answer *out, struct error *err)
{
    return chat_remote_answer(state, messages, params, out, err);
}

// Prints a line about the chat itself. It goes to stderr, so that a pipe receives only answers.
static void chat_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void chat_note(const char *format, ...)
{
    char line[LINE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    safe_format(line, sizeof line, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "%s\n", line);
}

static void speed_print(const struct chat_answer *answer)
{
    if (answer->first_ns == 0) {
        chat_note("there is no answer yet");
        return;
    }
    double seconds = (double)(answer->ended_ns - answer->first_ns) * 1e-9;
    double first = (double)(answer->first_ns - answer->begun_ns) * 1e-9;
    if (answer->tokens > 1 && seconds > 0)
        chat_note("[%u tokens, %.1f tokens per second, the first after %.2f s]", answer->tokens,
                  (double)(answer->tokens - 1) / seconds, first);
    else
        chat_note("[%u tokens, the first after %.2f s]", answer->tokens, first);
}

// Returns the system message and all messages, as a new reference.
static json_t *conversation_messages(const struct chat *chat)
{
    json_t *all = json_array();
    if (chat->system)
        message_add(all, "system",
                    text_span(json_string_value(chat->system), json_string_length(chat->system)));
    json_array_extend(all, chat->messages);
    return all;
}

// Sends a message and shows the answer. If there is no answer, the message is removed again.
static enum status message_answer(struct chat *chat, const char *question, struct error *err)
{
    struct chat_answer answer = {0};
    size_t before = json_array_size(chat->messages);
    message_add(chat->messages, "user", text_of(question));
    json_t *all = conversation_messages(chat);
    interrupt_poll(); // discards an earlier Ctrl-C
    enum status status = chat->source.answer(chat->source.state, all, &chat->params, &answer, err);
    json_decref(all);
    chat_show_end();
    bool empty = answer.text.bytes == 0;
    if (status == STATUS_OK && !empty)
        message_add(chat->messages, "assistant", json_buffer_text(&answer.text));
    else
        json_array_remove(chat->messages, before);
    json_buffer_free(&answer.text);
    answer.text = (struct json_buffer){0};
    chat->last = answer;
    if (status == STATUS_OK && answer.stopped)
        chat_note("[stopped]");
    else if (status == STATUS_OK && empty)
        chat_note("[the answer has no text: the message and the answer are dropped]");
    if (status == STATUS_OK && answer.cut)
        chat_note("[cut: the answer reached max-tokens or the end of the context]");
    if (status == STATUS_OK && chat->speed)
        speed_print(&answer);
    arena_reset(chat->line_arena);
    return status == STATUS_OK ? output_flush(err) : status;
}

// The commands. text: the rest of the line after the name, without surrounding blanks.
static enum status do_help(struct chat *chat, const char *text, struct error *err);

static enum status do_quit(struct chat *chat, const char *text, struct error *err)
{
    (void)text, (void)err;
    chat->ended = true;
    return STATUS_OK;
}

// Remembers which file contains the conversation; NULL: none.
static void file_remember(struct chat *chat, const char *path)
{
    json_decref(chat->file);
    chat->file = path ? json_string(path) : NULL;
}

static enum status do_clear(struct chat *chat, const char *text, struct error *err)
{
    (void)text, (void)err;
    json_array_clear(chat->messages);
    file_remember(chat, NULL);
    chat_note("the conversation is cleared%s", chat->system ? ", the system message is kept" : "");
    return STATUS_OK;
}

static enum status do_system(struct chat *chat, const char *text, struct error *err)
{
    (void)err;
    if (*text == '\0') {
        chat_note("system message: %s", chat->system ? json_string_value(chat->system) : "none");
        return STATUS_OK;
    }
    json_decref(chat->system);
    chat->system = strcmp(text, "-") == 0 ? NULL : json_string(text);
    chat_note("the system message is %s", chat->system ? "set" : "removed");
    return STATUS_OK;
}

static void params_print(const struct chat_params *p)
{
    char temperature[32] = "default", top_p[32] = "default", seed[32] = "random";
    char top_k[32] = "off", max_tokens[32] = "unlimited";
    if (p->temperature >= 0)
        snprintf(temperature, sizeof temperature, "%.6g", p->temperature);
    if (p->top_p >= 0)
        snprintf(top_p, sizeof top_p, "%.6g", p->top_p);
    if (p->seed != -1)
        snprintf(seed, sizeof seed, "%lld", (long long)p->seed);
    if (p->top_k > 0)
        snprintf(top_k, sizeof top_k, "%u", p->top_k);
    if (p->max_tokens > 0)
        snprintf(max_tokens, sizeof max_tokens, "%u", p->max_tokens);
    chat_note("temperature=%s top-p=%s top-k=%s max-tokens=%s seed=%s", temperature, top_p, top_k,
              max_tokens, seed);
}

static enum status param_refuse(const char *name, struct error *err)
{
    char names[256] = "";
    struct near near = {.given = name};
    option_near(&near, &params_table);
    for (uint32_t i = 0; i < params_table.count; i++)
        strcat(strcat(names, i > 0 ? ", " : ""), params_table.rows[i].name);
    return error_set(err, STATUS_INVALID, "there is no parameter '%s'%s (the parameters are %s)",
                     name, near_text(&near, "").at, names);
}

// Sets one parameter. word: NAME=VALUE.
static enum status param_set(struct chat *chat, char *word, struct error *err)
{
    char *value = strchr(word, '=');
    if (value)
        *value++ = '\0';
    for (char *at = strchr(word, '_'); at; at = strchr(at, '_'))
        *at = '-'; // accepts names as the API writes them
    if (!option_known(&params_table, word))
        return param_refuse(word, err);
    struct error why;
    if (option_assign(&params_table, &chat->params, word, value, chat->line_arena, &why) ==
        STATUS_OK)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s (/params temperature=0.2 top-p=1)", why.text);
}

// Sets parameters until the first error; those before it stay set.
static enum status do_params(struct chat *chat, const char *text, struct error *err)
{
    while (*text != '\0') {
        size_t bytes = strcspn(text, " ");
        char word[128];
        snprintf(word, sizeof word, "%.*s", (int)bytes, text);
        enum status status = param_set(chat, word, err);
        if (status != STATUS_OK)
            return status;
        text += bytes + strspn(text + bytes, " ");
    }
    params_print(&chat->params);
    return STATUS_OK;
}

static enum status do_speed(struct chat *chat, const char *text, struct error *err)
{
    bool on = strcmp(text, "on") == 0, off = strcmp(text, "off") == 0;
    if (on || off)
        chat->speed = on;
    else if (*text == '\0')
        speed_print(&chat->last);
    else
        return error_set(err, STATUS_INVALID,
                         "/speed prints the speed of the last answer, /speed on prints it after "
                         "each answer, /speed off stops that");
    return STATUS_OK;
}

// Writes and closes the file. Returns 0 or an errno value.
static int stream_write(FILE *file, const json_t *content)
{
    errno = 0;
    bool wrote = json_dumpf(content, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF;
    int why = wrote ? 0 : errno;
    if (fclose(file) == 0 || !wrote)
        return wrote ? 0 : why != 0 ? why : EIO;
    return errno;
}

// Writes a regular file under a temporary name in the same folder and renames it, so that a full
// disk loses nothing. Other files, such as pipes and devices, are written in place; a pipe without
// a reader is an error. Returns 0 or an errno value.
static int file_write(const char *path, const json_t *content)
{
    char temporary[PATH_MAX];
    struct stat is;
    int bytes = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    bool there = lstat(path, &is) == 0;
    if (bytes >= (int)sizeof temporary)
        return ENAMETOOLONG;
    if (there && access(path, W_OK) != 0)
        return errno;
    bool renamed = !there || S_ISREG(is.st_mode);
    int fd = renamed ? mkostemp(temporary, O_CLOEXEC)
                     : open(path, O_WRONLY | O_TRUNC | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (!renamed)
        fcntl(fd, F_SETFL, 0);
    else if (there)
        fchmod(fd, is.st_mode & 0777);
    FILE *file = fdopen(fd, "w");
    check(file, "no memory for the file %s", path);
    int why = stream_write(file, content);
    if (!renamed)
        return why;
    if (why == 0 && rename(temporary, path) != 0)
        why = errno;
    if (why != 0)
        unlink(temporary);
    return why;
}

static const char *write_advice(int why)
{
    switch (why) {
    case ENOENT:
    case ENOTDIR:
        return ": create its folder first";
    case EISDIR:
        return ": name a file in this folder";
    case ENOSPC:
    case EDQUOT:
        return ": free some space, or name a file on another disk";
    case ENXIO:
        return ": no process reads the pipe";
    case EACCES:
    case EPERM:
    case EROFS:
        return ": name a file where you may write";
    default:
        return "";
    }
}

// Returns true if the path is a non-empty regular file that contains something other than this
// conversation, so that writing would lose it.
static bool is_foreign(const struct chat *chat, const char *path)
{
    struct stat is;
    bool own = chat->file && strcmp(json_string_value(chat->file), path) == 0;
    return !own && stat(path, &is) == 0 && S_ISREG(is.st_mode) && is.st_size > 0;
}

static enum status conversation_save(struct chat *chat, const char *path, struct error *err)
{
    json_t *all = json_pack("{s:o}", "messages", conversation_messages(chat));
    size_t count = json_array_size(json_object_get(all, "messages"));
    int why = file_write(path, all);
    json_decref(all);
    if (why != 0)
        return error_set(err, STATUS_INVALID, "%zu messages cannot be written to %s: %s%s", count,
                         path, strerror(why), write_advice(why));
    chat_note("%zu messages are in %s", count, path);
    file_remember(chat, path);
    return STATUS_OK;
}

static enum status do_save(struct chat *chat, const char *text, struct error *err)
{
    if (*text == '\0')
        return error_set(err, STATUS_INVALID, "/save needs the name of a file");
    if (is_foreign(chat, text))
        return error_set(err, STATUS_INVALID,
                         "%s exists and contains something else: /save! %s replaces it", text,
                         text);
    return conversation_save(chat, text, err);
}

static enum status do_save_over(struct chat *chat, const char *text, struct error *err)
{
    if (*text == '\0')
        return error_set(err, STATUS_INVALID, "/save! needs the name of a file");
    return conversation_save(chat, text, err);
}

static bool message_is_known(const json_t *message, size_t index)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    bool turn = role && (strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0);
    bool first = role && index == 0 && strcmp(role, "system") == 0;
    return (turn || first) && json_is_string(content);
}

// Replaces the conversation by `all`, the messages of the file at `path`.
static void conversation_replace(struct chat *chat, json_t *all, const char *path)
{
    json_t *first = json_array_get(all, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    json_decref(chat->system);
    chat->system = NULL;
    if (role && strcmp(role, "system") == 0) {
        chat->system = json_incref(json_object_get(first, "content"));
        json_array_remove(all, 0);
    }
    json_decref(chat->messages);
    chat->messages = json_incref(all);
    file_remember(chat, path);
    chat_note("%zu messages are loaded", json_array_size(all));
}

static enum status do_load(struct chat *chat, const char *text, struct error *err)
{
    json_t *file = NULL;
    if (*text == '\0')
        return error_set(err, STATUS_INVALID, "/load needs the name of a file");
    enum status status = json_file_parse(&file, text, FILE_BYTES_MAX, err);
    if (status != STATUS_OK)
        return status;
    json_t *found = json_object_get(file, "messages");
    json_t *all = json_copy(json_is_array(file) ? file : found), *message;
    size_t i;
    bool known = json_is_array(all);
    json_array_foreach(all, i, message) known &= message_is_known(message, i);
    if (known)
        conversation_replace(chat, all, text);
    else
        status = error_set(err, STATUS_INVALID,
                           "%s is not a conversation: it must be {\"messages\": [...]} with texts "
                           "of user and assistant, and of system only at the start",
                           text);
    json_decref(all);
    json_decref(file);
    return status;
}

static const struct chat_command {
    const char *name, *arguments, *help;
    enum status (*run)(struct chat *chat, const char *text, struct error *err);
} commands[] = {
    {"help", "", "prints this list", do_help},
    {"system", "[TEXT|-]", "shows, sets or (-) removes the system message", do_system},
    {"params", "[NAME=VALUE ...]", "shows or sets the sampling parameters", do_params},
    {"save", "FILE", "writes the conversation as JSON", do_save},
    {"save!", "FILE", "writes the conversation, replacing an existing file", do_save_over},
    {"load", "FILE", "continues a saved conversation", do_load},
    {"clear", "", "clears the conversation", do_clear},
    {"speed", "[on|off]", "prints the speed of the last answer; on: after each answer", do_speed},
    {"quit", "", "ends the chat, like Ctrl-D", do_quit},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static enum status do_help(struct chat *chat, const char *text, struct error *err)
{
    (void)chat, (void)text, (void)err;
    for (int i = 0; i < COMMANDS; i++)
        chat_note("  /%-7s%-17s %s", commands[i].name, commands[i].arguments, commands[i].help);
    chat_note("  a line that ends with \\ continues on the next one; // begins a message with /; "
              "Ctrl-C stops an answer");
    return STATUS_OK;
}

static enum status command_do(struct chat *chat, const char *line, struct error *err)
{
    size_t bytes = strcspn(line, " ");
    const char *text = line + bytes + strspn(line + bytes, " ");
    for (int i = 0; i < COMMANDS; i++)
        if (strlen(commands[i].name) == bytes && memcmp(commands[i].name, line, bytes) == 0)
            return commands[i].run(chat, text, err);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)bytes, line);
    struct near near = {.given = name};
    for (int i = 0; i < COMMANDS; i++)
        near_offer(&near, commands[i].name);
    return error_set(err, STATUS_NOT_FOUND, "there is no command /%.*s%s: /help lists the commands",
                     (int)bytes, line, near_text(&near, "/").at);
}

// Reads one message or command, which may continue over several lines; it is allocated in
// chat->line_arena.
static enum chat_line message_read(struct chat *chat, struct chat_lines *lines, struct text *out)
{
    struct arena_text all = {0};
    struct text line;
    enum chat_line came = chat_lines_next(lines, "> ", &line);
    while (came == CHAT_LINE && line.bytes > 0 && line.at[line.bytes - 1] == '\\') {
        arena_text_add(chat->line_arena, &all, text_span(line.at, line.bytes - 1));
        arena_text_add(chat->line_arena, &all, text_of("\n"));
        came = chat_lines_next(lines, "| ", &line);
    }
    if (came == CHAT_LINE)
        arena_text_add(chat->line_arena, &all, line);
    *out = arena_copy(chat->line_arena, text_trim(text_span(all.at, all.bytes)));
    return came == CHAT_END && all.bytes > 0 ? CHAT_LINE : came;
}

static enum status line_do(struct chat *chat, struct text line, struct error *err)
{
    if (line.bytes == 0)
        return STATUS_OK;
    enum status status = text_check("the line", line, err);
    if (status != STATUS_OK)
        return status;
    if (strlen(line.at) < line.bytes)
        return error_set(err, STATUS_INVALID, "the line contains a NUL byte");
    // STATUS_INVALID: a file error must not end the chat
    if (line.at[0] == '/' && line.at[1] != '/')
        return command_do(chat, line.at + 1, err) == STATUS_OK ? STATUS_OK : STATUS_INVALID;
    return message_answer(chat, line.at[0] == '/' ? line.at + 1 : line.at, err);
}

// Runs the chat. On a terminal an error is printed and the chat continues; in a pipe it ends the
// chat.
static enum status chat_loop(struct chat *chat, struct chat_lines *lines, struct error *err)
{
    enum status status = STATUS_OK;
    while (!chat->ended && !interrupt_ends()) {
        struct text line;
        enum chat_line came = message_read(chat, lines, &line);
        if (came == CHAT_END)
            break;
        if (came == CHAT_INTERRUPTED)
            continue;
        status = line_do(chat, line, err);
        arena_reset(chat->line_arena);
        bool fatal = status == STATUS_IO || status == STATUS_DEVICE_FAULT;
        if (status != STATUS_OK && (fatal || !chat->terminal))
            return status;
        if (status != STATUS_OK)
            chat_note("%s", err->text);
    }
    return STATUS_OK;
}

static enum status chat_run(struct chat *chat, const char *with, struct error *err)
{
    const struct chat_settings *settings = chat->settings;
    struct chat_lines *lines;
    chat->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    chat->messages = json_array();
    chat->system = settings->system ? json_string(settings->system) : NULL;
    chat->line_arena = arena_create(0, 0);
    chat_show_open();
    enum status status = chat_lines_open(&lines, chat->terminal, settings->history, err);
    if (status == STATUS_OK && chat->terminal) {
        status = interrupt_open(err);
        chat_note("%s answers. /help lists commands, Ctrl-C stops an answer, Ctrl-D ends.", with);
    }
    if (status == STATUS_OK)
        status = chat_loop(chat, lines, err);
    chat_lines_close(lines);
    json_decref(chat->messages);
    json_decref(chat->system);
    json_decref(chat->file);
    arena_destroy(chat->line_arena);
    return status;
}

static enum status key_line_check(const char *name, const char *key, struct error *err)
{
    bool line = !key || !strpbrk(key, "\r\n");
    return line ? STATUS_OK : error_set(err, STATUS_INVALID, "%s must be one line", name);
}

static enum status chat_server(struct chat *chat, const char *model, struct error *err)
{
    const struct chat_settings *settings = chat->settings;
    struct chat_remote *remote = NULL;
    struct chat_remote_args args = {settings->url, settings->api_key, model, settings->timeout};
    if (!args.key)
        args.key = options_environment_openai_key();
    enum status status = key_line_check("the key in OPENAI_API_KEY", args.key, err);
    if (status == STATUS_OK)
        status = chat_remote_open(&remote, &args, err);
    chat->source = (struct chat_source){remote, server_answer};
    if (status == STATUS_OK)
        status = chat_run(chat, chat_remote_model(remote), err);
    chat_remote_close(remote);
    return status;
}

// The body of a session_command: chats with the session's model.
static enum status chat_session(struct session *session, void *state, struct error *err)
{
    struct chat *chat = state;
    chat->session = session;
    chat->source = (struct chat_source){chat, session_answer};
    return chat_run(chat, session->model->spec.id, err);
}

// Checks the arguments that do not depend on the model or the server.
static enum status arguments_check(const struct chat_settings *s, bool model, struct error *err)
{
    const char *host = s->url ? strstr(s->url, "://") : NULL;
    bool web = host && host[3] != '\0' && host[3] != '/' &&
               (strncmp(s->url, "http://", 7) == 0 || strncmp(s->url, "https://", 8) == 0);
    if (!s->url && !model)
        return error_set(err, STATUS_INVALID,
                         "MODEL or --url is missing: give a model folder, or the address of a "
                         "server such as --url http://127.0.0.1:8000");
    if (s->url && !web)
        return error_set(err, STATUS_INVALID,
                         "--url must be an address such as http://127.0.0.1:8000");
    if (s->api_key && !s->url)
        return error_set(err, STATUS_INVALID, "--api-key needs --url");
    enum status status = key_line_check("--api-key", s->api_key, err);
    if (status != STATUS_OK)
        return status;
    return s->system ? text_check("--system", text_of(s->system), err) : STATUS_OK;
}

// Refuses options of device and model with --url: the server computes, so they would have no
// effect.
static enum status remote_options_check(const struct chat_settings *s, const struct texts *given,
                                        struct error *err)
{
    for (uint32_t i = 0; s->url && i < given->count; i++) {
        const char *name = given->at[i];
        bool log = strncmp(name, "log-", 4) == 0;
        bool here = option_known(&device_options_table, name) && !log;
        if (here || option_known(&session_options_table, name))
            return error_set(err, STATUS_INVALID, "--%s has no effect with --url", name);
    }
    return STATUS_OK;
}

int command_chat(const struct command *self, int argc, char **argv)
{
    struct chat_settings settings = {.timeout = 600};
    struct chat chat = {.settings = &settings,
                        .params = {.temperature = -1, .top_p = -1, .seed = -1}};
    const struct session_command with_session = {
        .kind = MODEL_GENERATOR, .settings = &chat, .body = chat_session};
    struct model_settings model;
    struct device_settings device;
    model_settings_init(&model);
    device_settings_init(&device);
    device.log_level = LOG_WARNING;
    const struct option_table tables[] = {{chat_rows, sizeof chat_rows / sizeof *chat_rows},
                                          params_table,
                                          device_options_table,
                                          session_options_table};
    void *const fields[] = {&settings, &chat.params, &device, &model};
    static const char *const titles[] = {"Chat:", "Generation:", "Device:", "Model:"};
    struct arena *arena = arena_create(0, 0);
    struct texts positional, options = {0};
    struct error err;
    struct command_parse parse = {self, argc, argv, tables, fields, titles, 4, 0, 1, &options};
    int code = command_parse(&parse, arena, &positional);
    const char *given = code < 0 && positional.count > 0 ? positional.at[0] : NULL;
    if (code < 0 && (arguments_check(&settings, given, &err) != STATUS_OK ||
                     remote_options_check(&settings, &options, &err) != STATUS_OK)) {
        safe_line(stderr, "weft chat: %s, usage: weft chat %s", err.text, self->usage);
        code = EXIT_CODE_USAGE;
    }
    log_level_set((enum log_level)device.log_level);
    log_format_set((enum log_format)device.log_format);
    // libedit needs UTF-8, set before threads start; numbers keep the C locale
    setlocale(LC_CTYPE, "C.UTF-8");
    if (code < 0 && !settings.url)
        code = session_run(&with_session, given, &model, &device);
    if (code < 0)
        code = chat_server(&chat, given, &err) == STATUS_OK ? EXIT_CODE_OK : command_failed(&err);
    interrupt_end();
    arena_destroy(arena);
    return code;
}
