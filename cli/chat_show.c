// How `weft chat` prints answers; see chat.h. What is open on the screen (reasoning, an answer,
// nothing) is kept here, of the one conversation of the process.
#include "cli/chat.h"

#include <string.h>
#include <unistd.h>

// A stream that parts of answers go to.
struct shown {
    FILE *to;
    bool dim; // a terminal that can print dim
};

static struct shown parts[CHAT_PARTS];
static bool together;                    // both are printed to one terminal
static enum chat_part open = CHAT_PARTS; // CHAT_PARTS: none

void chat_show_open(void)
{
    together = isatty(STDOUT_FILENO);
    for (int i = 0; i < CHAT_PARTS; i++) {
        FILE *to = i == CHAT_ANSWER || together ? stdout : stderr;
        parts[i] = (struct shown){to, options_colour(fileno(to))};
    }
    open = CHAT_PARTS;
}

// Where nothing can be dim words say what is reasoning and what is not.
static void part_begin(enum chat_part part, enum chat_part before)
{
    const struct shown *s = &parts[part];
    if (part == CHAT_REASONING)
        fputs(s->dim ? "\x1b[2m" : "[reasoning] ", s->to);
    else if (before == CHAT_REASONING && together && !s->dim)
        fputs("[answer] ", s->to);
}

// The next part begins in a line of its own; an answer in a pipe gets nothing in between.
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
