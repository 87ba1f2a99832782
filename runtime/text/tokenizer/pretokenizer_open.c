// SPDX-License-Identifier: Apache-2.0
// Reads the `pre_tokenizer` of a tokenizer file into a flat list of stages.
#include "runtime/text/tokenizer/internal.h"

static const char *const kinds[] = {
    [PRE_BYTE_LEVEL] = "ByteLevel",
    [PRE_METASPACE] = "Metaspace",
    [PRE_SPLIT] = "Split",
    [PRE_BERT] = "BertPreTokenizer",
    [PRE_WHITESPACE] = "Whitespace",
    [PRE_WHITESPACE_SPLIT] = "WhitespaceSplit",
    [PRE_PUNCTUATION] = "Punctuation",
    [PRE_DIGITS] = "Digits",
    [PRE_DELIMITER] = "CharDelimiterSplit",
    [PRE_FIXED_LENGTH] = "FixedLength",
    [PRE_SCRIPTS] = "UnicodeScripts",
};

static enum status behavior_open(struct pre_tokenizer *p, struct text name, struct error *err)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (text_is(name, names[i])) {
            p->behavior = (enum split_behavior)i;
            return STATUS_OK;
        }
    return error_set(err, STATUS_UNSUPPORTED, "a split behavior %.*s is not known",
                     (int)(name.bytes < 60 ? name.bytes : 60), name.at);
}

static enum status split_open(struct pre_tokenizer *p, const struct jnode *node, struct error *err)
{
    const struct jnode *pattern = jtree_get(node, "pattern");
    struct text regex = jtree_get_text(pattern, "Regex");
    p->text = jtree_get_text(pattern, "String");
    p->invert = jtree_get_bool(node, "invert", false);
    if (!regex.at && !p->text.at)
        return error_set(err, STATUS_INVALID, "a Split without a pattern");
    enum status status = behavior_open(p, jtree_get_text(node, "behavior"), err);
    if (status != STATUS_OK || !regex.at)
        return status;
    p->scan = scan_for(regex, &p->digits_max);
    return !p->scan ? regex_create(&p->regex, regex, err) : STATUS_OK;
}

static enum status metaspace_open(struct pre_tokenizer *p, const struct jnode *node,
                                  struct error *err)
{
    p->text = jtree_get_text(node, "replacement");
    if (p->text.bytes == 0)
        return error_set(err, STATUS_INVALID, "a Metaspace without a replacement");
    struct text scheme = jtree_get_text(node, "prepend_scheme");
    bool add = jtree_get_bool(node, "add_prefix_space", true);
    p->scheme = text_is(scheme, "first")   ? PREPEND_FIRST
                : text_is(scheme, "never") ? PREPEND_NEVER
                : !scheme.at && !add       ? PREPEND_NEVER
                                           : PREPEND_ALWAYS;
    p->split = jtree_get_bool(node, "split", true);
    return STATUS_OK;
}

static enum status one_open(struct tokenizer *t, uint32_t kind, const struct jnode *node,
                            struct error *err)
{
    struct pre_tokenizer *p = &t->pre[t->pre_count++];
    struct text behavior = jtree_get_text(node, "behavior");
    int64_t length;
    p->kind = (enum pre_kind)kind;
    switch (p->kind) {
    case PRE_BYTE_LEVEL:
        p->add_prefix_space = jtree_get_bool(node, "add_prefix_space", true);
        p->use_regex = jtree_get_bool(node, "use_regex", true);
        p->map_bytes = true;
        return STATUS_OK;
    case PRE_METASPACE:
        return metaspace_open(p, node, err);
    case PRE_SPLIT:
        return split_open(p, node, err);
    case PRE_PUNCTUATION:
        p->behavior = SPLIT_ISOLATED;
        return behavior.at ? behavior_open(p, behavior, err) : STATUS_OK;
    case PRE_DIGITS:
        p->behavior =
            jtree_get_bool(node, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        return STATUS_OK;
    case PRE_DELIMITER:
        p->text = jtree_get_text(node, "delimiter");
        return STATUS_OK;
    case PRE_FIXED_LENGTH:
        length = jtree_integer(jtree_get(node, "length"), 1 << 20);
        p->length = length > 0 ? (uint32_t)length : 5;
        return STATUS_OK;
    default:
        return STATUS_OK;
    }
}

enum status pretokenizers_open(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    const struct stage_list list = {"pre-tokenizer", "pretokenizers",
                                    kinds,           sizeof kinds / sizeof *kinds,
                                    &t->pre_count,   one_open};
    return stages_open(t, node, &list, err);
}
