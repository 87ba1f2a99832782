// weft embed: reads one text per line, writes its vector as one JSON array per line, normalised as
// the server does.
#include "cli/command.h"

#include <string.h>

static enum status embed_line(struct session *session, struct text line, struct arena *arena,
                              struct json_buffer *out, struct error *err)
{
    const struct tokenizer *tokenizer = session->model->tokenizer;
    const struct model_facts *facts = engine_facts(session->model->engine);
    unsigned in_text =
        session->model->spec.settings.special_tokens_in_text ? ENCODE_ADDED_TOKENS : ENCODE_PLAIN;
    struct encode_args encode = {.text = line, .flags = ENCODE_SPECIAL | in_text, .arena = arena};
    uint32_t bound = tokenizer_bound(tokenizer, line.bytes);
    int32_t *tokens = arena_take(arena, bound * sizeof *tokens);
    uint32_t count;
    enum status status = tokenizer_encode(tokenizer, &encode, tokens, bound, &count, err);
    if (status != STATUS_OK)
        return status;
    if (count == 0)
        return error_set(err, STATUS_INVALID, "the text has no tokens");
    if (count > facts->max_model_len)
        return error_set(err, STATUS_TOO_LARGE, "the text is too long: %u tokens > %u maximum",
                         count, facts->max_model_len);
    uint32_t start[2] = {0, count};
    struct submit_args submit = {.kind = REQUEST_EMBED,
                                 .tokens = tokens,
                                 .token_count = count,
                                 .sequence_count = 1,
                                 .sequence_start = start,
                                 .choice_count = 1};
    struct request *request;
    status = session_pool(session, &submit, facts->output_width, &request, err);
    if (status != STATUS_OK)
        return status;
    const float *values = request_values(request, 0);
    out->bytes = 0;
    for (uint32_t i = 0; i < facts->output_width; i++) {
        json_put_literal(out, i == 0 ? "[" : ", ");
        json_put_float(out, values[i]);
    }
    json_put_literal(out, "]\n");
    port_free(session->port, request);
    return STATUS_OK;
}

static enum status embed(struct session *session, void *settings, struct error *err)
{
    (void)settings;
    enum status status = STATUS_OK;
    struct line_reader reader = {0};
    struct json_buffer out = {0};
    struct arena *arena = arena_create(0, 0);
    struct text line;
    for (uint64_t number = 1; status == STATUS_OK && line_next(&reader, &line); number++) {
        arena_reset(arena);
        status = text_check("the text", line, err);
        if (status == STATUS_OK)
            status = embed_line(session, line, arena, &out, err);
        if (status != STATUS_OK) {
            error_prefix(err, "line %llu", (unsigned long long)number);
            break;
        }
        fwrite(out.at, 1, out.bytes, stdout);
        status = output_flush(err);
    }
    arena_destroy(arena);
    json_buffer_free(&out);
    return line_reader_end(&reader, status, err);
}

int command_embed(const struct command *self, int argc, char **argv)
{
    struct session_command command = {
        .self = self, .argc = argc, .argv = argv, .kind = MODEL_EMBEDDER, .body = embed};
    return session_command_run(&command);
}
