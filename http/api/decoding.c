// SPDX-License-Identifier: Apache-2.0
// Decoding fields: see decoding.h.
#include "http/api/decoding.h"

#include "http/api/fields.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/random.h"

#include <math.h>

enum { STOPS_MAX = 16, BIAS_MAX = 1024 };

static const struct field_rule stream_rows[] = {
    FIELD_TYPED("include_usage", "b"),
    FIELD_TYPED("continuous_usage_stats", "b"),
    FIELD_HARMLESS("include_obfuscation", "b"),
};
static const struct field_rules stream_members = FIELD_RULES(stream_rows, NULL);

static const struct field_rule decoding_rows[] = {
    FIELD_READ_BY("model"),
    FIELD_READ_BY("max_tokens"),
    FIELD_READ_BY("stream"),
    FIELD_OBJECT("stream_options", stream_members),
    FIELD_READ_BY("n"),
    FIELD_READ_BY("temperature"),
    FIELD_READ_BY("top_p"),
    FIELD_READ_BY("top_k"),
    FIELD_READ_BY("min_p"),
    FIELD_READ_BY("seed"),
    FIELD_READ_BY("presence_penalty"),
    FIELD_READ_BY("frequency_penalty"),
    FIELD_READ_BY("repetition_penalty"),
    FIELD_TYPED("repeat_penalty", "n"), // its type is checked even if repetition_penalty is used
    FIELD_READ_BY("logit_bias"),
    FIELD_READ_BY("allowed_token_ids"),
    FIELD_READ_BY("bad_words"),
    FIELD_READ_BY("stop"),
    FIELD_READ_BY("stop_token_ids"),
    FIELD_READ_BY("include_stop_str_in_output"),
    FIELD_READ_BY("min_tokens"),
    FIELD_READ_BY("ignore_eos"),
    FIELD_READ_BY("skip_special_tokens"),
    FIELD_READ_BY("truncate_prompt_tokens"),
    FIELD_READ_BY("cache_salt"),
    FIELD_OBJECT("response_format", structured_format_members),
    FIELD_OBJECT("structured_outputs", structured_members),
    FIELD_TYPED("guided_json", "so"),
    FIELD_TYPED("guided_regex", "s"),
    FIELD_TYPED("guided_choice", "a"),
    FIELD_TYPED("guided_grammar", "s"),

    FIELD_HARMLESS("user", "s"),
    FIELD_HARMLESS("metadata", "o"),
    FIELD_HARMLESS("safety_identifier", "s"),
    FIELD_HARMLESS("store", "b"),
    FIELD_HARMLESS("service_tier", "s"),
    FIELD_HARMLESS("cache_prompt", "b"),

    FIELD_NOT_SERVED_BUT("output_config", "o", "[{}]", "use response_format"),
    FIELD_NOT_SERVED_BUT("output_format", "o", NULL, "use response_format"),
};
const struct field_rules decoding_rules = FIELD_RULES(decoding_rows, &generation_not_served);

// Returns the operator's default, or `usual` if there is none.
static double default_of(double own, double usual)
{
    return isnan(own) ? usual : own;
}

uint32_t decoding_tokens_default(const struct generation *g, uint32_t usual)
{
    return (uint32_t)default_of(g->call.model->facts->defaults.max_tokens, usual);
}

// Smaller penalties are raised to this value. They have the same effect (a token that was seen
// becomes as likely or unlikely as possible), but logits stay finite.
static const double repetition_least = 1e-4;

static double repetition_read(struct fields *f, double usual)
{
    const char *name =
        fields_get(f, "repetition_penalty") ? "repetition_penalty" : "repeat_penalty";
    double repetition = fields_number(f, name, (struct number_range){0, 2, usual});
    if (repetition == 0)
        fields_fail(f, HTTP_INVALID_VALUE, name, "must be above 0");
    return repetition < repetition_least ? repetition_least : repetition;
}

// A field that the endpoint's table rejects may be present with its neutral value; it then
// overrides the operator's default.
void decoding_read_sampling(struct generation *g, double temperature_max, int64_t top_k_min)
{
    struct fields *f = &g->call.fields;
    const struct model_defaults *own = &g->call.model->facts->defaults;
    double temperature =
        fields_number(f, "temperature",
                      (struct number_range){0, temperature_max, default_of(own->temperature, 1)});
    double top_p =
        fields_number(f, "top_p", (struct number_range){0, 1, default_of(own->top_p, 1)});
    int64_t top_k = fields_integer(
        f, "top_k",
        (struct integer_range){top_k_min, INT64_MAX, (int64_t)default_of(own->top_k, 0)});
    double min_p =
        fields_number(f, "min_p", (struct number_range){0, 1, default_of(own->min_p, 0)});
    g->submit.sampling = (struct sampling){
        .temperature = temperature < 1e-5 ? 0 : (float)temperature,
        .top_p = (float)top_p,
        .top_k = top_k <= 0          ? 0
                 : top_k < INT32_MAX ? (uint32_t)top_k
                                     : INT32_MAX,
        .min_p = (float)min_p,
        .repetition = (float)repetition_read(f, default_of(own->repetition_penalty, 1)),
        .seed = random_seed(),
    };
}

static void stop_add(struct generation *g, const json_t *value, const char *path, uint32_t max)
{
    struct fields *f = &g->call.fields;
    struct text string = json_text(value);
    if (!string.at) {
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be a string");
    } else if (string.bytes > STOP_BYTES_MAX) {
        fields_fail(f, HTTP_INVALID_VALUE, path, "must be at most %d bytes long, got %zu",
                    STOP_BYTES_MAX, string.bytes);
    } else if (string.bytes > 0) {
        check(g->options.stops.count < max, "%u stop strings", max);
        struct text copy = arena_copy(f->arena, string);
        if (copy.at)
            g->options.stops.strings[g->options.stops.count++] = copy;
        else
            fields_fail(f, HTTP_TOO_LARGE, path, "is too large");
    }
}

void decoding_read_stops(struct generation *g, const char *name, bool string_allowed, uint32_t max)
{
    struct fields *f = &g->call.fields;
    const json_t *value = fields_get(f, name);
    size_t n = json_array_size(value);
    if (!value)
        return;
    if (string_allowed && json_is_string(value)) {
        stop_add(g, value, name, max);
        return;
    }
    if (!json_is_array(value)) {
        fields_fail(f, HTTP_INVALID_TYPE, name, "must be %san array of strings",
                    string_allowed ? "a string or " : "");
    } else if (n > max) {
        fields_fail(f, HTTP_INVALID_VALUE, name, "must hold at most %u strings, got %zu", max, n);
    }
    for (size_t i = 0; i < n && !f->failed; i++)
        stop_add(g, json_array_get(value, i), fields_path(f, "%s[%zu]", name, i), max);
}

static void stream_read(struct generation *g)
{
    const json_t *options = fields_get(&g->call.fields, "stream_options");
    g->stream = fields_bool(&g->call.fields, "stream", false);
    g->usage.included = json_is_true(json_object_get(options, "include_usage"));
    g->usage.continuous =
        g->usage.included && json_is_true(json_object_get(options, "continuous_usage_stats"));
}

static void penalties_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    struct sampling *s = &g->submit.sampling;
    s->presence = (float)fields_number(f, "presence_penalty", (struct number_range){-2, 2, 0});
    s->frequency = (float)fields_number(f, "frequency_penalty", (struct number_range){-2, 2, 0});
}

static uint32_t vocab_of(const struct generation *g)
{
    return g->call.model->facts->vocab;
}

// Parses a decimal token id without leading zeros. Returns false if the model has no such id.
static bool id_parse(struct text digits, uint32_t vocab, int32_t *out)
{
    uint64_t id = 0;
    if (digits.bytes == 0 || digits.bytes > 10 || (digits.bytes > 1 && digits.at[0] == '0'))
        return false;
    for (size_t i = 0; i < digits.bytes; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return false;
        id = 10 * id + (uint64_t)(digits.at[i] - '0');
    }
    *out = (int32_t)id;
    return id < vocab;
}

static void bias_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *value = fields_get(f, "logit_bias");
    size_t count = json_object_size(value), bytes;
    const char *name;
    json_t *each;
    if (value && !json_is_object(value)) {
        fields_fail(f, HTTP_INVALID_TYPE, "logit_bias", "must be an object");
    } else if (count > BIAS_MAX) {
        fields_fail(f, HTTP_INVALID_VALUE, "logit_bias", "must hold at most %d tokens, got %zu",
                    BIAS_MAX, count);
    }
    if (f->failed || count == 0)
        return;
    struct token_bias *bias = arena_alloc(f->arena, count * sizeof *bias);
    if (!bias) {
        fields_fail(f, HTTP_TOO_LARGE, "logit_bias", "is too large");
        return;
    }
    g->submit.bias = bias;
    json_object_keylen_foreach((json_t *)value, name, bytes, each)
    {
        struct token_bias *b = &bias[g->submit.bias_count++];
        const char *path = fields_path(f, "logit_bias.%s", name);
        double number = json_number_value(each);
        if (!id_parse(text_span(name, bytes), vocab_of(g), &b->token)) {
            fields_fail(f, HTTP_INVALID_VALUE, path, "must be named by a token id below %u",
                        vocab_of(g));
        } else if (!json_is_number(each)) {
            fields_fail(f, HTTP_INVALID_TYPE, path, "must be a number");
        } else if (!(number >= -100 && number <= 100)) {
            fields_fail(f, HTTP_INVALID_VALUE, path, "must be between -100 and 100, got %.15g",
                        number);
        }
        b->value = (float)number;
    }
}

static void stop_ids_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *value = fields_get(f, "stop_token_ids");
    size_t count = json_array_size(value);
    if (value && !json_is_array(value)) {
        fields_fail(f, HTTP_INVALID_TYPE, "stop_token_ids", "must be an array of token ids");
    } else if (count > REQUEST_STOP_IDS_MAX) {
        fields_fail(f, HTTP_INVALID_VALUE, "stop_token_ids", "must hold at most %d ids, got %zu",
                    REQUEST_STOP_IDS_MAX, count);
    }
    if (f->failed || count == 0)
        return;
    int32_t *ids = arena_alloc(f->arena, count * sizeof *ids);
    if (!ids)
        fields_fail(f, HTTP_TOO_LARGE, "stop_token_ids", "is too large");
    else
        fields_token_ids(f, value, "stop_token_ids", vocab_of(g), (struct id_hints){"", ""}, ids);
    g->submit.stop_ids = ids;
    g->submit.stop_id_count = (uint32_t)count;
}

void decoding_add_stops(struct generation *g, const int32_t *ids, uint32_t count)
{
    struct fields *f = &g->call.fields;
    uint32_t given = g->submit.stop_id_count;
    count = smaller(count, REQUEST_STOP_IDS_MAX - given);
    int32_t *all = arena_alloc(f->arena, (given + count + 1) * sizeof *all);
    if (!all) {
        fields_fail(f, HTTP_TOO_LARGE, "stop_token_ids", "is too large");
        return;
    }
    for (uint32_t i = 0; i < given; i++)
        all[i] = g->submit.stop_ids[i];
    for (uint32_t i = 0; i < count; i++)
        all[given + i] = ids[i];
    g->submit.stop_ids = all;
    g->submit.stop_id_count = given + count;
}

static void end_read(struct generation *g, uint32_t tokens_max)
{
    struct fields *f = &g->call.fields;
    int64_t most = tokens_max > 0 ? tokens_max : UINT32_MAX;
    g->submit.max_tokens = tokens_max;
    g->options.stops_from =
        (uint32_t)fields_integer(f, "min_tokens", (struct integer_range){0, most, 0});
    g->submit.sampling.output_min = g->options.stops_from;
    g->submit.ignore_end = fields_bool(f, "ignore_eos", false);
    g->options.stops.included = fields_bool(f, "include_stop_str_in_output", false);
    g->options.special_shown = !fields_bool(f, "skip_special_tokens", true);
    decoding_read_stops(g, "stop", true, STOPS_MAX);
    stop_ids_read(g);
}

void decoding_read_salt(struct generation *g)
{
    enum { SALT_BYTES_MAX = 128 };
    struct fields *f = &g->call.fields;
    struct text salt = fields_string(f, "cache_salt");
    if (!salt.at)
        return;
    if (salt.bytes == 0 || salt.bytes > SALT_BYTES_MAX)
        fields_fail(f, HTTP_INVALID_VALUE, "cache_salt", "must be 1 to %d bytes long, got %zu",
                    SALT_BYTES_MAX, salt.bytes);
    struct hash hash = hash_own(salt.at, salt.bytes);
    g->submit.cache_salt[0] = hash.low;
    g->submit.cache_salt[1] = hash.high;
}

// -1 means the context window minus one token for the answer.
static void prompt_keep_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    int64_t most = g->call.model->facts->max_model_len - 1;
    int64_t last =
        fields_integer(f, "truncate_prompt_tokens", (struct integer_range){-1, INT64_MAX, 0});
    if (fields_get(f, "truncate_prompt_tokens") && last == 0)
        fields_fail(f, HTTP_INVALID_VALUE, "truncate_prompt_tokens", "must be -1 or at least 1");
    g->prompt.keep = (uint32_t)(last < 0 || last > most ? most : last);
}

void decoding_read(struct generation *g, uint32_t tokens_max)
{
    struct fields *f = &g->call.fields;
    decoding_read_sampling(g, 2, -1);
    int64_t seed = fields_integer(f, "seed", (struct integer_range){INT64_MIN, INT64_MAX, 0});
    if (fields_get(f, "seed"))
        g->submit.sampling.seed = (uint64_t)seed;
    g->submit.prompts_differ = !fields_get(f, "seed");
    g->submit.choice_count =
        (uint32_t)fields_integer(f, "n", (struct integer_range){1, g->call.model->n_max, 1});
    penalties_read(g);
    bias_read(g);
    end_read(g, tokens_max);
    token_fields_read(g);
    structured_read(g);
    decoding_read_salt(g);
    prompt_keep_read(g);
    stream_read(g);
}
