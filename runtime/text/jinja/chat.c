// SPDX-License-Identifier: Apache-2.0
// Opens and renders chat templates; see runtime/text/chat.h. Creates and frees programs, converts
// the JSON of the request to values, and divides the finished text into segments.
#include "runtime/text/chat.h"

#include "base/json.h"
#include "runtime/text/jinja/internal.h"

struct chat_template {
    struct arena *arena;
    struct jinja_program program;
    bool reads_parts;         // true if contents must be lists of parts
    bool accepts_late_system; // true if a system message after others is in the prompt
};

static const struct chat_limits limits_default = {
    .steps_max = 20u * 1000 * 1000,
    .output_bytes_max = 64u * 1024 * 1024,
};

static void template_probe(struct chat_template *chat);

enum status chat_template_create(struct chat_template **out, struct text source, struct error *err)
{
    struct error scratch = {0};
    struct jinja_tokens tokens;
    struct arena *arena = arena_create(0, 512u * 1024 * 1024);
    struct chat_template *chat = arena_alloc_zeroed(arena, 1, sizeof *chat);
    *out = NULL;
    chat->arena = arena;
    chat->program.arena = arena;
    if (!jinja_lex(arena, source, &tokens, &scratch) ||
        !jinja_parse(&chat->program, &tokens, &scratch)) {
        arena_destroy(arena);
        enum status status = scratch.status != STATUS_OK ? scratch.status : STATUS_INVALID;
        return error_set(err, status, "chat template: %s", scratch.text);
    }
    template_probe(chat);
    *out = chat;
    return STATUS_OK;
}

void chat_template_destroy(struct chat_template *chat)
{
    if (chat)
        arena_destroy(chat->arena);
}

bool chat_template_uses(const struct chat_template *chat, const char *name)
{
    for (uint32_t i = NAMES_KNOWN; i < chat->program.name_count; i++)
        if (text_is(chat->program.names[i], name))
            return true;
    return false;
}

// Removes the line end that a template loses at its end.
static struct text source_of(struct text source)
{
    source.bytes -= source.bytes > 0 && source.at[source.bytes - 1] == '\n';
    return source;
}

struct text chat_template_choose(struct arena *arena, struct text with, struct text without)
{
    // An expression before and after each source keeps the white space there.
    static const char *const between[] = {"{% if tools %}{{ '' }}", "{{ '' }}{% else %}{{ '' }}",
                                          "{{ '' }}{% endif %}"};
    with = source_of(with);
    without = source_of(without);
    size_t bytes = with.bytes + without.bytes, at = 0;
    for (size_t i = 0; i < 3; i++)
        bytes += strlen(between[i]);
    char *out = arena_alloc(arena, bytes);
    for (size_t i = 0; out && i < 3; i++) {
        struct text source = i == 0 ? with : i == 1 ? without : (struct text){"", 0};
        memcpy(out + at, between[i], strlen(between[i]));
        at += strlen(between[i]);
        if (source.bytes > 0)
            memcpy(out + at, source.at, source.bytes);
        at += source.bytes;
    }
    return text_span(out, out ? bytes : 0);
}

struct text chat_template_plain(void)
{
    return text_of("{% for message in messages %}{{ message.content }}"
                   "{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}");
}

static bool value_of(struct jinja_run *run, const json_t *json, bool untrusted,
                     struct jinja_value *out);

static bool array_of(struct jinja_run *run, const json_t *json, bool untrusted,
                     struct jinja_value *out)
{
    struct jinja_items items = {0};
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct jinja_value item;
        if (!value_of(run, json_array_get(json, i), untrusted, &item) ||
            !jinja_items_add(run, &items, item))
            return false;
    }
    return jinja_items_list(run, &items, JINJA_IS_LIST, out);
}

static bool object_of(struct jinja_run *run, const json_t *json, bool untrusted,
                      struct jinja_value *out)
{
    size_t count = 0;
    struct jinja_pair *pairs = jinja_alloc(run, json_object_size(json), sizeof *pairs);
    if (!pairs)
        return false;
    json_t *object = (json_t *)json; // iterators take no const, but do not modify it
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        struct text key = text_span(json_object_iter_key(at), json_object_iter_key_len(at));
        if (!jinja_string_make(run, key, untrusted, &pairs[count].key) ||
            !value_of(run, json_object_iter_value(at), untrusted, &pairs[count].value))
            return false;
        count++;
    }
    return jinja_dict_make(run, pairs, count, out);
}

static bool real_of(struct jinja_run *run, const json_t *json, struct jinja_value *out)
{
    struct text digits = json_integer_digits(json);
    if (digits.at)
        return jinja_wide_make(run, digits, json_real_value(json), out);
    *out = jinja_float(json_real_value(json));
    return true;
}

static bool value_of(struct jinja_run *run, const json_t *json, bool untrusted,
                     struct jinja_value *out)
{
    if (!jinja_enter(run))
        return false;
    bool fine = true;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        fine = object_of(run, json, untrusted, out);
        break;
    case JSON_ARRAY:
        fine = array_of(run, json, untrusted, out);
        break;
    case JSON_STRING:
        fine = jinja_string_make(run, text_span(json_string_value(json), json_string_length(json)),
                                 untrusted, out);
        break;
    case JSON_INTEGER:
        *out = jinja_int(json_integer_value(json));
        break;
    case JSON_REAL:
        fine = real_of(run, json, out);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = jinja_bool(json_is_true(json));
        break;
    default:
        *out = jinja_none();
        break;
    }
    run->depth--;
    return fine;
}

static bool is_trusted(const struct chat_input *in, struct text name)
{
    for (uint32_t i = 0; i < in->trusted_count; i++)
        if (text_is(name, in->trusted[i]))
            return true;
    return false;
}

// Binds every name of the program to a variable of the request, to a function, or to nothing.
static bool globals_fill(struct jinja_run *run, const struct chat_input *in)
{
    const struct jinja_program *program = run->program;
    run->globals = jinja_alloc(run, program->name_count, sizeof *run->globals);
    if (!run->globals)
        return false;
    for (uint32_t i = 0; i < program->name_count; i++) {
        struct text name = program->names[i];
        const json_t *json = json_object_getn(in->variables, name.at, name.bytes);
        const struct jinja_row *row = jinja_global_find(name);
        run->globals[i] = (struct jinja_value){.kind = JINJA_MISSING};
        if (json) {
            if (!value_of(run, json, !is_trusted(in, name), &run->globals[i]))
                return false;
        } else if (row) {
            struct jinja_function *function = jinja_alloc(run, 1, sizeof *function);
            if (!function)
                return false;
            *function = (struct jinja_function){.row = row};
            run->globals[i] = (struct jinja_value){.kind = JINJA_FUNCTION, .as.function = function};
        }
    }
    return true;
}

static bool segments_cut(struct jinja_run *run, const struct jinja_builder *b,
                         struct chat_output *out)
{
    out->text = text_span(b->bytes > 0 ? b->at : "", b->bytes);
    out->segment_count = b->count;
    out->segments = jinja_alloc(run, b->count, sizeof *out->segments);
    size_t from = 0;
    for (uint32_t i = 0; out->segments && i < b->count; i++) {
        out->segments[i] =
            (struct text_segment){.text = text_span(b->at + from, b->marks[i].end - from),
                                  .plain = b->marks[i].untrusted};
        from = b->marks[i].end;
    }
    return out->segments != NULL;
}

// Returns a copy of the variables, a new reference, in which each content of a message that is a
// text has become a list of one part.
static json_t *variables_in_parts(const json_t *variables)
{
    json_t *given = json_object_get(variables, "messages"), *message;
    json_t *copy = json_copy((json_t *)variables), *messages = json_array();
    size_t i;
    json_array_foreach(given, i, message)
    {
        json_t *content = json_object_get(message, "content");
        if (!json_is_string(content)) {
            json_array_append(messages, message);
            continue;
        }
        json_t *changed = json_copy(message);
        json_object_set_new(changed, "content",
                            json_pack("[{s:s, s:O}]", "type", "text", "text", content));
        json_array_append_new(messages, changed);
    }
    if (json_is_array(given))
        json_object_set(copy, "messages", messages);
    json_decref(messages);
    return copy;
}

enum status chat_render(const struct chat_template *chat, const struct chat_input *in,
                        struct arena *arena, struct chat_output *out, struct error *err)
{
    struct chat_limits limits = in->limits;
    struct jinja_builder prompt = {0};
    struct jinja_frame frame = {0};
    if (limits.steps_max == 0)
        limits.steps_max = limits_default.steps_max;
    if (limits.output_bytes_max == 0)
        limits.output_bytes_max = limits_default.output_bytes_max;
    struct jinja_run run = {
        .program = &chat->program,
        .arena = arena,
        .err = err,
        .line = 1,
        .steps_left = limits.steps_max,
        .slice = in->slice,
        .output_bytes_max = limits.output_bytes_max,
        .out = &prompt,
        .now = in->now,
    };
    *out = (struct chat_output){0};
    if (!json_is_object(in->variables))
        return error_set(err, STATUS_INVALID, "the variables of a chat template must be an object");
    json_t *in_parts = chat->reads_parts ? variables_in_parts(in->variables) : NULL;
    struct chat_input given = *in;
    given.variables = in_parts ? in_parts : in->variables;
    bool rendered = globals_fill(&run, &given) && jinja_exec(&run, &frame, chat->program.body) &&
                    segments_cut(&run, &prompt, out);
    json_decref(in_parts); // the prompt has copies of its texts
    check(rendered || run.status != STATUS_OK, "a rendering failed without a reason, line %u",
          run.line);
    return rendered ? STATUS_OK : run.status;
}

// Text that no template contains.
static const char probe[] = "weft-probe-7f3a";

// Returns true if the template outputs the probe, which is in the messages. Owns `messages`.
static bool probe_is_rendered(const struct chat_template *chat, json_t *messages)
{
    struct chat_output out;
    struct arena *arena = arena_create(0, 64u * 1024 * 1024);
    json_t *variables = json_pack("{s:s, s:s, s:b, s:o}", "bos_token", "", "eos_token", "",
                                  "add_generation_prompt", 1, "messages", messages);
    const struct chat_input in = {.variables = variables, .limits = {.steps_max = 1 << 20}};
    bool rendered = variables && chat_render(chat, &in, arena, &out, NULL) == STATUS_OK &&
                    memmem(out.text.at, out.text.bytes, probe, sizeof probe - 1);
    json_decref(variables);
    arena_destroy(arena);
    return rendered;
}

// Finds out by rendering which messages the template accepts.
static void template_probe(struct chat_template *chat)
{
    static const char form[] = "[{s:s,s:s}]";
    if (!probe_is_rendered(chat, json_pack(form, "role", "user", "content", probe))) {
        chat->reads_parts = true; // holds during this rendering
        chat->reads_parts =
            probe_is_rendered(chat, json_pack(form, "role", "user", "content", probe));
    }
    chat->accepts_late_system = probe_is_rendered(
        chat, json_pack("[{s:s,s:s},{s:s,s:s},{s:s,s:s},{s:s,s:s}]", "role", "user", "content", "a",
                        "role", "assistant", "content", "b", "role", "system", "content", probe,
                        "role", "user", "content", "c"));
}

bool chat_template_accepts_late_system(const struct chat_template *chat)
{
    return chat->accepts_late_system;
}
