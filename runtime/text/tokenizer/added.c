// SPDX-License-Identifier: Apache-2.0
// Added tokens: reads their list, and splits a text at them before and after normalization.
#include "runtime/text/tokenizer/internal.h"

static bool word_before(struct marked_text s, size_t end)
{
    size_t bytes;
    return end > 0 && char_is_word(utf8_read(s.at + utf8_before(s.at, end), &bytes));
}

static bool word_after(struct marked_text s, size_t start)
{
    size_t bytes;
    return start < s.bytes && char_is_word(utf8_read(s.at + start, &bytes));
}

static size_t spaces_before(struct marked_text s, size_t end)
{
    while (end > 0) {
        size_t bytes, start = utf8_before(s.at, end);
        if (!char_is_space(utf8_read(s.at + start, &bytes)))
            break;
        end = start;
    }
    return end;
}

static size_t spaces_after(struct marked_text s, size_t start)
{
    size_t bytes = 0;
    while (start < s.bytes && char_is_space(utf8_read(s.at + start, &bytes)))
        start += bytes;
    return start;
}

// Returns the first position at or after `from` where some added token could begin.
static size_t next_candidate(const struct added_matcher *m, struct marked_text s, size_t from)
{
    if (m->only_byte >= 0) {
        const char *found = memchr(s.at + from, m->only_byte, s.bytes - from);
        return found ? (size_t)(found - s.at) : s.bytes;
    }
    while (from < s.bytes && !m->begins[(unsigned char)s.at[from]])
        from++;
    return from;
}

// Returns the index of the longest added token at `at` that its bytes allow, or -1. A guarded token
// must not contain a plain byte. If a guarded token is longer than the result, and all of its bytes
// are plain, there is no token: the reference library passes over its text. *end is the end of the
// token, or the position from which the search continues.
static int32_t longest_at(const struct encode *e, const struct added_matcher *m,
                          struct marked_text s, size_t at, size_t *end)
{
    int32_t best = -1;
    uint32_t node = 0;
    bool any_plain = false, all_plain = true;
    *end = at + 1;
    for (size_t i = at; i < s.bytes; i++) {
        node = trie_step(&m->trie, node, (unsigned char)s.at[i]);
        if (node == 0)
            break;
        bool plain = !e->added_tokens || plain_at(&s, i) != 0;
        any_plain |= plain;
        all_plain &= plain;
        int32_t index = m->trie.values[node];
        if (index < 0)
            continue;
        bool allowed = !any_plain || !e->t->added[index].guarded;
        if (allowed || all_plain) {
            best = allowed ? index : -1;
            *end = i + 1;
        }
    }
    return best;
}

static void emit_stretch(struct encode *e, struct marked_text s, size_t start, size_t end,
                         const struct added_sink *sink)
{
    if (start >= end)
        return;
    struct marked_text piece = {s.at + start, end - start, s.plain ? s.plain + start : NULL};
    sink->stretch(e, piece, sink->first && start == 0);
}

void added_split(struct encode *e, const struct added_matcher *m, struct marked_text s,
                 const struct added_sink *sink)
{
    size_t done = 0;
    bool search = e->added_tokens ? m->any : m->any_word;
    size_t at = search ? next_candidate(m, s, 0) : s.bytes;
    while (at < s.bytes && e->status == STATUS_OK && encode_spend(e, 2)) {
        size_t match_end = 0;
        int32_t index = longest_at(e, m, s, at, &match_end);
        if (index < 0) {
            at = next_candidate(m, s, match_end);
            continue;
        }
        const struct added_token *token = &e->t->added[index];
        size_t start = at, end = match_end;
        at = next_candidate(m, s, match_end);
        if (token->single_word && (word_before(s, start) || word_after(s, end)))
            continue;
        if (token->lstrip) {
            start = spaces_before(s, start);
            start = start > done ? start : done;
        }
        if (token->rstrip)
            end = spaces_after(s, end);
        // The previous token's rstrip has consumed this token, which is white space.
        if (start >= end)
            continue;
        emit_stretch(e, s, done, start, sink);
        encode_push(e, token->id);
        done = end;
    }
    emit_stretch(e, s, done, s.bytes, sink);
}

static enum status matcher_put(struct added_matcher *m, struct text key, int32_t index,
                               bool guarded, struct error *err)
{
    if (key.bytes == 0 || trie_get(&m->trie, key) >= 0)
        return STATUS_OK;
    if (!trie_put(&m->trie, key, index))
        return error_set(err, STATUS_TOO_LARGE, "the added tokens are too many");
    int byte = (unsigned char)key.at[0];
    m->only_byte = !m->any || m->only_byte == byte ? byte : -1;
    m->begins[byte] = true;
    m->any = true;
    m->any_word |= !guarded;
    return STATUS_OK;
}

static enum status matchers_put(struct tokenizer *t, bool special, struct error *err)
{
    struct encode e = {.t = t, .arena = t->arena};
    for (uint32_t i = 0; i < t->added_count; i++) {
        const struct added_token *token = &t->added[i];
        if (token->special != special)
            continue;
        struct marked_text s = {token->content.at, token->content.bytes, NULL};
        if (token->normalized && !token->verbatim && !normalize(&e, &s))
            return error_set(err, STATUS_INVALID, "an added token cannot be normalized");
        enum status status = matcher_put(token->normalized ? &t->normalized : &t->raw,
                                         text_span(s.at, s.bytes), (int32_t)i, token->guarded, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

// Tokens with `normalized` are matched in normalized text, in their normalized form; the others in
// the raw text. If several tokens have the same form, the first wins; special tokens come first.
enum status added_match_open(struct tokenizer *t, struct error *err)
{
    trie_init(&t->raw.trie);
    trie_init(&t->normalized.trie);
    enum status status = matchers_put(t, true, err);
    return status == STATUS_OK ? matchers_put(t, false, err) : status;
}

struct added_token *added_find(struct tokenizer *t, struct text content)
{
    const struct word_entry *entry = word_table_find(&t->added_by_text, content.at, content.bytes);
    return entry ? &t->added[entry->id] : NULL;
}

struct added_token added_token_of(const struct jnode *node)
{
    bool special = jtree_get_bool(node, "special", false);
    return (struct added_token){
        .content = jtree_get_text(node, "content"),
        .single_word = jtree_get_bool(node, "single_word", false),
        .lstrip = jtree_get_bool(node, "lstrip", false),
        .rstrip = jtree_get_bool(node, "rstrip", false),
        .special = special,
        .normalized = jtree_get_bool(node, "normalized", !special),
        .verbatim = jtree_get_bool(node, "verbatim", false),
    };
}

static void token_append(struct tokenizer *t, const struct added_token *token)
{
    word_table_put(&t->added_by_text, token->content, t->added_count);
    t->added[t->added_count++] = *token;
    t->added_next = token->id >= t->added_next ? token->id + 1 : t->added_next;
}

void added_put(struct tokenizer *t, const struct added_token *token)
{
    struct added_token copy = *token, *known = added_find(t, token->content);
    if (token->content.bytes == 0)
        return;
    const struct word_entry *entry =
        word_table_find(&t->by_name, token->content.at, token->content.bytes);
    copy.id = known ? known->id : entry ? entry->id : t->added_next;
    if (known)
        *known = copy;
    else
        token_append(t, &copy);
}

// Reads an item of the list in tokenizer.json. The first token of a text wins.
static enum status read_one(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    struct added_token token = added_token_of(node);
    int64_t id = jtree_integer(jtree_get(node, "id"), IDS_MAX - 1);
    if (!token.content.at || id < 0)
        return error_set(err, STATUS_INVALID, "an added token without content or a usable id");
    if (token.content.bytes == 0 || added_find(t, token.content))
        return STATUS_OK;
    // If the model's vocabulary contains the token, the model's id wins.
    const struct word_entry *entry =
        word_table_find(&t->by_name, token.content.at, token.content.bytes);
    token.id = entry ? entry->id : (uint32_t)id;
    token_append(t, &token);
    return STATUS_OK;
}

static void *grow_ids(struct tokenizer *t, const void *old, uint32_t vocab, size_t bytes_each)
{
    char *grown = arena_alloc_zeroed(t->arena, vocab, bytes_each);
    check(grown, "not enough memory for %u tokens", vocab);
    if (t->vocab > 0)
        memcpy(grown, old, t->vocab * bytes_each);
    return grown;
}

enum status added_open(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    uint32_t count = jtree_is(node, J_ARRAY) ? node->count : 0;
    uint32_t most = count + added_files_bound(t);
    t->added = arena_alloc_zeroed(t->arena, most + 1, sizeof *t->added);
    if (!t->added || !word_table_init(&t->added_by_text, t->arena, most))
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u added tokens", most);
    uint32_t vocab = t->added_next = t->vocab;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        status = read_one(t, &node->items[i], err);
    if (status == STATUS_OK)
        status = added_files_open(t, err);
    if (status == STATUS_OK && t->added_next > IDS_MAX)
        status = error_set(err, STATUS_TOO_LARGE, "the added tokens have ids over %d", IDS_MAX);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < t->added_count; i++)
        vocab = t->added[i].id >= vocab ? t->added[i].id + 1 : vocab;
    t->names = grow_ids(t, t->names, vocab, sizeof *t->names);
    t->special = arena_alloc_zeroed(t->arena, vocab, 1);
    t->vocab = vocab;
    struct word_table names;
    if (!word_table_init(&names, t->arena, (size_t)vocab + t->added_count))
        return error_set(err, STATUS_NO_SPACE, "not enough memory for %u tokens", vocab);
    for (uint32_t i = 0; i < t->added_count; i++) {
        t->names[t->added[i].id] = t->added[i].content;
        t->special[t->added[i].id] = t->added[i].special;
        t->added[i].guarded = t->added[i].special;
    }
    for (uint32_t id = 0; id < vocab; id++)
        if (t->names[id].at)
            word_table_put(&names, t->names[id], id);
    t->by_name = names;
    return STATUS_OK;
}
