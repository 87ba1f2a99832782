// SPDX-License-Identifier: Apache-2.0
// Post-processors. Every kind becomes a list of items for one text and a list for a pair.
#include "runtime/text/tokenizer/internal.h"

enum { TEMPLATE_ITEMS_MAX = 256 };

static void run_item(struct encode *e, const struct encode_args *args,
                     const struct template_item *item)
{
    e->type_id = item->type_id;
    switch (item->kind) {
    case TEMPLATE_A:
        encode_text(e, args->text, item->type_id);
        break;
    case TEMPLATE_B:
        if (args->pair_start)
            *args->pair_start = e->token_count;
        encode_text(e, *args->pair, item->type_id);
        break;
    case TEMPLATE_IDS:
        for (uint32_t i = 0; i < item->id_count && (args->flags & ENCODE_SPECIAL) != 0; i++)
            encode_push(e, item->ids[i]);
        break;
    }
}

void encode_post(struct encode *e, const struct encode_args *args)
{
    const struct post_processor *post = &e->t->post;
    bool pair = args->pair != NULL;
    const struct template_item *items = pair ? post->pair : post->single;
    uint32_t count = pair ? post->pair_count : post->single_count;
    for (uint32_t i = 0; i < count && e->status == STATUS_OK; i++)
        run_item(e, args, &items[i]);
}

static struct template_item *add_item(struct tokenizer *t, bool pair, enum template_kind kind,
                                      uint8_t type_id)
{
    uint32_t *count = pair ? &t->post.pair_count : &t->post.single_count;
    struct template_item **items = pair ? &t->post.pair : &t->post.single;
    if (!*items)
        *items = arena_alloc_zeroed(t->arena, TEMPLATE_ITEMS_MAX, sizeof **items);
    if (!*items || *count == TEMPLATE_ITEMS_MAX)
        return NULL;
    (*items)[*count] = (struct template_item){.kind = kind, .type_id = type_id};
    return &(*items)[(*count)++];
}

static void add_id(struct tokenizer *t, bool pair, uint32_t id, uint8_t type_id)
{
    struct template_item *item = add_item(t, pair, TEMPLATE_IDS, type_id);
    uint32_t *ids = item ? arena_alloc(t->arena, sizeof *ids) : NULL;
    if (!ids)
        return;
    *ids = id;
    item->ids = ids;
    item->id_count = 1;
}

static void plain_template(struct tokenizer *t, uint8_t pair_type)
{
    t->post = (struct post_processor){0};
    add_item(t, false, TEMPLATE_A, 0);
    add_item(t, true, TEMPLATE_A, 0);
    add_item(t, true, TEMPLATE_B, pair_type);
}

static enum status special_ids(struct tokenizer *t, const struct jnode *specials, struct text name,
                               struct template_item *item, struct error *err)
{
    for (uint32_t i = 0; jtree_is(specials, J_OBJECT) && i < specials->count; i++) {
        if (!text_equal(jtree_text(&specials->items[2 * i]), name))
            continue;
        const struct jnode *ids = jtree_get(&specials->items[2 * i + 1], "ids");
        uint32_t count = jtree_is(ids, J_ARRAY) ? ids->count : 0;
        uint32_t *to = arena_alloc(t->arena, (count + 1) * sizeof *to);
        for (uint32_t k = 0; k < count; k++) {
            int64_t id = jtree_integer(&ids->items[k], IDS_MAX - 1);
            if (id < 0)
                return error_set(err, STATUS_INVALID, "post_processor: a bad id in special_tokens");
            to[k] = (uint32_t)id;
        }
        item->ids = to;
        item->id_count = count;
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "post_processor: special token %.*s is not described",
                     (int)(name.bytes < 100 ? name.bytes : 100), name.at);
}

static enum status template_items(struct tokenizer *t, const struct jnode *node, bool pair,
                                  struct error *err)
{
    const struct jnode *list = jtree_get(node, pair ? "pair" : "single");
    uint32_t count = jtree_is(list, J_ARRAY) ? list->count : 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct jnode *sequence = jtree_get(&list->items[i], "Sequence");
        const struct jnode *special = jtree_get(&list->items[i], "SpecialToken");
        const struct jnode *item = sequence ? sequence : special;
        int64_t type_id = jtree_integer(jtree_get(item, "type_id"), 255);
        struct text id = jtree_get_text(item, "id");
        if (!id.at)
            return error_set(err, STATUS_INVALID, "post_processor: an item that is unknown");
        enum template_kind kind = special == item    ? TEMPLATE_IDS
                                  : text_is(id, "B") ? TEMPLATE_B
                                                     : TEMPLATE_A;
        if (kind == TEMPLATE_B && !pair)
            return error_set(err, STATUS_INVALID, "post_processor: a second text in `single`");
        struct template_item *made = add_item(t, pair, kind, type_id < 0 ? 0 : (uint8_t)type_id);
        if (!made)
            return error_set(err, STATUS_TOO_LARGE, "post_processor: too many items");
        enum status status = STATUS_OK;
        if (kind == TEMPLATE_IDS)
            status = special_ids(t, jtree_get(node, "special_tokens"), id, made, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status bert_items(struct tokenizer *t, const struct jnode *node, bool roberta,
                              struct error *err)
{
    const struct jnode *sep = jtree_get(node, "sep"), *cls = jtree_get(node, "cls");
    int64_t sep_id = -1, cls_id = -1;
    if (jtree_is(sep, J_ARRAY) && sep->count == 2 && jtree_is(cls, J_ARRAY) && cls->count == 2) {
        sep_id = jtree_integer(&sep->items[1], IDS_MAX - 1);
        cls_id = jtree_integer(&cls->items[1], IDS_MAX - 1);
    }
    if (sep_id < 0 || cls_id < 0)
        return error_set(err, STATUS_INVALID, "post_processor: `sep` and `cls` are not usable");
    uint8_t second = roberta ? 0 : 1;
    for (int pair = 0; pair < 2; pair++) {
        add_id(t, pair, (uint32_t)cls_id, 0);
        add_item(t, pair, TEMPLATE_A, 0);
        add_id(t, pair, (uint32_t)sep_id, 0);
    }
    if (roberta)
        add_id(t, true, (uint32_t)sep_id, 0);
    add_item(t, true, TEMPLATE_B, second);
    add_id(t, true, (uint32_t)sep_id, second);
    return STATUS_OK;
}

enum status post_open(struct tokenizer *t, const struct jnode *node, struct error *err)
{
    if (!t->post.single)
        plain_template(t, 1);
    if (!jtree_is(node, J_OBJECT))
        return STATUS_OK;
    struct text type = jtree_get_text(node, "type");
    // ByteLevel changes only offsets, which weft does not use.
    if (text_is(type, "ByteLevel"))
        return STATUS_OK;
    if (text_is(type, "Sequence")) {
        const struct jnode *list = jtree_get(node, "processors");
        enum status status = STATUS_OK;
        for (uint32_t i = 0; jtree_is(list, J_ARRAY) && i < list->count && status == STATUS_OK; i++)
            if (!text_is(jtree_get_text(&list->items[i], "type"), "Sequence"))
                status = post_open(t, &list->items[i], err);
        return status;
    }
    t->post = (struct post_processor){0};
    if (text_is(type, "BertProcessing") || text_is(type, "RobertaProcessing"))
        return bert_items(t, node, text_is(type, "RobertaProcessing"), err);
    if (!text_is(type, "TemplateProcessing"))
        return error_set(err, STATUS_UNSUPPORTED, "post_processor %.*s is not known",
                         (int)(type.bytes < 100 ? type.bytes : 100), type.at);
    enum status status = template_items(t, node, false, err);
    if (status == STATUS_OK)
        status = template_items(t, node, true, err);
    return status;
}
