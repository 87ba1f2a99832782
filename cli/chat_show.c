// How `weft chat` prints answers; see chat.h. What is open on the screen (reasoning, an answer,
// nothing) is kept here, of the one conversation of the process.
#include "cli/chat.h"

#include "base/utf8.h"

#include <string.h>
#include <unistd.h>

// A stream that parts of answers go to.
struct shown {
    FILE *to;
    bool safe; // it is a terminal
    bool dim;  // one that can print dim
};

static struct shown parts[CHAT_PARTS];
static bool together;                    // both are printed to one terminal
static enum chat_part open = CHAT_PARTS; // CHAT_PARTS: none

void chat_show_open(void)
{
    together = isatty(STDOUT_FILENO);
    for (int i = 0; i < CHAT_PARTS; i++) {
        FILE *to = i == CHAT_ANSWER || together ? stdout : stderr;
        parts[i] = (struct shown){to, isatty(fileno(to)), options_colour(fileno(to))};
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

static void safe_show(FILE *to, struct text piece)
{
    enum { PART = 256, LONGEST = 4 * PART + 32 }; // an escape has four bytes for each it stands for
    while (piece.bytes > 0) {
        char part[LONGEST];
        size_t bytes = piece.bytes < PART ? piece.bytes : PART, plain = 0;
        while (plain < bytes && piece.at[plain] != '\n' && piece.at[plain] != '\t')
            plain++;
        size_t whole = utf8_whole(piece.at, plain);
        plain = whole > 0 ? whole : plain;
        fwrite(part, 1, safe_put(part, sizeof part, text_span(piece.at, plain)), to);
        if (plain == 0)
            putc(piece.at[plain++], to);
        piece = text_span(piece.at + plain, piece.bytes - plain);
    }
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
    if (s->safe)
        safe_show(s->to, piece);
    else
        fwrite(piece.at, 1, piece.bytes, s->to);
    return output_flush(err);
}

void chat_show_end(void)
{
    part_end(true);
    open = CHAT_PARTS;
}
