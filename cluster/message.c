// SPDX-License-Identifier: Apache-2.0
// Headers, facts and their comparison; see message.h.
#include "cluster/message.h"

#include "base/arena.h"
#include "base/hash.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static const uint8_t magic[4] = {'w', 'e', 'f', 't'};

_Static_assert(sizeof(struct message_head) == 16, "a header without padding");

void message_head_write(void *to, enum message_kind kind, uint32_t origin, uint32_t model,
                        uint64_t number)
{
    struct message_head head = {{0}, (uint8_t)kind, (uint8_t)origin, (uint16_t)model, number};
    memcpy(head.magic, magic, sizeof magic);
    memcpy(to, &head, sizeof head);
}

// Returns true if the payload of a message of this kind may have this size.
static bool payload_fits(uint8_t kind, size_t bytes)
{
    switch (kind) {
    case MESSAGE_HELLO:
        return bytes >= sizeof(struct hello_head) && bytes <= MESSAGE_FACTS_MAX;
    case MESSAGE_REFUSE:
    case MESSAGE_FAULT:
        return bytes <= MESSAGE_SENTENCE_MAX;
    case MESSAGE_RESULT:
        return bytes == sizeof(struct hash);
    case MESSAGE_LAUNCH:
    case MESSAGE_SAMPLE:
    case MESSAGE_DATA:
        return bytes <= MESSAGE_BYTES_MAX;
    default:
        return bytes == 0;
    }
}

enum status message_parse(struct node_message *out, const void *at, size_t bytes, uint32_t nodes,
                          uint32_t models, struct error *err)
{
    struct message_head *head = &out->head;
    if (bytes < sizeof *head)
        return error_set(err, STATUS_INVALID, "a message of %zu bytes has no header", bytes);
    memcpy(head, at, sizeof *head);
    if (memcmp(head->magic, magic, sizeof magic) != 0)
        return error_set(err, STATUS_INVALID, "a message does not come from weft");
    if (head->kind >= MESSAGE_KINDS)
        return error_set(err, STATUS_INVALID, "a message is of kind %u, which does not exist",
                         head->kind);
    if (head->origin >= nodes || head->model >= models)
        return error_set(err, STATUS_INVALID, "a message is of node %u and model %u, of %u and %u",
                         head->origin, head->model, nodes, models);
    out->at = (const char *)at + sizeof *head;
    out->bytes = bytes - sizeof *head;
    if (!payload_fits(head->kind, out->bytes))
        return error_set(err, STATUS_INVALID, "a message of kind %u has %zu bytes", head->kind,
                         out->bytes);
    return STATUS_OK;
}

// Returns true if the text is UTF-8 of one line.
static bool text_is_plain(struct text text)
{
    for (size_t at = 0, length; at < text.bytes; at += length) {
        length = utf8_valid(text.at + at, text.bytes - at);
        if (length == 0 || (unsigned char)text.at[at] < ' ' || text.at[at] == 0x7f)
            return false;
    }
    return true;
}

struct text message_sentence(const struct node_message *message)
{
    struct text text = {message->at, message->bytes};
    return text.bytes > 0 && text_is_plain(text) ? text
                                                 : text_of("a sentence that is not plain text");
}

void facts_add(struct facts *facts, const char *name, const char *value)
{
    const char *const texts[] = {name, value};
    for (int i = 0; i < 2; i++) {
        size_t bytes = strnlen(texts[i], MESSAGE_FACT_TEXT_MAX - 1);
        facts->at = heap_grow(facts->at, facts->bytes + bytes + 1);
        memcpy(facts->at + facts->bytes, texts[i], bytes);
        facts->at[facts->bytes + bytes] = '\0';
        facts->bytes += bytes + 1;
    }
}

void facts_free(struct facts *facts)
{
    heap_free(facts->at);
    *facts = (struct facts){0};
}

// Reads a text that ends with a NUL and removes it. Returns false if there is none, or if it is too
// long or not plain text.
static bool fact_text(struct text *rest, struct text *out)
{
    const char *end = rest->bytes > 0 ? memchr(rest->at, '\0', rest->bytes) : NULL;
    if (!end)
        return false;
    *out = text_span(rest->at, (size_t)(end - rest->at));
    if (out->bytes >= MESSAGE_FACT_TEXT_MAX || !text_is_plain(*out))
        return false;
    *rest = text_span(end + 1, rest->bytes - out->bytes - 1);
    return true;
}

bool facts_next(struct text *rest, struct text *name, struct text *value)
{
    struct text left = *rest;
    if (!fact_text(&left, name) || !fact_text(&left, value))
        return false;
    *rest = left;
    return true;
}

enum status hello_compare(const struct facts *own, uint32_t nodes, const struct node_message *hello,
                          const char *node, struct error *err)
{
    struct hello_head head;
    check(hello->bytes >= sizeof head, "a HELLO of %zu bytes", hello->bytes);
    memcpy(&head, hello->at, sizeof head);
    if (head.version != MESSAGE_VERSION)
        return error_set(err, STATUS_INVALID,
                         "%s uses version %u of the protocol, node 0 version %d: start the same "
                         "version of weft on all nodes",
                         node, head.version, MESSAGE_VERSION);
    if (head.nodes != nodes)
        return error_set(err, STATUS_INVALID,
                         "%s: --nnodes is %u, on node 0 it is %u: start all nodes with the same "
                         "options",
                         node, head.nodes, nodes);
    struct text mine = {own->at, own->bytes}, theirs, name, value, other_name, other_value;
    theirs = text_span((const char *)hello->at + sizeof head, hello->bytes - sizeof head);
    for (;;) {
        bool more = facts_next(&mine, &name, &value);
        if (facts_next(&theirs, &other_name, &other_value) != more)
            return error_set(err, STATUS_INVALID, "%s states other facts than node 0", node);
        if (!more)
            break;
        if (!text_equal(name, other_name))
            return error_set(err, STATUS_INVALID,
                             "%s states '%.*s', node 0 '%.*s': start all nodes with the same "
                             "models and options",
                             node, (int)other_name.bytes, other_name.at, (int)name.bytes, name.at);
        if (!text_equal(value, other_value))
            return error_set(err, STATUS_INVALID,
                             "%s: %.*s is %.*s, on node 0 it is %.*s: start all nodes with the "
                             "same options and the same files",
                             node, (int)name.bytes, name.at, (int)other_value.bytes, other_value.at,
                             (int)value.bytes, value.at);
    }
    return theirs.bytes == 0 ? STATUS_OK
                             : error_set(err, STATUS_INVALID, "%s sends malformed facts", node);
}
