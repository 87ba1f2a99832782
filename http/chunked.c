// SPDX-License-Identifier: Apache-2.0
// Decodes chunked bodies exactly as RFC 9112, 7.1 defines them. libh2o 2.2.5 calls
// phr_decode_chunked, whose own version accepts '2 xyz' and '0x65' as sizes and a bare LF as the
// end of a line; a reverse proxy may then see the request end at another byte than weft does. The
// library is linked dynamically and looks this name up in the program first, so the definition here
// is used; if it is not, framing.c refuses chunked bodies. Runs on the h2o thread.
#include "http/framing.h"

#include <string.h>
#include <sys/types.h>

enum state {
    SIZE, // must be 0: h2o zeroes the memory
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER, // start of a line after the last chunk
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    END,
    BROKEN
};

enum { SIZE_DIGITS_MAX = 16, EXTENSION_BYTES_MAX = 120 };

// The layout that the library uses.
struct phr_chunked_decoder {
    size_t left; // bytes left in this chunk; in trailers: their bytes so far
    char consume_trailer;
    char count; // hex digits of a size, bytes of an extension, or lines of trailers, so far
    char state;
};

// Called by h2o. Moves the decoded bytes to the start of `buffer` and stores their number in
// *bytes. Returns the number of bytes after the body (>= 0), -1: malformed, -2: incomplete.
ssize_t phr_decode_chunked(struct phr_chunked_decoder *chunks, char *buffer, size_t *bytes);

static _Thread_local bool in_use;
static _Thread_local struct trailers trailers;

struct trailers chunked_trailers_pop(void)
{
    struct trailers popped = trailers;
    trailers = (struct trailers){0};
    return popped;
}

bool chunked_is_strict(void)
{
    return in_use;
}

static bool is_visible(unsigned char c)
{
    return c > ' ' && c != 0x7F;
}

static bool is_of_value(unsigned char c)
{
    return is_visible(c) || c == ' ' || c == '\t';
}

static enum state size_byte(struct phr_chunked_decoder *chunks, unsigned char c)
{
    int value = text_hex((char)c);
    if (value >= 0 && chunks->count < SIZE_DIGITS_MAX) {
        chunks->count++;
        chunks->left = chunks->left << 4 | (size_t)value;
        return SIZE;
    }
    if (value >= 0 || chunks->count == 0)
        return BROKEN;
    chunks->count = 0;
    return c == '\r' ? SIZE_LF : c == ';' ? EXTENSION : BROKEN;
}

static enum state extension_byte(struct phr_chunked_decoder *chunks, unsigned char c)
{
    if (c == '\r')
        return SIZE_LF;
    bool fine = is_of_value(c) && chunks->count++ < EXTENSION_BYTES_MAX;
    return fine ? EXTENSION : BROKEN;
}

static enum state size_end(struct phr_chunked_decoder *chunks, unsigned char c)
{
    chunks->count = 0;
    if (c != '\n')
        return BROKEN;
    return chunks->left > 0 ? DATA : TRAILER;
}

// Counts one byte of trailers. They share the limits of the headers (framing.c), and none may
// exceed them alone. Nothing else uses the two counters after the last chunk.
static bool trailer_fits(struct phr_chunked_decoder *chunks, unsigned char c)
{
    chunks->count = (char)(chunks->count + (c == '\n'));
    return ++chunks->left <= HEAD_BYTES_MAX && chunks->count <= HEAD_LINES_MAX;
}

// Handles one byte outside of a chunk's data. Returns the next state.
static enum state byte_handle(struct phr_chunked_decoder *chunks, unsigned char c)
{
    if (chunks->state >= TRAILER && chunks->state <= TRAILER_LF && !trailer_fits(chunks, c))
        return BROKEN;
    switch ((enum state)chunks->state) {
    case SIZE:
        return size_byte(chunks, c);
    case EXTENSION:
        return extension_byte(chunks, c);
    case SIZE_LF:
        return size_end(chunks, c);
    case DATA_CR:
        return c == '\r' ? DATA_LF : BROKEN;
    case DATA_LF:
        return c == '\n' ? SIZE : BROKEN;
    case TRAILER:
        if (c == '\r')
            return END_LF;
        return is_visible(c) && c != ':' ? TRAILER_NAME : BROKEN;
    case TRAILER_NAME:
        return c == ':' ? TRAILER_VALUE : is_visible(c) ? TRAILER_NAME : BROKEN;
    case TRAILER_VALUE:
        return c == '\r' ? TRAILER_LF : is_of_value(c) ? TRAILER_VALUE : BROKEN;
    case TRAILER_LF:
        return c == '\n' ? TRAILER : BROKEN;
    case END_LF:
        return c == '\n' ? END : BROKEN;
    default:
        return BROKEN;
    }
}

ssize_t phr_decode_chunked(struct phr_chunked_decoder *chunks, char *buffer, size_t *bytes)
{
    size_t from = 0, to = 0, all = *bytes;
    in_use = true;
    while (from < all && chunks->state != END && chunks->state != BROKEN) {
        if (chunks->state != DATA) {
            chunks->state = (char)byte_handle(chunks, (unsigned char)buffer[from++]);
            continue;
        }
        size_t piece = all - from < chunks->left ? all - from : chunks->left;
        memmove(buffer + to, buffer + from, piece);
        from += piece;
        to += piece;
        chunks->left -= piece;
        if (chunks->left == 0)
            chunks->state = DATA_CR;
    }
    *bytes = to;
    if (chunks->state == BROKEN)
        return -1;
    if (chunks->state == END)
        trailers = (struct trailers){chunks->left, (uint32_t)chunks->count};
    memmove(buffer + to, buffer + from, all - from); // bytes of the next request
    return chunks->state == END ? (ssize_t)(all - from) : -2;
}
