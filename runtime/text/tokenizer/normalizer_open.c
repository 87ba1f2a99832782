// SPDX-License-Identifier: Apache-2.0
// Reads the `normalizer` of a tokenizer file into a flat list of stages.
#include "runtime/text/tokenizer/files.h"

static const char *const kinds[] = {
    [NORMALIZE_NFC] = "NFC",
    [NORMALIZE_NFD] = "NFD",
    [NORMALIZE_NFKC] = "NFKC",
    [NORMALIZE_NFKD] = "NFKD",
    [NORMALIZE_LOWERCASE] = "Lowercase",
    [NORMALIZE_STRIP_ACCENTS] = "StripAccents",
    [NORMALIZE_STRIP] = "Strip",
    [NORMALIZE_PREPEND] = "Prepend",
    [NORMALIZE_REPLACE] = "Replace",
    [NORMALIZE_BERT] = "BertNormalizer",
    [NORMALIZE_PRECOMPILED] = "Precompiled",
    [NORMALIZE_NMT] = "Nmt",
    [NORMALIZE_BYTE_LEVEL] = "ByteLevel",
};

enum status replace_open(const struct jnode *node, struct text *from, struct text *to,
                         struct regex **regex, struct error *err)
{
    const struct jnode *pattern = jtree_get(node, "pattern");
    struct text expression = jtree_get_text(pattern, "Regex");
    *from = jtree_get_text(pattern, "String");
    *to = jtree_get_text(node, "content");
    if (!to->at || (!from->at && !expression.at))
        return error_set(err, STATUS_INVALID, "a Replace without a pattern or content");
    return !from->at ? regex_create(regex, expression, err) : STATUS_OK;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t base64_read(char *out, struct text in, size_t *used)
{
    size_t count = 0, i = 0;
    uint32_t bits = 0, have = 0;
    for (; i < in.bytes; i++) {
        int value = base64_value(in.at[i]);
        if (value < 0)
            break;
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[count++] = (char)(bits >> have);
        }
    }
    *used = i;
    return count;
}

// Layout of the decoded bytes: size of the double array in bytes (u32), the array, the replacement
// texts.
static enum status charsmap_open(struct tokenizer *t, struct charsmap *map, struct text base64,
                                 struct error *err)
{
    char *bytes = arena_alloc(t->arena, base64.bytes / 4 * 3 + 8);
    size_t used, count = bytes ? base64_read(bytes, base64, &used) : 0;
    uint32_t trie_bytes = 0;
    if (bytes && count >= 4)
        memcpy(&trie_bytes, bytes, 4);
    if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > count - 4)
        return error_set(err, STATUS_INVALID, "a Precompiled normalizer without a usable charsmap");
    uint32_t *units = arena_alloc(t->arena, trie_bytes);
    if (!units)
        return error_set(err, STATUS_NO_SPACE, "not enough memory for a charsmap");
    memcpy(units, bytes + 4, trie_bytes);
    map->units = units;
    map->unit_count = trie_bytes / 4;
    map->replacements = text_span(bytes + 4 + trie_bytes, count - 4 - trie_bytes);
    return STATUS_OK;
}

static enum status one_open(struct tokenizer *t, uint32_t kind, const struct jnode *node,
                            struct error *err)
{
    struct normalizer *n = &t->normalizers[t->normalizer_count++];
    n->kind = (enum normalizer_kind)kind;
    switch (n->kind) {
    case NORMALIZE_REPLACE:
        return replace_open(node, &n->from, &n->to, &n->regex, err);
    case NORMALIZE_PREPEND:
        n->to = jtree_get_text(node, "prepend");
        return STATUS_OK;
    case NORMALIZE_STRIP:
        n->left = jtree_get_bool(node, "strip_left", true);
        n->right = jtree_get_bool(node, "strip_right", true);
        return STATUS_OK;
    case NORMALIZE_BERT:
        n->clean = jtree_get_bool(node, "clean_text", true);
        n->cjk = jtree_get_bool(node, "handle_chinese_chars", true);
        n->lower = jtree_get_bool(node, "lowercase", true);
        n->accents = jtree_get_bool(node, "strip_accents", n->lower);
        return STATUS_OK;
    case NORMALIZE_PRECOMPILED:
        return charsmap_open(t, &n->map, jtree_get_text(node, "precompiled_charsmap"), err);
    default:
        return STATUS_OK;
    }
}

enum status normalizers_open(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    const struct stage_list list = {
        "normalizer",         "normalizers", kinds, sizeof kinds / sizeof *kinds,
        &t->normalizer_count, one_open};
    return stages_open(t, node, &list, err);
}
