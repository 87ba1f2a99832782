// SPDX-License-Identifier: Apache-2.0
// weft: the commands and their one-line summaries. Each command is a file in this folder.
#include "cli/command.h"
#include "cli/near.h"

#include <locale.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct command commands[] = {
    {"serve", "[NAME=]MODEL[,option=value]... [options]",
     "Serves models over HTTP: chat, messages, embeddings and rerank.",
     "MODEL is, here and in all commands, the name of a model of the Hugging Face hub, or\n"
     "the path of a folder or a GGUF file. A name is ORG/NAME, or ORG/NAME:QUANT for a GGUF\n"
     "file, either with @REVISION; it is downloaded if it is not in the cache. Options of one\n"
     "model follow it, separated by commas (a comma in a path is written '\\,'); the same\n"
     "options with -- apply to all models.",
     "at most 64 models are served", command_serve},
    {"chat", "[MODEL] [--url URL] [options]", "Chats in the terminal.",
     "A line that begins with / is a command: /help lists them. Ctrl-C stops an answer,\n"
     "Ctrl-D ends. With --url a server answers, and MODEL is the name of one of its models.\n"
     "Lines of a pipe are answered one after the other: answers go to stdout, reasoning to\n"
     "stderr.",
     "one model chats, and messages are typed", command_chat},
    {"generate", "MODEL --prompt TEXT [options]", "Continues one prompt.", "",
     "the prompt is given with --prompt TEXT", command_generate},
    {"embed", "MODEL [options]", "Embeds texts: one per line of stdin, one JSON array each.", "",
     "texts come on stdin, one a line", command_embed},
    {"rerank", "MODEL --query Q [--top-n N] [options]",
     "Scores documents, one per line of stdin, against a query.",
     "Prints one JSON object for each, in input order; sorted by score with --top-n.",
     "documents come on stdin, one a line", command_rerank},
    {"tokenize", "MODEL [--plain] [--no-special]",
     "Reads text from stdin, prints its token ids as one JSON array.", "",
     "the text comes on stdin", command_tokenize},
    {"detokenize", "MODEL [--no-special]",
     "Reads a JSON array of token ids from stdin, prints the text.", "", "the ids come on stdin",
     command_detokenize},
    {"render", "MODEL | --template FILE [--now TIME]",
     "Reads a JSON object (messages, tools, ...) from stdin, prints the prompt.",
     "If the template refuses the object, its message goes to stderr and the exit code is 1.",
     "the request comes on stdin", command_render},
    {"perplexity", "MODEL FILE [options]",
     "Measures how well a model predicts a text, for example what a --dtype costs.",
     "FILE is UTF-8 text, - for stdin. Windows overlap where --stride is less than --window;\n"
     "compare only figures of equal windows and strides.",
     "there is one text, FILE or - for stdin", command_perplexity},
    {"bench", "URL [options] | compare A.json B.json [options] | --model FOLDER [options]",
     "Measures a server, or a model without one: throughput, latencies, errors.",
     "URL is the server's address, such as http://127.0.0.1:8000. compare reads two files of "
     "--output. Without a URL, the model in a folder is measured without a server.\n"
     "Exit code 1: a request failed.",
     "one server is measured", command_bench},
    {"inspect", "MODEL [options]",
     "Shows the content of a model folder or a GGUF file and the memory that serving it needs.",
     "Each tensor is listed with -v.", "one model is inspected at a time", command_inspect},
    {"pull", "ORG/NAME[:QUANT][@REVISION]... [options]",
     "Downloads models of the hub, or newer revisions of them, and prints their paths.", "",
     "at most 64 models are fetched", command_pull},
    {"list", "[options]", "Lists the models in the hub's cache.",
     "A model that weft does not run is listed with the reason.", "it has only options",
     command_list},
    {"rm", "ORG/NAME[:QUANT][@REVISION]... [options]", "Removes models from the hub's cache.",
     "Without :QUANT and @REVISION all of the repository is removed.",
     "at most 64 models are removed", command_rm},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void usage_print(FILE *out)
{
    fputs("weft " WEFT_VERSION ": an inference backend. usage: weft COMMAND ...\n\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-11s %s\n", commands[i].name, commands[i].summary);
    fputs("\n'weft help COMMAND' lists the options of a command.\n", out);
}

static const struct command *command_find(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

// Flushes stdout: a command whose output could not be written has failed.
static int output_end(int code)
{
    struct error err;
    if (code != EXIT_CODE_OK || output_flush(&err) == STATUS_OK)
        return code;
    return command_failed(&err);
}

static void on_reader_gone(int signal)
{
    (void)signal;
    _exit(EXIT_CODE_OK);
}

// Returns true if the output is text to read, whose reader may leave early (| head).
static bool output_is_text(int argc, char **argv)
{
    return argc > 1 && (argv[1][0] == '-' || strcmp(argv[1], "help") == 0 ||
                        strcmp(argv[1], "inspect") == 0 || strcmp(argv[1], "list") == 0);
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C"); // number formats must not depend on the locale
    // If the reader of the output leaves, a server continues and other commands end.
    bool serves = argc > 1 && strcmp(argv[1], "serve") == 0;
    signal(SIGPIPE, serves ? SIG_IGN : output_is_text(argc, argv) ? on_reader_gone : SIG_DFL);
    signal(SIGXFSZ, SIG_IGN); // a file over the limit of the process is an error of write
    if (argc < 2) {
        usage_print(stderr);
        return EXIT_CODE_USAGE;
    }
    bool help = strcmp(argv[1], "help") == 0;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || (help && argc == 2)) {
        usage_print(stdout);
        return output_end(EXIT_CODE_OK);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        puts("weft " WEFT_VERSION);
        return output_end(EXIT_CODE_OK);
    }
    const struct command *command = command_find(argv[help ? 2 : 1]);
    if (command && help && argc > 3) {
        safe_line(stderr, "weft help: '%s' is an argument too many: give one command", argv[3]);
        return EXIT_CODE_USAGE;
    }
    if (command && help)
        return output_end(command->run(command, 1, (char *[]){"--help", NULL}));
    if (command) {
        int code = command->run(command, argc - 2, argv + 2);
        // A server does not fail if the reader of its start screen has left.
        return command->run == command_serve ? code : output_end(code);
    }
    struct near near = {.given = argv[help ? 2 : 1]};
    for (int i = 0; i < COMMAND_COUNT; i++)
        near_offer(&near, commands[i].name);
    safe_line(stderr, "weft: there is no command '%s'%s (see weft --help)", near.given,
              near_text(&near, "").at);
    return EXIT_CODE_USAGE;
}
