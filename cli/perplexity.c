// SPDX-License-Identifier: Apache-2.0
// weft perplexity: measures how well a model predicts a text, in windows, to compare dtypes.
//
// The command fills batches itself and does not run the engine. Each token of a step is a separate
// row, because all logits are needed; the slots of the rows share one sequence of KV blocks. Main
// thread.
#include "cli/command.h"
#include "cli/load_print.h"
#include "cli/logits_file.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#include <math.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 30, WINDOW_DEFAULT = 1024, WINDOW_MIN = 2 };

struct perplexity_settings {
    const char *file;
    const char *write_logits, *compare_logits; // NULL: not set
    uint32_t window, stride;
    bool json;
};

#define AT(field) offsetof(struct perplexity_settings, field)
static const struct option_row rows[] = {
    OPTION_NUMBER("window", OPTION_COUNT, AT(window), WINDOW_MIN, 1e9,
                  "1024, or the model's maximum if that is less",
                  "tokens of a window, the longest context of a prediction"),
    OPTION_NUMBER(
        "stride", OPTION_COUNT, AT(stride), 1, 1e9, "half a window",
        "tokens from the start of a window to the start of the next; each token counts once"),
    OPTION_ROW("write-logits", OPTION_TEXT, AT(write_logits), "none",
               "file for the logits of each predicted token, four bytes for each entry of the "
               "vocabulary"),
    OPTION_ROW("compare-logits", OPTION_TEXT, AT(compare_logits), "none",
               "file of --write-logits, of another dtype or device, that the logits are compared "
               "with"),
    OPTION_ROW("json", OPTION_FLAG, AT(json), "off", "print one JSON object instead of lines"),
};

struct reading {
    struct model *model;
    const struct model_facts *facts;
    struct batch *batch;
    float *logits;      // [step_rows][vocab]
    uint32_t step_rows; // tokens per step; divides the size of a KV block
    uint64_t step, patience_ns;
    double sum; // sum of -log p
    uint64_t count;
    struct logits_file logits_file;
};

// Returns -log p of the token.
static double token_surprise(const float *logits, uint32_t vocab, int32_t token)
{
    float top = logits[0];
    double sum = 0;
    for (uint32_t i = 1; i < vocab; i++)
        top = logits[i] > top ? logits[i] : top;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)(logits[i] - top));
    return log(sum) - (double)(logits[token] - top);
}

// Adds a KV block of the window to the block table of every slot. With the first block it also adds
// the slots to the step as new sequences.
static void block_add(struct reading *r, uint32_t block)
{
    struct batch *batch = r->batch;
    for (uint32_t slot = 0; slot < r->step_rows; slot++) {
        batch_changes(batch)[batch->change_count++] = (struct batch_change){slot, block, block};
        if (block > 0)
            continue;
        struct batch_new_sequence *new_sequence =
            &batch_new_sequences(batch)[batch->new_sequence_count++];
        *new_sequence = (struct batch_new_sequence){.slot = slot};
        new_sequence->params =
            (struct sample_params){.top_p = 1, .repetition = 1, .penalty_row = STEP_NO_ROW};
    }
}

static enum status step_run(struct reading *r, const int32_t *next, uint32_t count,
                            struct error *err)
{
    struct model_output out;
    enum status status = model_launch(r->model, r->batch, err);
    if (status == STATUS_OK && count > 0)
        status = model_logits(r->model, r->logits, clock_ns() + r->patience_ns, err);
    if (status == STATUS_OK)
        status = model_sample(r->model, NULL, 0, err);
    if (status == STATUS_OK)
        status = model_collect(r->model, &out, clock_ns() + r->patience_ns, err);
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
        const float *logits = r->logits + (size_t)i * r->facts->vocab;
        r->sum += token_surprise(logits, r->facts->vocab, next[i]);
        status = logits_file_add(&r->logits_file, next[i], logits, err);
    }
    r->count += status == STATUS_OK ? count : 0;
    return status;
}

// Computes tokens [0, count) of a window, and adds those from index `counted` on to the result.
static enum status window_read(struct reading *r, const int32_t *tokens, uint32_t count,
                               uint32_t counted, struct error *err)
{
    enum status status = STATUS_OK;
    uint32_t last = count - 1; // the last token is predicted, but not an input
    for (uint32_t at = 0; status == STATUS_OK && at < last; at += r->step_rows) {
        struct batch *batch = r->batch;
        batch_clear(batch, r->step++);
        if (at % r->facts->block_tokens == 0)
            block_add(r, at / r->facts->block_tokens);
        uint32_t end = last - at < r->step_rows ? last : at + r->step_rows;
        // first position whose logits are needed
        uint32_t first = counted > at + 1 ? counted - 1 : at;
        for (uint32_t i = at; i < end; i++) {
            batch_rows(batch)[batch->row_count++] =
                (struct batch_row){i - at,        1,
                                   i + 1,         batch->token_count,
                                   STEP_NO_TYPE,  i >= first ? WANT_TOKEN : WANT_NOTHING,
                                   BATCH_NO_MASK, 0};
            batch_tokens(batch)[batch->token_count++] = tokens[i];
        }
        batch->computed_count = end - at;
        status = step_run(r, tokens + first + 1, end > first ? end - first : 0, err);
    }
    return status;
}

static void reading_open(struct reading *r, const struct session *session)
{
    const struct model_facts *facts = engine_facts(session->model->engine);
    const struct step_limits *limits = &facts->limits;
    *r = (struct reading){.model = session->model->model,
                          .facts = facts,
                          .patience_ns = engine_step_timeout(session->model->engine)};
    uint32_t fit = limits->rows_max < limits->tokens_max ? limits->rows_max : limits->tokens_max;
    fit = fit < limits->new_sequences_max ? fit : limits->new_sequences_max;
    r->step_rows = facts->block_tokens;
    while (r->step_rows > fit)
        r->step_rows /= 2;
    r->batch = heap_alloc(batch_bytes(limits));
    batch_init(r->batch, limits);
    r->logits = heap_alloc((size_t)r->step_rows * facts->vocab * sizeof *r->logits);
}

static enum status text_read(struct session *session, const char *file, int32_t **tokens,
                             uint32_t *count, size_t *bytes, struct error *err)
{
    struct arena *arena = session->loaded.arena;
    const struct tokenizer *tokenizer = session->model->tokenizer;
    struct text text;
    enum status status = strcmp(file, "-") == 0
                             ? stdin_read(&text, arena, err)
                             : file_read(&text, arena, file, TEXT_BYTES_MAX, err);
    if (status == STATUS_OK)
        status = text_check("the text", text, err);
    if (status != STATUS_OK)
        return status;
    struct encode_args encode = {.text = text, .flags = ENCODE_SPECIAL, .arena = arena};
    uint32_t bound = tokenizer_bound(tokenizer, text.bytes);
    *tokens = arena_alloc(arena, bound * sizeof **tokens);
    *bytes = text.bytes;
    status = tokenizer_encode(tokenizer, &encode, *tokens, bound, count, err);
    if (status == STATUS_OK)
        status = session_tokens_check(session, *tokens, *count, err);
    if (status == STATUS_OK && *count < 2)
        return error_set(
            err, STATUS_INVALID,
            "the text has %u tokens and must have at least 2, because the first is not predicted",
            *count);
    return status;
}

static enum status settings_check(const void *settings, struct error *err)
{
    const struct perplexity_settings *s = settings;
    if (s->write_logits != NULL && s->compare_logits != NULL)
        return error_set(err, STATUS_INVALID, "give --write-logits or --compare-logits, not both");
    if (s->window == 0 || s->stride < s->window)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "--stride %u must be below --window %u: the first token of a window is not "
                     "predicted",
                     s->stride, s->window);
}

// Sets the defaults and checks the settings against the model.
static enum status windows_choose(struct perplexity_settings *s, const struct model_facts *facts,
                                  struct error *err)
{
    uint32_t most = facts->max_model_len;
    if (s->window == 0)
        s->window = most < WINDOW_DEFAULT ? most : WINDOW_DEFAULT;
    if (s->stride == 0)
        s->stride = s->window / 2;
    if (s->window > most)
        return error_set(err, STATUS_INVALID, "--window %u is over the model's %u tokens",
                         s->window, most);
    return settings_check(s, err); // once more, because the default window depends on the model
}

// Prints the figures of the comparison: at the end of the JSON object, or as a line.
static void comparison_print(const struct logits_file *f, bool json)
{
    double count = (double)f->count;
    const char *form = json ? ",\"kl_divergence\":%.4g,\"equal_best\":%.6g,\"logit_error\":%.4g"
                            : "compared: KL divergence %.4g nats, equal best tokens %.6g, mean "
                              "error of a logit %.4g\n";
    printf(form, f->divergence / count, (double)f->equal / count, f->difference / count);
}

static void result_print(const struct reading *r, const struct perplexity_settings *s, size_t bytes)
{
    double perplexity = exp(r->sum / (double)r->count);
    double bits = r->sum / log(2.0) / (double)bytes;
    const char *form = s->json ? "{\"perplexity\":%.6g,\"tokens\":%llu,\"bits_per_byte\":%.6g,"
                                 "\"window\":%u,\"stride\":%u,\"dtype\":\"%s\""
                               : "perplexity %.6g\ntokens %llu\nbits per byte %.6g\nwindow %u, "
                                 "stride %u, %s\n";
    printf(form, perplexity, (unsigned long long)r->count, bits, s->window, s->stride,
           facts_held(r->facts));
    if (r->logits_file.compares)
        comparison_print(&r->logits_file, s->json);
    if (s->json)
        printf("}\n");
}

static enum status reading_logits_open(struct reading *r, const struct perplexity_settings *s,
                                       struct error *err)
{
    struct logits_head head = {.vocab = r->facts->vocab, .window = s->window, .stride = s->stride};
    bool compares = s->compare_logits != NULL;
    return logits_file_open(&r->logits_file, compares ? s->compare_logits : s->write_logits,
                            compares, &head, err);
}

static enum status perplexity_measure(struct session *session, void *settings, struct error *err)
{
    struct perplexity_settings *s = settings;
    int32_t *tokens = NULL;
    uint32_t count = 0;
    size_t bytes = 0;
    enum status status = windows_choose(s, engine_facts(session->model->engine), err);
    if (status == STATUS_OK)
        status = text_read(session, s->file, &tokens, &count, &bytes, err);
    if (status != STATUS_OK)
        return status;
    struct reading r;
    reading_open(&r, session);
    status = reading_logits_open(&r, s, err);
    uint32_t done = 1; // tokens [0, done) are in the result; the first cannot be predicted
    for (uint32_t at = 0; status == STATUS_OK && done < count; at += s->stride) {
        uint32_t size = count - at < s->window ? count - at : s->window;
        status = window_read(&r, tokens + at, size, done - at, err);
        done = at + size;
        log_line(LOG_INFO, "%u of %u tokens", done, count);
    }
    if (status == STATUS_OK && !isfinite(r.sum))
        status = error_set(err, STATUS_DEVICE_FAULT, "the result of the model is not finite");
    status = logits_file_close(&r.logits_file, status, err);
    if (status == STATUS_OK)
        result_print(&r, s, bytes);
    heap_free(r.batch);
    heap_free(r.logits);
    return status;
}

int command_perplexity(const struct command *self, int argc, char **argv)
{
    struct perplexity_settings s = {0};
    struct session_command command = {.self = self,
                                      .argc = argc,
                                      .argv = argv,
                                      .own = {rows, sizeof rows / sizeof *rows},
                                      .own_title = "Perplexity:",
                                      .settings = &s,
                                      .second = &s.file,
                                      .kind = MODEL_GENERATOR,
                                      .settings_check = settings_check,
                                      .body = perplexity_measure};
    return session_command_run(&command);
}
