// Reads the `normalizer` of a tokenizer file into a flat list of stages.
#include "runtime/text/tokenizer/internal.h"

static const struct {
    const char *name;
    enum normalizer_kind kind;
} kinds[] = {
    {"NFC", NORMALIZE_NFC},
    {"NFD", NORMALIZE_NFD},
    {"NFKC", NORMALIZE_NFKC},
    {"NFKD", NORMALIZE_NFKD},
    {"Lowercase", NORMALIZE_LOWERCASE},
    {"StripAccents", NORMALIZE_STRIP_ACCENTS},
    {"Strip", NORMALIZE_STRIP},
    {"Prepend", NORMALIZE_PREPEND},
    {"Replace", NORMALIZE_REPLACE},
    {"BertNormalizer", NORMALIZE_BERT},
    {"Precompiled", NORMALIZE_PRECOMPILED},
    {"Nmt", NORMALIZE_NMT},
    {"ByteLevel", NORMALIZE_BYTE_LEVEL},
};

static enum status replace_open(struct normalizer *n, const struct jnode *node, struct error *err)
{
    const struct jnode *pattern = jtree_get(node, "pattern");
    n->from = jtree_get_text(pattern, "String");
    n->to = jtree_get_text(node, "content");
    struct text regex = jtree_get_text(pattern, "Regex");
    if (!n->to.at || (!n->from.at && !regex.at))
        return error_set(err, STATUS_INVALID, "a Replace without a pattern or content");
    return !n->from.at ? regex_open(&n->regex, regex, err) : STATUS_OK;
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

// Layout: bytes of the double array (u32), the array, the replacement texts.
static enum status charsmap_open(struct tokenizer *t, struct charsmap *map, struct text base64,
                                 struct error *err)
{
    unsigned char *bytes = arena_take(t->arena, base64.bytes / 4 * 3 + 8);
    size_t count = 0;
    uint32_t bits = 0, have = 0;
    for (size_t i = 0; bytes && i < base64.bytes; i++) {
        int value = base64_value(base64.at[i]);
        if (value < 0)
            break;
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            bytes[count++] = (unsigned char)(bits >> have);
        }
    }
    uint32_t trie_bytes = 0;
    if (bytes && count >= 4)
        memcpy(&trie_bytes, bytes, 4);
    if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > count - 4)
        return error_set(err, STATUS_INVALID, "a Precompiled normalizer without a usable charsmap");
    uint32_t *units = arena_take(t->arena, trie_bytes);
    if (!units)
        return error_set(err, STATUS_NO_ROOM, "no room for a charsmap");
    memcpy(units, bytes + 4, trie_bytes);
    map->units = units;
    map->unit_count = trie_bytes / 4;
    map->replacements = text_span((char *)bytes + 4 + trie_bytes, count - 4 - trie_bytes);
    return STATUS_OK;
}

static enum status one_open(struct tokenizer *t, struct normalizer *n, const struct jnode *node,
                            struct error *err)
{
    switch (n->kind) {
    case NORMALIZE_REPLACE:
        return replace_open(n, node, err);
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
    if (!jtree_is(node, J_OBJECT))
        return STATUS_OK;
    struct text type = jtree_get_text(node, "type");
    const struct jnode *list = jtree_get(node, "normalizers");
    if (jtree_is(list, J_ARRAY)) {
        enum status status = STATUS_OK;
        for (uint32_t i = 0; i < list->count && status == STATUS_OK; i++)
            status = normalizers_open(t, &list->items[i], err);
        return status;
    }
    if (t->normalizer_count == STAGES_MAX)
        return error_set(err, STATUS_TOO_LARGE, "over %d normalizers", STAGES_MAX);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (text_is(type, kinds[i].name)) {
            struct normalizer *n = &t->normalizers[t->normalizer_count++];
            n->kind = kinds[i].kind;
            return one_open(t, n, node, err);
        }
    return error_set(err, STATUS_UNSUPPORTED, "a normalizer of type %.*s is not known",
                     (int)(type.bytes < 60 ? type.bytes : 60), type.at);
}
