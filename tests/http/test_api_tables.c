// SPDX-License-Identifier: Apache-2.0
// The field tables match the code that reads the fields: each member that an endpoint reads is in
// its table, so that it is documented and type-checked; each field that an error recommends is
// read. The JSON reading functions are wrapped (tests/http/CMakeLists.txt).
#include "api_cases.h"

#include "http/api/call.h"

#define TEST(name) API_TEST(name, NULL)

enum { NAMES_MAX = 2048, OBJECTS_MAX = 32 };

// The last body's objects that have a table, the body first, and the names that were read from
// them.
static struct {
    const json_t *objects[OBJECTS_MAX];
    const struct field_rules *rules[OBJECTS_MAX];
    uint32_t object_count;
    struct {
        const json_t *object;
        const char *name;
    } reads[NAMES_MAX];
    uint32_t read_count;
    bool ended;
} seen;

void __real_fields_init(struct fields *f, struct arena *arena, enum shape shape,
                        const json_t *root);
void __wrap_fields_init(struct fields *f, struct arena *arena, enum shape shape,
                        const json_t *root);
void __wrap_fields_init(struct fields *f, struct arena *arena, enum shape shape, const json_t *root)
{
    memset(&seen, 0, sizeof seen);
    seen.objects[0] = root;
    seen.object_count = 1;
    __real_fields_init(f, arena, shape, root);
}

static const struct field_rule *rule_of(const struct field_rules *rules, const char *name,
                                        size_t bytes)
{
    for (; rules; rules = rules->more)
        for (uint32_t i = 0; i < rules->count; i++) {
            const char *known = rules->rows[i].name;
            if (strcmp(known, "*") == 0 ||
                (strlen(known) == bytes && memcmp(known, name, bytes) == 0))
                return &rules->rows[i];
        }
    return NULL;
}

void __real_fields_check_known(struct fields *f, const struct field_rules *rules);
void __wrap_fields_check_known(struct fields *f, const struct field_rules *rules);
void __wrap_fields_check_known(struct fields *f, const struct field_rules *rules)
{
    const char *name;
    json_t *value;
    seen.rules[0] = rules;
    json_object_foreach((json_t *)f->root, name, value)
    {
        const struct field_rule *rule = rule_of(rules, name, strlen(name));
        if (json_is_object(value) && rule && rule->members) {
            assert_true(seen.object_count < OBJECTS_MAX);
            seen.objects[seen.object_count] = value;
            seen.rules[seen.object_count++] = rule->members;
        }
    }
    __real_fields_check_known(f, rules);
}

void __real_call_body_end(struct body_call *call);
void __wrap_call_body_end(struct body_call *call);
void __wrap_call_body_end(struct body_call *call) // afterwards another object may use its memory
{
    __real_call_body_end(call);
    seen.ended = true;
}

json_t *__real_json_object_get(const json_t *object, const char *name);
json_t *__wrap_json_object_get(const json_t *object, const char *name);
json_t *__wrap_json_object_get(const json_t *object, const char *name)
{
    if (object && seen.object_count > 0 && !seen.ended) {
        assert_true(seen.read_count < NAMES_MAX);
        seen.reads[seen.read_count].object = object;
        seen.reads[seen.read_count++].name = name; // a literal, if it names a field
    }
    return __real_json_object_get(object, name);
}

#define OBJECTS                                                                                    \
    ",\"chat_template_kwargs\":{},\"thinking\":{\"type\":\"disabled\"},\"stream_options\":{}"
static const struct {
    enum model_kind kind;
    const char *path, *body;
} requests[] = {
    {MODEL_GENERATOR, "/v1/chat/completions",
     "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"reasoning\":{},"
     "\"response_format\":{\"type\":\"text\"},\"structured_outputs\":{}" OBJECTS},
    {MODEL_GENERATOR, "/v1/completions",
     "\"prompt\":\"a\",\"response_format\":{\"type\":\"text\"},\"structured_outputs\":{},"
     "\"stream_options\":{}"},
    {MODEL_GENERATOR, "/infill",
     "\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":[{\"text\":\"c\"}],"
     "\"stream_options\":{}"},
    {MODEL_GENERATOR, "/v1/responses",
     "\"input\":\"a\",\"reasoning\":{},\"text\":{},\"structured_outputs\":{}" OBJECTS},
    {MODEL_GENERATOR, "/v1/messages",
     "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"thinking\":{\"type\":\"disabled\"},"
     "\"output_config\":{},\"chat_template_kwargs\":{},\"metadata\":{}"},
    {MODEL_GENERATOR, "/v1/messages/count_tokens",
     "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"thinking\":{\"type\":\"disabled\"}"},
    {MODEL_GENERATOR, "/tokenize", "\"content\":\"a\""},
    {MODEL_GENERATOR, "/tokenize", "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"},
    {MODEL_GENERATOR, "/detokenize", "\"tokens\":[65]"},
    {MODEL_EMBEDDER, "/v1/embeddings", "\"input\":\"a\""},
    {MODEL_RERANKER, "/v1/rerank", "\"query\":\"a\",\"documents\":[\"b\"]"},
};
enum { REQUESTS = sizeof requests / sizeof *requests };

// Sends the request; its tables are then in `seen`.
static void ask(size_t i)
{
    char body[1024];
    fake_begin(requests[i].kind);
    fake_dialect("hermes", "think");
    fake_chat.thinks = true;
    fake_infill(true, true);
    snprintf(body, sizeof body, "{\"model\":\"m\",%s}", requests[i].body);
    fake_request(requests[i].path, body);
    if (fake.submits != 1 && fake.status != 200)
        fail_msg("%s %s: %s", requests[i].path, body, fake.sent);
    assert_non_null(seen.rules[0]);
}

static void done(void)
{
    if (fake.submits == 1)
        fake_gone(); // frees the reader of its response
    fake_end();
}

TEST(test_what_is_read_stands_in_the_table)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        uint32_t found = 0;
        ask(i);
        for (uint32_t r = 0; r < seen.read_count; r++)
            for (uint32_t o = 0; o < seen.object_count; o++) {
                const char *name = seen.reads[r].name;
                if (seen.reads[r].object != seen.objects[o])
                    continue;
                if (strcmp(requests[i].path, "/tokenize") == 0 && strcmp(name, "messages") == 0)
                    continue; // distinguishes its two tables
                if (!rule_of(seen.rules[o], name, strlen(name)))
                    fail_msg("%s reads '%s' (%u), which its table does not have", requests[i].path,
                             name, o);
                found++;
            }
        assert_true(found > 2);
        done();
    }
}

// Returns whether a dotted path, or a route, is read.
static bool is_read(const struct field_rules *rules, const char *name, size_t bytes)
{
    const char *dot = memchr(name, '.', bytes);
    size_t head = dot ? (size_t)(dot - name) : bytes;
    if (*name == '/')
        for (size_t i = 0; i < REQUESTS; i++)
            if (strlen(requests[i].path) == bytes && memcmp(requests[i].path, name, bytes) == 0)
                return true;
    const struct field_rule *rule = rule_of(rules, name, head);
    if (!rule || rule->use != FIELD_READ)
        return false;
    return !dot || (rule->members && is_read(rule->members, dot + 1, bytes - head - 1));
}

// Checks each name in "use NAME" and "use NAME or NAME". Returns the number of names.
static uint32_t hints_check(const char *path, const struct field_rules *all,
                            const struct field_rules *rules)
{
    uint32_t checked = 0;
    for (const struct field_rules *each = rules; each; each = each->more)
        for (uint32_t i = 0; i < each->count; i++) {
            const struct field_rule *row = &each->rows[i];
            if (row->members)
                checked += hints_check(path, all, row->members);
            if (!row->hint || strncmp(row->hint, "use ", 4) != 0 ||
                strncmp(row->hint, "use the ", 8) == 0 ||
                rule_of(rules, row->name, strlen(row->name)) != row)
                continue; // another table precedes it
            for (const char *name = row->hint + 4; name;) {
                const char *more = strstr(name, " or ");
                size_t bytes = more ? (size_t)(more - name) : strlen(name);
                if (!is_read(all, name, bytes))
                    fail_msg("%s: '%s' advises '%.*s', which is not read", path, row->name,
                             (int)bytes, name);
                checked++;
                name = more ? more + 4 : NULL;
            }
        }
    return checked;
}

TEST(test_hints_name_what_is_read)
{
    uint32_t checked = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        ask(i);
        checked += hints_check(requests[i].path, seen.rules[0], seen.rules[0]);
        done();
    }
    assert_true(checked > 30);
}
