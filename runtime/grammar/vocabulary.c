// SPDX-License-Identifier: Apache-2.0
// Sorts the tokens of a model into tries. See walk.h.
#include "runtime/grammar/walk.h"

#include "base/arena.h"
#include "base/status.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

// Returns the number of bytes of complete plain characters at the beginning of the text. Plain: not
// a control character, a quote mark or a backslash. *chars is the number of characters.
static size_t plain_bytes(struct text text, uint32_t *chars)
{
    size_t done = 0;
    for (*chars = 0; done < text.bytes; ++*chars) {
        unsigned char c = (unsigned char)text.at[done];
        size_t bytes = utf8_valid(text.at + done, text.bytes - done);
        if (bytes == 0 || c < 0x20 || c == '"' || c == '\\')
            break;
        done += bytes;
    }
    return done;
}

// Returns true if the token consists of plain characters (see plain_bytes), the last of which may
// be incomplete.
static bool is_plain(struct text token, uint32_t *chars)
{
    size_t plain = plain_bytes(token, chars);
    bool cut = plain < token.bytes;
    *chars += cut;
    return !cut || utf8_is_beginning(token.at + plain, token.bytes - plain);
}

// Returns the kind of a token.
static uint32_t kind_of(struct text token)
{
    uint32_t chars, kind = 0;
    if (token.bytes > TOKEN_SHORT_MAX)
        return KIND_LONG;
    if (!is_plain(token, &chars))
        return KIND_OTHER;
    while (chars > PLAIN_CHARS[kind] && kind < PLAIN_KINDS - 1)
        kind++;
    return kind;
}

static uint32_t node_add(struct token_trie *trie, struct text bytes, uint32_t level, bool plain)
{
    trie->nodes[trie->count] = (struct trie_node){.first = trie->id_count,
                                                  .text = trie->byte_count,
                                                  .plain = plain,
                                                  .level = level & 0x3FFF,
                                                  .count = (uint8_t)bytes.bytes,
                                                  .byte = (uint8_t)bytes.at[0]};
    memcpy(trie->bytes + trie->byte_count, bytes.at, bytes.bytes);
    trie->byte_count += (uint32_t)bytes.bytes;
    return trie->count++;
}

// The strings of a trie: tokens or shapes, or their rest from a byte on.
struct trie_source {
    const struct vocabulary *v;
    const char *text; // of all tokens, laid out as v->text; for shapes: the groups of those bytes
    const uint16_t *from; // [vocab] offset at which the string begins, or NULL: 0
};

static struct text source_text(const struct trie_source *s, int32_t token)
{
    uint32_t first = s->v->first[token], from = s->from ? s->from[token] : 0;
    return text_span(s->text + first + from, s->v->first[token + 1] - first - from);
}

// text: a string of the source. Returns true if the token's bytes at the place of its first `bytes`
// entries are complete plain characters; the text of a shape has groups there.
static bool source_is_plain(const struct trie_source *s, struct text text, size_t bytes)
{
    uint32_t chars;
    struct text token = text_span(s->v->text + (text.at - s->text), bytes);
    return plain_bytes(token, &chars) == bytes;
}

static uint32_t group_at(const struct trie_source *s, uint8_t byte)
{
    return s->text == s->v->text ? s->v->group_of[byte] : byte;
}

// Computes the summaries of the subtrees (groups, whole) from the last node to the first.
static void nodes_close(const struct trie_source *s, struct token_trie *trie)
{
    for (uint32_t i = trie->count, chars; i > 0; i--) {
        struct trie_node *node = &trie->nodes[i - 1];
        bool whole = true;
        for (uint32_t t = node->first; t < trie->nodes[i].first && whole; t++)
            whole = is_plain(vocabulary_text(s->v, trie->ids[t]), &chars);
        for (uint32_t child = i; child < node->end; child = trie->nodes[child].end) {
            node->groups |= trie->nodes[child].groups;
            whole = whole && trie->nodes[child].whole;
        }
        node->whole = whole;
        for (uint32_t k = 0; k < node->count; k++)
            node->groups |= 1ull << group_at(s, trie->bytes[node->text + k]);
        if (node->level == 0)
            trie->root[node->byte] = i - 1;
    }
}

static int compare_sources(const void *x, const void *y, void *source)
{
    int32_t one = *(const int32_t *)x, other = *(const int32_t *)y;
    int order = text_order(source_text(source, one), source_text(source, other));
    return order != 0 ? order : one - other;
}

// Adds the nodes of tokens sorted by their bytes; the first `depth` bytes are equal and more
// follow.
static void nodes_add(const struct trie_source *s, struct token_trie *trie, const int32_t *sorted,
                      uint32_t count, size_t depth, uint32_t level)
{
    for (uint32_t from = 0, end; from < count; from = end) {
        struct text first = source_text(s, sorted[from]);
        for (end = from + 1; end < count; end++)
            if (source_text(s, sorted[end]).at[depth] != first.at[depth])
                break;
        struct text last = source_text(s, sorted[end - 1]);
        size_t common = depth + 1; // also of all tokens between first and last
        while (common < first.bytes && common < last.bytes && common - depth < UINT8_MAX &&
               first.at[common] == last.at[common])
            common++;
        bool plain = source_is_plain(s, first, depth);
        uint32_t node = node_add(trie, text_span(first.at + depth, common - depth), level, plain);
        for (; from < end && source_text(s, sorted[from]).bytes == common; from++)
            trie->ids[trie->id_count++] = sorted[from];
        nodes_add(s, trie, sorted + from, end - from, common, level + 1);
        trie->nodes[node].end = trie->count;
    }
}

static void trie_build(struct vocabulary *v, struct token_trie *trie, struct trie_source *source,
                       int32_t *tokens, uint32_t count)
{
    size_t bytes = 0;
    qsort_r(tokens, count, sizeof *tokens, compare_sources, source);
    for (uint32_t i = 0; i < count; i++)
        bytes += source_text(source, tokens[i]).bytes;
    // There are fewer branches than tokens; long nodes are split every UINT8_MAX bytes.
    trie->nodes = heap_alloc((2 * (size_t)count + bytes / UINT8_MAX + 1) * sizeof *trie->nodes);
    trie->bytes = heap_alloc(bytes + 1);
    trie->ids = heap_alloc((count + 1) * sizeof *trie->ids);
    nodes_add(source, trie, tokens, count, 0, 0);
    trie->nodes[trie->count] = (struct trie_node){.first = trie->id_count};
    trie->nodes = heap_grow(trie->nodes, (trie->count + 1) * sizeof *trie->nodes);
    trie->bytes = heap_grow(trie->bytes, trie->byte_count + 1);
    memset(trie->root, 0xFF, sizeof trie->root); // TRIE_NONE
    nodes_close(source, trie);
    v->bytes +=
        trie->count * sizeof *trie->nodes + trie->id_count * sizeof *trie->ids + trie->byte_count;
}

static void tails_build(struct vocabulary *v, int32_t *tokens, uint32_t count)
{
    uint32_t chars;
    uint16_t *from = heap_alloc((v->vocab + 1) * sizeof *from);
    for (uint32_t i = 0; i < count; i++)
        from[tokens[i]] = (uint16_t)plain_bytes(vocabulary_text(v, tokens[i]), &chars);
    trie_build(v, &v->tails, &(struct trie_source){v, v->text, from}, tokens, count);
    heap_free(from);
}

static void kinds_build(struct vocabulary *v, int32_t **tokens, const uint32_t *counts)
{
    size_t bytes = v->first[v->vocab];
    char *shapes = heap_alloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        shapes[i] = (char)v->group_of[(uint8_t)v->text[i]];
    for (int k = 0; k < TOKEN_KINDS; k++) {
        trie_build(v, &v->tries[k], &(struct trie_source){v, v->text, NULL}, tokens[k], counts[k]);
        trie_build(v, &v->shapes[k], &(struct trie_source){v, shapes, NULL}, tokens[k], counts[k]);
    }
    heap_free(shapes);
}

static void trie_free(struct token_trie *trie)
{
    heap_free(trie->nodes);
    heap_free(trie->bytes);
    heap_free(trie->ids);
}

static void tries_build(struct vocabulary *v)
{
    int32_t *sorted[TOKEN_KINDS];
    uint32_t counts[TOKEN_KINDS] = {0};
    for (int k = 0; k < TOKEN_KINDS; k++)
        sorted[k] = heap_alloc((v->vocab + 1) * sizeof **sorted);
    for (int k = 0; k < PLAIN_KINDS; k++)
        v->plain[k] = heap_alloc_zeroed(v->words, sizeof **v->plain);
    v->any = heap_alloc_zeroed(v->words, sizeof *v->any);
    for (uint32_t i = 0; i < v->end_count; i++)
        v->any[v->ends[i] / 32] |= 1u << (v->ends[i] % 32);
    for (uint32_t id = 0; id < v->vocab; id++) {
        struct text token = vocabulary_token(v, (int32_t)id);
        if (token.bytes == 0)
            continue;
        uint32_t kind = kind_of(token);
        v->any[id / 32] |= 1u << (id % 32);
        sorted[kind][counts[kind]++] = (int32_t)id;
        v->longest = token.bytes > v->longest ? (uint32_t)token.bytes : v->longest;
        for (uint32_t k = kind; k < PLAIN_KINDS; k++)
            v->plain[k][id / 32] |= 1u << (id % 32);
    }
    kinds_build(v, sorted, counts);
    tails_build(v, sorted[KIND_OTHER], counts[KIND_OTHER]);
    for (int k = 0; k < TOKEN_KINDS; k++)
        heap_free(sorted[k]);
}

// Returns the text of a token as grammars see it; *special: VOCABULARY_SPECIAL_BYTE precedes it.
static struct text token_of(const struct vocabulary_args *args, uint32_t id, bool *special)
{
    struct text token = id < args->count ? args->tokens[id] : (struct text){NULL, 0};
    *special = (!token.at || token.bytes == 0) && args->specials && id < args->count;
    if (*special)
        token = args->specials[id];
    *special = *special && token.at && token.bytes > 0;
    bool none = !token.at || token.bytes + *special > VOCABULARY_TOKEN_BYTES_MAX ||
                memchr(token.at, VOCABULARY_SPECIAL_BYTE, token.bytes);
    return none ? (struct text){NULL, 0} : token;
}

static void text_copy(struct vocabulary *v, const struct vocabulary_args *args)
{
    size_t bytes = 0;
    bool special;
    for (uint32_t id = 0; id < args->count; id++)
        bytes += token_of(args, id, &special).bytes + 1;
    check(bytes < UINT32_MAX, "%zu bytes of tokens", bytes);
    v->first = heap_alloc((v->vocab + 1) * sizeof *v->first);
    v->text = heap_alloc(bytes + 1);
    uint32_t at = 0;
    for (uint32_t id = 0; id < v->vocab; id++) {
        struct text token = token_of(args, id, &special);
        v->first[id] = at;
        if (token.bytes == 0)
            continue;
        if (special)
            v->text[at++] = (char)VOCABULARY_SPECIAL_BYTE;
        memcpy(v->text + at, token.at, token.bytes);
        at += (uint32_t)token.bytes;
    }
    v->first[v->vocab] = at;
    v->bytes += bytes;
}

static void alphabet_add(uint32_t alphabet[8], struct text token)
{
    for (size_t i = 0; i < token.bytes; i++) {
        uint8_t byte = (uint8_t)token.at[i];
        alphabet[byte / 32] |= 1u << byte % 32;
    }
}

static bool alphabet_has_all(const uint32_t alphabet[8])
{
    bool all = true;
    // C0, C1 and bytes from F5 on do not occur in UTF-8
    for (uint32_t byte = 0; byte < 0xF5; byte++)
        all = all && (byte == 0xC0 || byte == 0xC1 || (alphabet[byte / 32] >> byte % 32 & 1));
    return all;
}

// Bytes that occur only in special tokens are not in the alphabet of text; bytes that occur only in
// end ids are in neither alphabet.
static void alphabets_find(struct vocabulary *v)
{
    for (uint32_t id = 0; id < v->vocab; id++) {
        struct text token = vocabulary_token(v, (int32_t)id);
        bool special = token.bytes > 0 && (uint8_t)token.at[0] == VOCABULARY_SPECIAL_BYTE;
        for (uint32_t marks = special; marks < 2; marks++)
            alphabet_add(v->alphabets[marks], token);
    }
    for (uint32_t marks = 0; marks < 2; marks++)
        v->writes_all[marks] = alphabet_has_all(v->alphabets[marks]);
}

struct vocabulary *vocabulary_create(const struct vocabulary_args *args)
{
    check(args->count <= args->vocab && args->vocab < INT32_MAX, "%u tokens for %u ids",
          args->count, args->vocab);
    struct vocabulary *v = heap_alloc_zeroed(1, sizeof *v);
    atomic_init(&v->owners, 1);
    v->vocab = args->vocab;
    v->words = (args->vocab + 31) / 32;
    v->ends = heap_alloc((args->end_count + 1) * sizeof *v->ends);
    for (uint32_t i = 0; i < args->end_count; i++)
        if (args->end_ids[i] >= 0 && (uint32_t)args->end_ids[i] < v->vocab)
            v->ends[v->end_count++] = args->end_ids[i];
    v->bytes = sizeof *v + v->vocab * sizeof *v->first +
               (PLAIN_KINDS + 1) * (size_t)v->words * sizeof **v->plain;
    byte_groups_fill(v->group_of);
    text_copy(v, args);
    alphabets_find(v);
    tries_build(v);
    return v;
}

struct vocabulary *vocabulary_ref(struct vocabulary *v)
{
    // relaxed: the caller already holds a reference, so nothing has to be ordered
    atomic_fetch_add_explicit(&v->owners, 1, memory_order_relaxed);
    return v;
}

void vocabulary_unref(struct vocabulary *v)
{
    // acq_rel: all accesses by other owners happen before the last owner frees it
    if (!v || atomic_fetch_sub_explicit(&v->owners, 1, memory_order_acq_rel) != 1)
        return;
    for (int k = 0; k < TOKEN_KINDS; k++) {
        trie_free(&v->tries[k]);
        trie_free(&v->shapes[k]);
    }
    trie_free(&v->tails);
    for (int k = 0; k < PLAIN_KINDS; k++)
        heap_free(v->plain[k]);
    heap_free(v->any);
    heap_free(v->first);
    heap_free(v->text);
    heap_free(v->ends);
    heap_free(v);
}

uint32_t vocabulary_size(const struct vocabulary *v)
{
    return v->vocab;
}

uint32_t vocabulary_words(const struct vocabulary *v)
{
    return v->words;
}

size_t vocabulary_bytes(const struct vocabulary *v)
{
    return v->bytes;
}

struct text vocabulary_token(const struct vocabulary *v, int32_t token)
{
    return vocabulary_is_end(v, token) ? (struct text){NULL, 0} : vocabulary_text(v, token);
}

struct text vocabulary_text(const struct vocabulary *v, int32_t token)
{
    if (token < 0 || (uint32_t)token >= v->vocab)
        return (struct text){NULL, 0};
    return text_span(v->text + v->first[token], v->first[token + 1] - v->first[token]);
}

bool vocabulary_is_end(const struct vocabulary *v, int32_t token)
{
    for (uint32_t i = 0; i < v->end_count; i++)
        if (v->ends[i] == token)
            return true;
    return false;
}

const uint32_t *vocabulary_alphabet(const struct vocabulary *v, bool specials)
{
    return v->writes_all[specials] ? NULL : v->alphabets[specials];
}

bool vocabulary_allows_all(const struct vocabulary *v, const uint32_t *words)
{
    for (uint32_t w = 0; w < v->words; w++)
        if (v->any[w] & ~words[w])
            return false;
    return true;
}

struct forbidding {
    const struct token_trie *trie;
    const char *skip;
    uint32_t *words;
};

// Returns the bytes of `rest` that the node leaves, and clears *skips where `rest` begins. *off:
// set if the node has other bytes.
static struct text node_match(const struct forbidding *f, const struct trie_node *node,
                              struct text rest, bool *skips, bool *off)
{
    for (uint32_t i = 0; i < node->count && rest.bytes > 0; i++) {
        uint8_t byte = f->trie->bytes[node->text + i];
        if (byte == (uint8_t)rest.at[0]) {
            rest = text_span(rest.at + 1, rest.bytes - 1);
            *skips = false;
        } else if (!*skips || byte == 0 || !strchr(f->skip, byte)) {
            *off = true;
            return rest;
        }
    }
    return rest;
}

static void node_forbid(const struct forbidding *f, uint32_t at, struct text rest, bool skips)
{
    const struct trie_node *nodes = f->trie->nodes, *node = &nodes[at];
    bool off = false;
    rest = node_match(f, node, rest, &skips, &off);
    if (off)
        return;
    if (rest.bytes > 0) {
        for (uint32_t child = at + 1; child < node->end; child = nodes[child].end)
            node_forbid(f, child, rest, skips);
        return;
    }
    for (uint32_t i = node->first; i < nodes[node->end].first; i++)
        f->words[f->trie->ids[i] / 32] &= ~(1u << f->trie->ids[i] % 32);
}

void vocabulary_forbid(const struct vocabulary *v, struct text begin, const char *skip,
                       uint32_t *words)
{
    for (int k = 0; k < TOKEN_KINDS; k++) {
        struct forbidding f = {&v->tries[k], skip, words};
        for (uint32_t at = 0; at < f.trie->count; at = f.trie->nodes[at].end)
            node_forbid(&f, at, begin, true);
    }
}
