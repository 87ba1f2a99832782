// SPDX-License-Identifier: Apache-2.0
// The end of a request, on the functions themselves: the decoder of chunks with its input split at
// each position, and malformed heads. No server runs.
#include "http/framing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

// The library's layout and declaration.
struct phr_chunked_decoder {
    size_t left;
    char consume_trailer, count, state;
};
ssize_t phr_decode_chunked(struct phr_chunked_decoder *chunks, char *buffer, size_t *bytes);

enum { BROKEN = -1, MORE = -2, BYTES_MAX = 1024 };

// Decodes into body; returns the result of the last call plus the unread bytes.
static ssize_t decode(const char *in, size_t bytes, size_t cut, char *body, size_t *body_bytes)
{
    struct phr_chunked_decoder chunks = {0};
    ssize_t result = MORE;
    size_t at = 0;
    *body_bytes = 0;
    while (at < bytes && result == MORE) {
        char piece[BYTES_MAX];
        size_t taken = at == 0 && cut > 0 && cut < bytes ? cut : bytes - at, size = taken;
        memcpy(piece, in + at, taken);
        at += taken;
        result = phr_decode_chunked(&chunks, piece, &size);
        memcpy(body + *body_bytes, piece, size);
        *body_bytes += size;
        if (result > 0) // the bytes after the body are moved to its end
            assert_memory_equal(piece + size, in + at - (size_t)result, (size_t)result);
    }
    return result >= 0 ? result + (ssize_t)(bytes - at) : result;
}

// Decodes in one piece, and split at each position.
static void decodes(const char *in, size_t bytes, ssize_t wanted, const char *wanted_body)
{
    for (size_t cut = 0; cut < bytes; cut++) {
        char body[BYTES_MAX];
        size_t size;
        ssize_t result = decode(in, bytes, cut, body, &size);
        if (result != wanted)
            fail_msg("%zu of '%.*s': %zd instead of %zd", cut, (int)bytes, in, result, wanted);
        if (wanted_body && (size != strlen(wanted_body) || memcmp(body, wanted_body, size) != 0))
            fail_msg("%zu of '%.*s': '%.*s'", cut, (int)bytes, in, (int)size, body);
    }
}

static void text_decodes(const char *in, ssize_t wanted, const char *body)
{
    decodes(in, strlen(in), wanted, body);
}

static void test_bodies(void **state)
{
    (void)state;
    text_decodes("0\r\n\r\n", 0, "");
    text_decodes("3\r\nabc\r\n0\r\n\r\n", 0, "abc");
    text_decodes("3\r\nabc\r\n0\r\n\r\nGET", 3, "abc");
    text_decodes("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", 0, "abc");
    text_decodes("a\r\n0123456789\r\nA\r\n0123456789\r\n00\r\n\r\n", 0, "01234567890123456789");
    text_decodes("1f\r\n0123456789012345678901234567890\r\n0\r\n\r\n", 0,
                 "0123456789012345678901234567890");
    text_decodes("3\r\nabc\r\n0\r\nA: b\r\nC-d:\te\r\n\r\n", 0, "abc");
    text_decodes("3\r\nabc\r\n0\r\nA:\r\n\r\nx", 1, "abc");
    text_decodes("3;x\r\nabc\r\n0;y=\"z\"\r\n\r\n", 0, "abc");
    text_decodes("3;\r\nabc\r\n0\r\n\r\n", 0, "abc");
    text_decodes("2\r\n\r\n\r\n0\r\n\r\n", 0, "\r\n");
}

static void test_unfinished(void **state)
{
    static const char *const parts[] = {
        "3", "3\r",   "3;",      "3\r\n",  "3\r\nab",     "3\r\nabc", "3\r\nabc\r", "3\r\nabc\r\n",
        "0", "0\r\n", "0\r\n\r", "0\r\nA", "0\r\nA:b\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        text_decodes(parts[i], MORE, NULL);
}

static void test_broken(void **state)
{
    static const char *const wrong[] = {"\r\n",
                                        "g\r\n",
                                        "-1\r\n",
                                        "3 \r\n",
                                        "3\n",
                                        "3\rx",
                                        "3\r\nabcd",
                                        "3\r\nabc\n",
                                        "3\r\nabc\rx",
                                        "3\r\nabc\r\n\r\n",
                                        "0\n",
                                        "0\r\n\n",
                                        "0\r\n\rx",
                                        "0\r\n:b\r\n",
                                        "0\r\n:b: c\r\n",
                                        "0\r\n A: b\r\n",
                                        "0\r\nA b:c",
                                        "0\r\nA: b\n",
                                        "0\r\nA: b\rc",
                                        "0\r\nA: b\r\n\n",
                                        "0\r\nA\r\n",
                                        "3;a\x7f\r\n",
                                        "3;a\x1f\r\n",
                                        "0\r\nA\x7f: b\r\n",
                                        "0\r\nA: \x7f\r\n",
                                        "0\r\nA: b\x01\r\n",
                                        "3x\r\nabc",
                                        "0x3\r\nabc",
                                        ";a\r\n",
                                        "3;a\nabc"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        text_decodes(wrong[i], BROKEN, NULL);
    decodes("0\r\nA: \0b\r\n\r\n", 12, BROKEN, NULL);
}

// A chunk size has at most sixteen digits; the limit applies to each chunk.
static void test_digits_of_a_size(void **state)
{
    (void)state;
    text_decodes("0000000000000003\r\nabc\r\n0000000000000000\r\n\r\n", 0, "abc");
    text_decodes("00000000000000003\r\nabc\r\n0\r\n\r\n", BROKEN, NULL);
    text_decodes("3\r\nabc\r\n00000000000000000\r\n\r\n", BROKEN, NULL);
    text_decodes("ffffffffffffffff\r\nabc", MORE, "abc");
}

// At most 120 bytes of extension in each chunk.
static void test_lengths_of_extensions(void **state)
{
    char in[BYTES_MAX], extension[122];
    (void)state;
    for (int bytes = 119; bytes <= 121; bytes++) {
        memset(extension, 'x', (size_t)bytes);
        extension[bytes] = '\0';
        snprintf(in, sizeof in, "1;%s\r\na\r\n2;%s\r\nbc\r\n0;%s\r\n\r\n", extension, extension,
                 extension);
        size_t size;
        char body[BYTES_MAX];
        ssize_t result = decode(in, strlen(in), 0, body, &size);
        assert_int_equal(result, bytes <= 120 ? 0 : BROKEN);
        if (bytes <= 120)
            assert_int_equal(size, 3);
    }
    text_decodes("1;\xc3\xa4\t \r\na\r\n0\r\n\r\n", 0, "a"); // blanks and bytes above ASCII
}

#define FIRST "POST / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"
#define CODED "Transfer-Encoding: chunked\r\n"

static void fault_is(const char *head, int minor, const char *wanted)
{
    const char *said = framing_fault(text_of(head), minor, true);
    if (!wanted ? said != NULL : !said || !strstr(said, wanted))
        fail_msg("'%s' has '%s', not '%s'", head, said ? said : "nothing",
                 wanted ? wanted : "nothing");
}

// Chunked bodies are refused until the library has called our decoder: it might have one built in.
static void test_chunks_need_our_decoder(void **state)
{
    (void)state;
    assert_false(chunked_is_strict());
    fault_is(FIRST HOST CODED "\r\n", 1, "Chunked bodies are not accepted here");
    text_decodes("0\r\n\r\n", 0, "");
    assert_true(chunked_is_strict());
    fault_is(FIRST HOST CODED "\r\n", 1, NULL);
}

static void test_heads(void **state)
{
    static const struct {
        const char *head;
        int minor;
        const char *fault;
    } heads[] = {
        {FIRST HOST "\r\n", 1, NULL},
        {FIRST HOST, 1, NULL},
        {"POST / HTTP/1.1\nHost: a\n\n", 1, NULL},
        {FIRST "hOsT:a\r\n\r\n", 1, NULL},
        {FIRST "Host \r\nHost: a\r\n\r\n", 1, NULL}, // no colon: a different header
        {FIRST "\r\n", 0, NULL},
        {FIRST "\r\n", 1, "must be sent exactly once"},
        {FIRST HOST HOST "\r\n", 1, "must be sent exactly once"},
        {FIRST HOST HOST "\r\n", 0, "must be sent exactly once"},
        {FIRST "Host: a/b\r\n\r\n", 1, "must be a host"},
        {FIRST "Host: a/b\r\n\r\n", 0, "must be a host"},
        {FIRST HOST "Content-Length: 2\r\n\r\n", 1, NULL},
        {FIRST HOST "Content-Length: 2\r\nContent-Length: 2\r\n\r\n", 1, NULL},
        {FIRST HOST "Content-Length: 2\r\ncontent-length:\t2 \r\n\r\n", 1, NULL},
        {FIRST HOST "Content-Length: 2\r\nContent-Length: 02\r\n\r\n", 1, "in two ways"},
        {FIRST HOST "Content-Length: 2\r\nX: y\r\nContent-Length: 3\r\n\r\n", 1, "in two ways"},
        {FIRST HOST "Content-Length: 3\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n", 1,
         "in two ways"},
        {FIRST HOST CODED CODED "\r\n", 1, "in two ways"},
        {FIRST HOST CODED "Content-Length: 2\r\n\r\n", 1, "in two ways"},
        {FIRST HOST "Content-Length: 2\r\n" CODED "\r\n", 0, "in two ways"},
        {FIRST CODED "\r\n", 0, "HTTP/1.0 has no Transfer-Encoding"},
        {FIRST HOST CODED "\r\n", 1, NULL},
        {FIRST HOST "X: a\r\n b\r\n\r\n", 1, "continues on a second line"},
        {FIRST HOST "X: a\r\n\tb\r\n\r\n", 1, "continues on a second line"},
        {"\r\n" FIRST HOST "\r\n", 1, NULL},
        {"\r\n\r\n\r\n" FIRST HOST "\r\n", 1, NULL},
        {"\r\n\r\n" FIRST HOST HOST "\r\n", 1, "must be sent exactly once"},
        {FIRST HOST "\r\n folded: but of the body\r\nHost: b\r\n", 1, NULL},
        {FIRST HOST "Transfer-Encodings: chunked\r\nXContent-Length: 2\r\n\r\n", 0, NULL},
    };
    (void)state;
    text_decodes("0\r\n\r\n", 0, "");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        fault_is(heads[i].head, heads[i].minor, heads[i].fault);
}

// Appends lines of a header, of this many bytes each with CR LF.
static size_t lines_put(char *at, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        memset(at + i * bytes, 'a', bytes);
        at[i * bytes + 1] = ':';
        memcpy(at + (i + 1) * bytes - 2, "\r\n", 2);
    }
    return count * bytes;
}

// Decodes a chunked body with these trailers after a head with these headers, and checks both.
static ssize_t trailers_decode(size_t headers, size_t header_bytes, size_t lines, size_t bytes,
                               const char **fault)
{
    static char text[2 * HEAD_BYTES_MAX];
    struct phr_chunked_decoder chunks = {0};
    size_t size = 0;
    memcpy(text, "0\r\n", 3);
    size = 3 + lines_put(text + 3, lines, bytes);
    memcpy(text + size, "\r\n", 2);
    size += 2;
    ssize_t result = phr_decode_chunked(&chunks, text, &size);
    size = (size_t)snprintf(text, sizeof text, FIRST HOST CODED);
    size += lines_put(text + size, headers, header_bytes);
    memcpy(text + size, "\r\n", 2);
    *fault = framing_fault(text_span(text, size + 2), 1, true);
    return result;
}

// Lines and bytes of trailers count towards the limits of the headers.
static void test_limits_of_trailers(void **state)
{
    static const struct {
        size_t headers, header_bytes, lines, bytes;
        bool broken, fits;
    } cases[] = {
        {0, 0, 98, 4, false, true},        {0, 0, 99, 4, false, false},
        {0, 0, 100, 4, false, false},      {0, 0, 101, 4, true, true},
        {60, 4, 38, 4, false, true},       {60, 4, 39, 4, false, false},
        {0, 0, 90, 4600, false, true},     {0, 0, 90, 4650, true, true},
        {40, 4600, 50, 4500, false, true}, {40, 4600, 51, 4600, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *fault;
        ssize_t result = trailers_decode(cases[i].headers, cases[i].header_bytes, cases[i].lines,
                                         cases[i].bytes, &fault);
        if ((result == BROKEN) != cases[i].broken || !fault != cases[i].fits)
            fail_msg("case %zu: %zd, %s", i, result, fault ? fault : "no fault");
        fault_is(FIRST HOST CODED "\r\n", 1, NULL); // they are forgotten
    }
}

static void test_hosts(void **state)
{
    static const char *const valid[] = {"",        "a",           "A.b-c_d~e", "a:0",
                                        "a:65535", "a:",          "127.0.0.1", "%41!$&'()*+,;=",
                                        "[::1]",   "[fe80::1]:1", "[::1]:"};
    static const char *const wrong[] = {
        ":",      ":80",    "a:b", "a:8 0",  "a b",     "a\tb",  "a/",      "a?",   "a#",
        "a@b",    "a\\b",   "\"",  "<a>",    "a:80:",   "[]",    "[",       "[::1", "::1]",
        "[::1]a", "[a]b:1", "a]",  "[:: 1]", "[::1]:a", "a\x7f", "\xc3\xa4"};
    (void)state;
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
        if (!host_is_valid(text_of(valid[i])))
            fail_msg("'%s' is none", valid[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (host_is_valid(text_of(wrong[i])))
            fail_msg("'%s' is one", wrong[i]);
    assert_false(host_is_valid(text_span("a\0b", 3)));
    assert_false(host_is_valid(text_span("[:\0:]", 5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_need_our_decoder), // first: the decoder stays in use
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_unfinished),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_digits_of_a_size),
        cmocka_unit_test(test_lengths_of_extensions),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_limits_of_trailers),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
