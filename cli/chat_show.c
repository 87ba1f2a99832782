// SPDX-License-Identifier: Apache-2.0
// Prints the answers of `weft chat`; see chat.h. The static variables hold the part that is on the
// screen (reasoning, an answer, nothing) of the only conversation of the process. Main thread.
#include "cli/chat.h"

#include <string.h>
#include <unistd.h>

// The output of one part of an answer.
struct shown {
    FILE *to;
    bool dim; // true if it is a terminal that can print dim text
};

static struct shown parts[CHAT_PARTS];
static bool together;                    // true if both parts go to the same terminal
static enum chat_part open = CHAT_PARTS; // the part printed last; CHAT_PARTS: none

void chat_show_open(void)
{
    together = isatty(STDOUT_FILENO);
    for (int i = 0; i < CHAT_PARTS; i++) {
        FILE *to = i == CHAT_ANSWER || together ? stdout : stderr;
        parts[i] = (struct shown){to, options_colour(fileno(to))};
    }
    open = CHAT_PARTS;
}

// Begins a part. If dim text is not possible, a word marks where reasoning and the answer begin.
static void part_begin(enum chat_part part, enum chat_part before)
{
    const struct shown *s = &parts[part];
    if (part == CHAT_REASONING)
        fputs(s->dim ? "\x1b[2m" : "[reasoning] ", s->to);
    else if (before == CHAT_REASONING && together && !s->dim)
        fputs("[answer] ", s->to);
}

// Ends the open part, so that the next one begins on a new line; an answer in a pipe gets a line
// end only if it is the last part.
static void part_end(bool last)
{
    if (open == CHAT_REASONING)
        fputs(!parts[open].dim    ? "\n"
              : together && !last ? "\x1b[0m\n\n"
                                  : "\x1b[0m\n",
              parts[open].to);
    else if (open == CHAT_ANSWER && (together || last))
        putchar('\n');
}

enum status chat_show(enum chat_part part, struct text piece, struct error *err)
{
    const struct shown *s = &parts[part];
    if (part != open) {
        enum chat_part before = open;
        part_end(false);
        part_begin(part, before);
        open = part;
    }
    output_text(s->to, piece);
    return output_flush(err);
}

void chat_show_end(void)
{
    part_end(true);
    open = CHAT_PARTS;
}
