// Chunked bodies exactly as RFC 9112, 7.1 defines them. libh2o 2.2.5 calls phr_decode_chunked,
// which takes '2 xyz' and '0x65' for sizes and a bare LF for a line's end: a proxy in front may
// then see the request end elsewhere than we do. The library is linked dynamically and looks this
// name up in the program first, so that the definition here is the one in use; framing.c refuses
// chunked bodies where it is not. Loop thread.
#include "http/framing.h"

#include <string.h>
#include <sys/types.h>

enum state {
    SIZE, // begins at 0: h2o clears the memory
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

// As the library lays it out.
struct phr_chunked_decoder {
    size_t left; // bytes of this chunk
    char consume_trailer;
    char count; // hex digits, bytes of an extension
    char state;
};

// Called by h2o. >= 0: bytes after the body, -1: broken, -2: more to come. The body's bytes stay in
// buffer, *bytes of them.
ssize_t phr_decode_chunked(struct phr_chunked_decoder *chunks, char *buffer, size_t *bytes);

static _Thread_local bool in_use;

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

// One byte outside of a chunk's data.
static enum state byte_take(struct phr_chunked_decoder *chunks, unsigned char c)
{
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
            chunks->state = (char)byte_take(chunks, (unsigned char)buffer[from++]);
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
    memmove(buffer + to, buffer + from, all - from); // bytes of the next request
    return chunks->state == END ? (ssize_t)(all - from) : -2;
}
