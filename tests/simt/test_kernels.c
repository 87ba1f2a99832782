// SPDX-License-Identifier: Apache-2.0
// Attention and products of the cuda or simt device compared with plain loops in double, and the
// guarantee of exact mode: a row's bits do not depend on the number of rows computed with it, on
// the chunks a prompt was cut into, or on the kernel that computed it. tests/conformance tests the
// other ops.
//
// Everything goes through the device table, so the same program runs on a GPU (bench/gpu.sh). With
// the argument `small` only shapes run that are fast enough for the slow modes.
#include "tests/simt/kernel_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct device_api *weft_device_plugin(void);

enum { HOST_WORDS = 16 };
static const uint64_t FOREVER = UINT64_MAX;

const struct device_api *api;
struct device *device;
static uint32_t *done; // host-visible signal word
static uint32_t signals;
bool small;
static bool mask_all; // true: attention masks every tile
uint32_t random_state = 20240817;

float uniform(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) * 0x1p-23f - 1.0f;
}

void *device_alloc(size_t bytes)
{
    void *at = NULL;
    assert_int_equal(api->memory_alloc(device, &at, bytes, NULL), STATUS_OK);
    return at;
}

void device_free(void *at)
{
    api->memory_free(device, at, 0);
}

void wait_for(struct stream *stream)
{
    struct error err;
    assert_int_equal(api->signal(stream, done, ++signals), STATUS_OK);
    if (api->wait(stream, done, signals, FOREVER, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

void *host_alloc(size_t bytes)
{
    void *at = NULL;
    assert_int_equal(api->host_alloc(device, &at, bytes, NULL), STATUS_OK);
    return at;
}

void store(void *to, enum dtype dtype, size_t i, float value)
{
    if (dtype == DTYPE_F32)
        ((float *)to)[i] = value;
    else
        ((uint16_t *)to)[i] = dtype == DTYPE_BF16 ? f32_to_bf16(value) : f32_to_f16(value);
}

float load(const void *from, enum dtype dtype, size_t i)
{
    if (dtype == DTYPE_F32)
        return ((const float *)from)[i];
    uint16_t bits = ((const uint16_t *)from)[i];
    return dtype == DTYPE_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

// Returns a host array of random numbers of a type, and a device array of the same numbers.
void *random_array(enum dtype dtype, size_t count, float size, void **on_device)
{
    char *host = malloc(count * dtype_bytes(dtype) + 1);
    for (size_t i = 0; i < count; i++)
        store(host, dtype, i, uniform() * size);
    *on_device = device_alloc(count * dtype_bytes(dtype));
    assert_int_equal(api->upload(device, *on_device, host, count * dtype_bytes(dtype), NULL),
                     STATUS_OK);
    return host;
}

static double bound_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 2e-6 : dtype == DTYPE_F16 ? 1e-3 : 5e-3;
}

// --- attention ----------------------------------------------------------------------------------

struct attn_case {
    enum dtype act;
    struct attn_shape shape;
    uint32_t block_shift, blocks_max;
    uint32_t rows;
    uint32_t q_len[8], kv_len[8];
    uint32_t reach; // reach of the bias by distance; 0: there is no bias
};

// The buffers of a case on the device. The KV blocks of a sequence are scattered over the pool.
struct attn_fixture {
    const struct attn_case *c;
    struct stream_limits limits;
    struct stream *stream;
    struct step *host, *record;
    void *qkv, *qkv_host, *kv, *kv_host, *out, *out_host, *bias_host, *sinks_host;
    struct weight bias, sinks;
    uint32_t *table, *table_host;
    uint32_t tokens, blocks;
    size_t block_bytes, token_bytes, head_bytes, value_offset, out_bytes;
};

static bool fp8;        // true: keys and values are e4m3
static bool with_sinks; // true: each head has a sink

// Returns the value of an e4m3 code that is not NaN.
static float e4m3_value(uint8_t code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    float size =
        exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);
    return code & 0x80 ? -size : size;
}

// Fills the KV blocks with random numbers up to 2.
static void blocks_fill(struct attn_fixture *w)
{
    size_t bytes = w->blocks * w->block_bytes;
    if (!fp8) {
        w->kv_host = random_array(w->c->act, bytes / dtype_bytes(w->c->act), 2.0f, &w->kv);
        return;
    }
    uint8_t *codes = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) {
        uint32_t draw = (uint32_t)((uniform() + 1.0f) * 64.0f);
        codes[i] = (uint8_t)((draw < 127 ? draw : 127) % 64 | (uniform() < 0 ? 0x80 : 0));
    }
    w->kv_host = codes;
    w->kv = device_alloc(bytes);
    assert_int_equal(api->upload(device, w->kv, codes, bytes, NULL), STATUS_OK);
}

static void fixture_open(struct attn_fixture *w, const struct attn_case *c)
{
    *w = (struct attn_fixture){.c = c};
    size_t element = dtype_bytes(c->act);
    const struct attn_shape *s = &c->shape;
    for (uint32_t i = 0; i < c->rows; i++)
        w->tokens += c->q_len[i];
    w->limits = (struct stream_limits){
        .step = {.rows_max = 8, .tokens_max = 4096, .slots_max = 8, .blocks_max = c->blocks_max},
        .attn = *s,
        .kv = fp8 ? DTYPE_E4M3 : c->act,
        .width_max = 64,
        .layers = 1};
    assert_int_equal(api->stream_open(device, &w->stream, &w->limits, NULL), STATUS_OK);
    uint32_t block_tokens = 1u << c->block_shift;
    w->token_bytes = s->dim * dtype_bytes(w->limits.kv);
    w->head_bytes = w->token_bytes * block_tokens;
    w->value_offset = w->head_bytes * s->kv_heads;
    w->block_bytes =
        (2 * w->value_offset + TABLE_UNIT_BYTES - 1) / TABLE_UNIT_BYTES * TABLE_UNIT_BYTES;
    w->blocks = c->rows * c->blocks_max + 1;
    w->qkv_host = random_array(c->act, (size_t)w->tokens * (s->heads + 2 * s->kv_heads) * s->dim,
                               2.0f, &w->qkv);
    blocks_fill(w);
    uint32_t biases = s->heads * (2 * c->reach + 1);
    w->bias.shape =
        (struct weight_shape){.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = biases, .k = 1};
    w->bias_host = random_array(DTYPE_F32, biases, 4.0f, &w->bias.data);
    w->sinks.shape = w->bias.shape;
    w->sinks.shape.n = s->heads;
    w->sinks_host = random_array(DTYPE_F32, s->heads, 8.0f, &w->sinks.data);
    w->table_host = calloc(8 * (size_t)(c->blocks_max + 1), 4);
    for (uint32_t i = 0; i < c->rows * c->blocks_max; i++) {
        uint32_t place = (i * 7u + 3u) % w->blocks;
        if (w->blocks % 7 == 0)
            place = (i * 5u + 3u) % w->blocks;
        w->table_host[i] = (uint32_t)(place * w->block_bytes / TABLE_UNIT_BYTES);
    }
    w->table = device_alloc(8 * (size_t)(c->blocks_max + 1) * 4);
    size_t table_bytes = 8 * (size_t)c->blocks_max * 4;
    assert_int_equal(api->upload(device, w->table, w->table_host, table_bytes, NULL), STATUS_OK);
    w->out_bytes = (size_t)w->tokens * s->heads * s->dim * element;
    w->out = device_alloc(w->out_bytes);
    w->out_host = host_alloc(w->out_bytes);
    struct step_layout layout;
    step_layout_init(&layout, &w->limits.step, api->step_private_bytes(device, &w->limits));
    w->host = host_alloc(layout.bytes);
    w->record = device_alloc(layout.bytes);
    w->host->layout = layout;
}

static void fixture_close(struct attn_fixture *w)
{
    api->stream_close(w->stream);
    api->host_free(device, w->host, w->host->layout.bytes);
    api->host_free(device, w->out_host, w->out_bytes);
    void *buffers[] = {w->record, w->qkv, w->kv, w->out, w->table, w->bias.data, w->sinks.data};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        device_free(buffers[i]);
    free(w->qkv_host);
    free(w->kv_host);
    free(w->table_host);
    free(w->bias_host);
    free(w->sinks_host);
}

static bool recorded;    // true: attention is recorded as a graph and launched
static bool begun_twice; // true: a second graph_begin is refused during that recording

// Runs attention of these rows; each row computes its queries [from, from + q_len).
static void fixture_run(struct attn_fixture *w, const struct step_row *rows, uint32_t count)
{
    struct step *step = w->host;
    struct step_layout layout = step->layout;
    memset(step, 0, layout.rows);
    step->layout = layout;
    step->row_count = count;
    memcpy(step_section(step, layout.rows), rows, count * sizeof *rows);
    for (uint32_t i = 0; i < count; i++) {
        step->token_count += rows[i].q_len;
        step->q_len_max = rows[i].q_len > step->q_len_max ? rows[i].q_len : step->q_len_max;
        step->kv_len_max = rows[i].kv_len > step->kv_len_max ? rows[i].kv_len : step->kv_len_max;
    }
    api->step_plan(w->stream, step);
    ((struct attn_work *)step_section(step, layout.private_part))->mask_all = mask_all;
    assert_int_equal(api->copy_in(w->stream, w->record, step, layout.bytes), STATUS_OK);
    struct attn_args args = {.act = w->c->act,
                             .kv = w->limits.kv,
                             .qkv = w->qkv,
                             .out = w->out,
                             .step = w->record,
                             .step_host = step,
                             .block_table = w->table,
                             .kv_base = w->kv,
                             .value_offset = w->value_offset,
                             .head_bytes = w->head_bytes,
                             .token_bytes = w->token_bytes,
                             .shape = w->c->shape,
                             .blocks_max = w->c->blocks_max,
                             .block_shift = w->c->block_shift,
                             .row_count = count,
                             .token_count = step->token_count,
                             .bias = w->c->reach > 0 ? &w->bias : NULL,
                             .reach = w->c->reach,
                             .sinks = with_sinks ? &w->sinks : NULL};
    struct graph *graph = NULL;
    if (recorded)
        assert_int_equal(api->graph_begin(w->stream), STATUS_OK);
    if (begun_twice)
        assert_int_equal(api->graph_begin(w->stream), STATUS_DEVICE_FAULT);
    assert_int_equal(api->ops->attn(w->stream, &args), STATUS_OK);
    if (recorded) {
        assert_int_equal(api->graph_end(w->stream, &graph, NULL), STATUS_OK);
        assert_int_equal(api->graph_launch(w->stream, graph), STATUS_OK);
    }
    assert_int_equal(api->copy_out(w->stream, w->out_host, w->out, w->out_bytes), STATUS_OK);
    wait_for(w->stream);
    api->graph_close(graph);
}

static uint32_t case_rows(const struct attn_case *c, struct step_row rows[8])
{
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < c->rows; i++) {
        rows[i] = (struct step_row){.slot = i,
                                    .q_start = tokens,
                                    .q_len = c->q_len[i],
                                    .kv_len = c->kv_len[i],
                                    .sample = STEP_NO_ROW};
        tokens += c->q_len[i];
    }
    return c->rows;
}

static float kv_value(const struct attn_fixture *w, const struct step_row *row, uint32_t key,
                      uint32_t head, uint32_t value, uint32_t d)
{
    const struct attn_case *c = w->c;
    const struct attn_shape *s = &c->shape;
    if (!s->paged) {
        size_t width = (size_t)(s->heads + 2 * s->kv_heads) * s->dim;
        size_t at = s->heads + value * s->kv_heads + head;
        return load(w->qkv_host, c->act, (row->q_start + key) * width + at * s->dim + d);
    }
    size_t byte = (size_t)w->table_host[row->slot * c->blocks_max + (key >> c->block_shift)] *
                      TABLE_UNIT_BYTES +
                  (key & ((1u << c->block_shift) - 1)) * w->token_bytes + head * w->head_bytes +
                  value * w->value_offset;
    if (fp8) { // the pairs of 16 columns are in the order 0 4 1 5 2 6 3 7
        uint32_t pair = d % 16 / 2, place = pair < 4 ? 2 * pair : 2 * (pair - 4) + 1;
        return e4m3_value(((const uint8_t *)w->kv_host)[byte + d / 16 * 16 + 2 * place + d % 2]);
    }
    return load((const char *)w->kv_host + byte, c->act, d);
}

static void reference_row(const struct attn_fixture *w, const struct step_row *row, uint32_t j,
                          uint32_t head, double *out)
{
    const struct attn_shape *s = &w->c->shape;
    uint32_t position = row->kv_len - row->q_len + j, group = s->heads / s->kv_heads;
    uint32_t hi = s->causal ? position + 1 : row->kv_len;
    if (s->ahead > 0 && position + s->ahead + 1 < hi)
        hi = position + s->ahead + 1;
    uint32_t lo = s->window != 0 && position + 1 > s->window ? position + 1 - s->window : 0;
    size_t width = (size_t)(s->heads + 2 * s->kv_heads) * s->dim;
    size_t query = (row->q_start + j) * width + head * s->dim;
    double *score = malloc(row->kv_len * sizeof *score);
    double top = -INFINITY, sum = 0;
    for (uint32_t key = lo; key < hi; key++) {
        score[key] = 0;
        for (uint32_t d = 0; d < s->dim; d++)
            score[key] += (double)load(w->qkv_host, w->c->act, query + d) *
                          kv_value(w, row, key, head / group, 0, d);
        score[key] *= s->scale;
        int64_t reach = w->c->reach, distance = (int64_t)position - key;
        distance = distance < -reach ? -reach : distance > reach ? reach : distance;
        if (reach > 0)
            score[key] += ((const float *)w->bias_host)[head * (2 * reach + 1) + distance + reach];
        top = fmax(top, score[key]);
    }
    if (with_sinks) {
        double sink = ((const float *)w->sinks_host)[head];
        top = fmax(top, sink);
        sum = exp(sink - top);
    }
    memset(out, 0, s->dim * sizeof *out);
    for (uint32_t key = lo; key < hi; key++) {
        double p = exp(score[key] - top);
        sum += p;
        for (uint32_t d = 0; d < s->dim; d++)
            out[d] += p * kv_value(w, row, key, head / group, 1, d);
    }
    for (uint32_t d = 0; d < s->dim; d++)
        out[d] /= sum;
    free(score);
}

static void fixture_compare(const struct attn_fixture *w, const struct step_row *rows,
                            uint32_t count)
{
    const struct attn_shape *s = &w->c->shape;
    double error = 0, size = 0, want[256];
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < rows[i].q_len; j += 1 + rows[i].q_len / 40)
            for (uint32_t head = 0; head < s->heads; head++) {
                reference_row(w, &rows[i], j, head, want);
                size_t at = ((rows[i].q_start + j) * (size_t)s->heads + head) * s->dim;
                for (uint32_t d = 0; d < s->dim; d++) {
                    double delta = load(w->out_host, w->c->act, at + d) - want[d];
                    error += delta * delta;
                    size += want[d] * want[d];
                }
            }
    printf("  %s%s dim %u heads %u/%u%s%s window %u: %.2e\n", dtype_name(w->c->act),
           fp8 ? " fp8" : "", s->dim, s->heads, s->kv_heads, s->causal ? " causal" : "",
           s->paged ? " paged" : "", s->window, sqrt(error / size));
    assert_true(sqrt(error / size) <= bound_of(w->c->act));
}

// Computes a row in chunks of `size` without other rows: the bits must be those of `whole`.
static void row_chunks(struct attn_fixture *w, const struct step_row *row, uint32_t size,
                       const char *whole)
{
    size_t line = (size_t)w->c->shape.heads * w->c->shape.dim * dtype_bytes(w->c->act);
    for (uint32_t from = 0; from < row->q_len; from += size) {
        struct step_row part = *row;
        uint32_t left = row->q_len - from;
        part.q_start += from;
        part.q_len = left < size ? left : size;
        part.kv_len = row->kv_len - left + part.q_len;
        fixture_run(w, &part, 1);
        assert_memory_equal((char *)w->out_host + part.q_start * line, whole + part.q_start * line,
                            part.q_len * line);
    }
}

static void fixture_chunks(struct attn_fixture *w, const struct step_row *rows, uint32_t count)
{
    static const uint32_t sizes[] = {1, 3, 16, 37, 64};
    if (!w->c->shape.causal || !w->c->shape.paged)
        return;
    char *whole = malloc(w->out_bytes);
    memcpy(whole, w->out_host, w->out_bytes);
    for (uint32_t i = 0; i < count; i++)
        for (size_t z = 0; z < sizeof sizes / sizeof sizes[0]; z++)
            if (rows[i].q_len <= 70 || sizes[z] >= 16)
                row_chunks(w, &rows[i], sizes[z], whole);
    free(whole);
}

// Fills the KV blocks after the ends of the rows with NaN, as a block may contain old data.
static void fixture_poison(struct attn_fixture *w, const struct step_row *rows, uint32_t count)
{
    const struct attn_case *c = w->c;
    for (uint32_t i = 0; i < count && c->shape.paged; i++)
        for (uint32_t key = rows[i].kv_len; key < c->blocks_max << c->block_shift; key++) {
            uint32_t block = w->table_host[rows[i].slot * c->blocks_max + (key >> c->block_shift)];
            size_t at =
                (size_t)block * TABLE_UNIT_BYTES + key % (1u << c->block_shift) * w->token_bytes;
            for (uint32_t head = 0; head < 2 * c->shape.kv_heads; head++) // keys, then values
                memset((char *)w->kv_host + at + head * w->head_bytes, 0xFF, w->token_bytes);
        }
    assert_int_equal(api->upload(device, w->kv, w->kv_host, w->blocks * w->block_bytes, NULL),
                     STATUS_OK);
}

// Computes rows and compares them with the reference, then in chunks with their own bits.
static void attention_check(const struct attn_case *c)
{
    struct attn_fixture w;
    struct step_row rows[8];
    uint32_t count = case_rows(c, rows);
    fixture_open(&w, c);
    fixture_poison(&w, rows, count);
    fixture_run(&w, rows, count);
    fixture_compare(&w, rows, count);
    fixture_chunks(&w, rows, count);
    fixture_close(&w);
}

// Sinks: rows of three parts and of one, a window, and queries on four warps.
static void test_sinks(void **state)
{
    (void)state;
    static const struct attn_case cases[] = {
        {DTYPE_BF16, {8, 2, 64, 0, 0.3f, 1, 1, 0}, 6, 33, 3, {1, 40, 3}, {2100, 130, 66}, 0},
        {DTYPE_F16, {8, 1, 64, 128, 0.3f, 1, 1, 0}, 4, 20, 2, {70, 1}, {200, 300}, 0},
    };
    with_sinks = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        attention_check(&cases[i]);
    with_sinks = false;
}

static void test_attention(void **state)
{
    (void)state;
    static const struct attn_case cases[] = {
        // the last row uses one key of its last tile
        {DTYPE_BF16, {4, 2, 16, 0, 0.25f, 1, 1, 0}, 6, 3, 4, {1, 9, 5, 20}, {70, 9, 133, 65}, 0},
        {DTYPE_BF16, {2, 2, 64, 0, 0.125f, 0, 0, 0}, 6, 0, 3, {70, 1, 20}, {70, 1, 20}, 0},
        {DTYPE_BF16, {7, 1, 80, 40, 0.11f, 1, 1, 0}, 4, 8, 2, {33, 1}, {100, 90}, 0},
        {DTYPE_F16, {2, 1, 256, 0, 0.0625f, 1, 1, 0}, 6, 2, 2, {20, 1}, {66, 63}, 0},
        {DTYPE_F32, {4, 2, 24, 16, 0.2f, 1, 1, 0}, 5, 2, 2, {9, 1}, {40, 33}, 0},
        // windows on both sides, and a bias by distance
        {DTYPE_BF16, {2, 2, 64, 20, 0.125f, 0, 0, 30}, 6, 0, 3, {70, 1, 150}, {70, 1, 150}, 0},
        {DTYPE_F16, {4, 2, 24, 0, 0.2f, 0, 0, 0}, 6, 0, 2, {70, 33}, {70, 33}, 19},
        {DTYPE_F16, {4, 2, 64, 0, 0.1f, 0, 0, 0}, 6, 0, 2, {70, 33}, {70, 33}, 40},
        // a window longer than a part that begins inside one: as one item, and in chunks as
        // separate parts; some of the 18,000 float16 values would show another order of sums
        {DTYPE_F16, {8, 1, 128, 1500, 0.09f, 1, 1, 0}, 6, 36, 1, {18}, {2300}, 0},
        // three parts as separate items; two rows of two parts as one item, the second of which
        // often contains the largest score
        {DTYPE_BF16, {2, 1, 16, 0, 0.3f, 1, 1, 0}, 6, 33, 3, {1, 9, 1}, {2100, 1800, 1024}, 0},
        {DTYPE_BF16,
         {8, 2, 128, 0, 0.09f, 1, 1, 0},
         6,
         36,
         4,
         {1, 40, 2, 130},
         {2200, 1050, 1025, 130},
         0},
        {DTYPE_BF16,
         {4, 1, 64, 1100, 0.125f, 1, 1, 0},
         6,
         36,
         3,
         {1, 70, 1},
         {2300, 1090, 1024},
         0},
        {DTYPE_BF16,
         {12, 12, 32, 0, 0.18f, 0, 0, 0},
         6,
         0,
         4,
         {1, 64, 129, 257},
         {1, 64, 129, 257},
         0},
        {DTYPE_BF16, {20, 1, 96, 0, 0.1f, 1, 1, 0}, 5, 8, 2, {1, 30}, {130, 200}, 0},
    };
    for (size_t i = 0; i < (small ? 10 : sizeof cases / sizeof cases[0]); i++)
        attention_check(&cases[i]);
}

// Keys and values in fp8: decode and prefill, one item and several parts, a row in chunks.
static void test_fp8(void **state)
{
    (void)state;
    static const struct attn_case cases[] = {
        {DTYPE_BF16, {8, 2, 64, 0, 0.125f, 1, 1, 0}, 6, 3, 3, {1, 66, 20}, {70, 130, 65}, 0},
        {DTYPE_F16, {4, 1, 128, 0, 0.09f, 1, 1, 0}, 4, 9, 2, {33, 1}, {133, 90}, 0},
        {DTYPE_BF16, {2, 1, 80, 40, 0.11f, 1, 1, 0}, 5, 5, 2, {20, 1}, {66, 150}, 0},
        {DTYPE_BF16, {4, 1, 128, 0, 0.09f, 1, 1, 0}, 6, 33, 2, {1, 70}, {2100, 1090}, 0},
        {DTYPE_BF16, {8, 1, 64, 1100, 0.125f, 1, 1, 0}, 6, 36, 1, {18}, {2300}, 0},
    };
    fp8 = true;
    for (size_t i = 0; i < (small ? 3 : sizeof cases / sizeof cases[0]); i++)
        attention_check(&cases[i]);
    fp8 = false;
}

// A NaN among the keys or values in fp8 reaches the rows that see it, and no others.
static void test_fp8_nan(void **state)
{
    (void)state;
    static const struct attn_case c = {
        DTYPE_BF16, {2, 1, 64, 0, 0.125f, 1, 1, 0}, 6, 2, 2, {1, 9}, {70, 69}, 0};
    struct attn_fixture w;
    struct step_row rows[8];
    uint32_t count = case_rows(&c, rows);
    fp8 = true;
    fixture_open(&w, &c);
    for (uint32_t value = 0; value < 2; value++) {
        size_t at = (size_t)w.table_host[1] * TABLE_UNIT_BYTES + 2 * w.token_bytes + 5 +
                    value * w.value_offset; // key 66 of the first row
        uint8_t *code = (uint8_t *)w.kv_host + at, before = *code;
        *code = value ? 0xFF : 0x7F;
        assert_int_equal(api->upload(device, w.kv, w.kv_host, w.blocks * w.block_bytes, NULL),
                         STATUS_OK);
        fixture_run(&w, rows, count);
        uint32_t nans[2] = {0, 0};
        for (size_t i = 0; i < (size_t)10 * 2 * 64; i++)
            nans[i >= 2 * 64] += isnan(load(w.out_host, c.act, i));
        assert_int_equal(nans[0], value ? 2 : 2 * 64); // of each head one column, or all
        assert_int_equal(nans[1], 0);
        *code = before;
    }
    fixture_close(&w);
    fp8 = false;
}

// Tests both bodies of the tile loop. By default a tile is masked only if a row must not see all of
// it, so decode rows at complete tiles, and bidirectional rows, use only the unmasked body. With
// the plan's mask_all every tile is masked. The bits must not differ: rows together, alone, with
// any other rows, and in chunks of 1 to 64.
static void test_both_bodies(void **state)
{
    (void)state;
    static const struct attn_case cases[] = {
        {DTYPE_BF16,
         {4, 2, 16, 0, 0.25f, 1, 1, 0},
         6,
         3,
         4,
         {1, 66, 64, 1},
         {128, 130, 192, 64},
         0},
        {DTYPE_F16, {2, 1, 80, 70, 0.11f, 1, 1, 0}, 5, 6, 3, {1, 40, 3}, {192, 128, 130}, 0},
        {DTYPE_BF16, {2, 2, 64, 0, 0.125f, 0, 0, 0}, 6, 0, 3, {128, 64, 20}, {128, 64, 20}, 0},
        {DTYPE_BF16, {2, 2, 64, 70, 0.125f, 0, 0, 64}, 6, 0, 3, {130, 64, 20}, {130, 64, 20}, 50},
        {DTYPE_BF16, {2, 1, 128, 0, 0.09f, 1, 1, 0}, 6, 36, 2, {1, 2}, {2176, 1152}, 0},
        {DTYPE_BF16, {1, 1, 256, 0, 0.06f, 1, 1, 0}, 6, 2, 2, {1, 30}, {64, 128}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attn_fixture w;
        struct step_row rows[8];
        uint32_t count = case_rows(&cases[i], rows);
        fixture_open(&w, &cases[i]);
        fixture_run(&w, rows, count);
        fixture_compare(&w, rows, count);
        char *whole = malloc(w.out_bytes);
        memcpy(whole, w.out_host, w.out_bytes);
        size_t line = (size_t)cases[i].shape.heads * cases[i].shape.dim * 2;
        for (int masked = 1; masked >= 0; masked--) {
            mask_all = masked;
            fixture_run(&w, rows, count);
            assert_memory_equal(w.out_host, whole, w.out_bytes);
            for (uint32_t r = 0; r < count; r++) { // alone, then with the row before it
                fixture_run(&w, &rows[r], 1);
                assert_memory_equal((char *)w.out_host + rows[r].q_start * line,
                                    whole + rows[r].q_start * line, rows[r].q_len * line);
                fixture_run(&w, &rows[r != 0 ? r - 1 : 0], r != 0 ? 2 : 1);
                assert_memory_equal(w.out_host, whole, w.out_bytes);
            }
            for (uint32_t size = 1; size <= (i == 0 && !small ? 64 : 0); size++)
                row_chunks(&w, &rows[1], size, whole);
        }
        free(whole);
        fixture_close(&w);
    }
}

// Repeats the case with outputs filled with NaN and blocks in the order of a seed, so that another
// block merges the parts: the bits must be the same.
static void fixture_again(struct attn_fixture *w, const struct step_row *rows, uint32_t count,
                          uint32_t seed)
{
    char *before = malloc(w->out_bytes);
    memcpy(before, w->out_host, w->out_bytes);
    memset(w->out_host, 0xFF, w->out_bytes);
    assert_int_equal(api->upload(device, w->out, w->out_host, w->out_bytes, NULL), STATUS_OK);
    if (simt_configure)
        simt_configure(&(struct simt_options){.seed = seed});
    fixture_run(w, rows, count);
    if (simt_configure)
        simt_configure(&(struct simt_options){0});
    assert_memory_equal(w->out_host, before, w->out_bytes);
    free(before);
}

// Outside exact mode parts are small enough to fill the device: one tile or several. Blocks of 16,
// 32 and 64 keys; head dims with and without a kernel of their own; windows that leave parts empty.
static void test_small_parts(void **state)
{
    (void)state;
    static const struct attn_case cases[] = {
        {DTYPE_BF16,
         {8, 2, 128, 0, 0.09f, 1, 1, 0},
         4,
         18,
         4,
         {1, 1, 3, 1},
         {1000, 64, 700, 65},
         0},
        {DTYPE_F16, {4, 2, 80, 130, 0.11f, 1, 1, 0}, 5, 8, 3, {1, 2, 1}, {200, 199, 17}, 0},
        {DTYPE_BF16, {4, 4, 64, 0, 0.125f, 1, 1, 0}, 6, 4, 3, {1, 4, 70}, {256, 150, 180}, 0},
        {DTYPE_F16, {3, 1, 256, 70, 0.06f, 1, 1, 0}, 6, 4, 2, {5, 1}, {190, 256}, 0},
        {DTYPE_BF16, {2, 1, 96, 0, 0.1f, 1, 1, 0}, 4, 18, 2, {8, 1}, {1100, 1}, 0},
        // rows of more than 16 packed queries that are cut into narrow tiles
        {DTYPE_BF16, {4, 1, 128, 0, 0.09f, 1, 1, 0}, 4, 18, 2, {9, 1}, {1100, 300}, 0},
        {DTYPE_F16, {20, 1, 96, 0, 0.1f, 1, 1, 0}, 6, 18, 2, {1, 1}, {1150, 70}, 0},
        {DTYPE_BF16, {6, 2, 80, 1060, 0.11f, 1, 1, 0}, 5, 20, 1, {11}, {1279}, 0},
    };
    struct device *exact = device;
    struct device_options options = {.exact = false, .note = note};
    struct error err;
    if (api->open(&device, &options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attn_fixture w;
        struct step_row rows[8];
        uint32_t count = case_rows(&cases[i], rows);
        fixture_open(&w, &cases[i]);
        fixture_run(&w, rows, count);
        const struct attn_work *work =
            (const struct attn_work *)((const char *)w.host + w.host->layout.private_part);
        assert_true(work->part_tokens < ATTN_PART_TOKENS && work->merge_count > 0);
        assert_int_equal(work->wide_count != 0, i == 2);
        fixture_compare(&w, rows, count);
        for (uint32_t seed = 1; seed <= 3; seed++)
            fixture_again(&w, rows, count, seed);
        recorded = w.host->q_len_max == 1;
        fixture_again(&w, rows, count, 0);
        recorded = false;
        fixture_close(&w);
    }
    api->close(device);
    device = exact;
}

// On a card with less shared memory wide items have 64 rows instead of 128; the bits are the same.
static void test_cards_of_little_shared_memory(void **state)
{
    (void)state;
    static const struct attn_case cases[] = {
        {DTYPE_BF16, {4, 2, 128, 0, 0.09f, 1, 1, 0}, 6, 36, 3, {40, 1, 70}, {1100, 300, 130}, 0},
        {DTYPE_F16, {3, 1, 96, 100, 0.1f, 1, 1, 0}, 5, 8, 2, {50, 1}, {200, 70}, 0},
    };
    if (!simt_configure)
        skip();
    struct error err;
    struct device *roomy = device;
    struct device_options options = {.exact = true, .note = note};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attn_fixture w[2];
        struct step_row rows[8];
        uint32_t count = case_rows(&cases[i], rows), seed = random_state, wide[2];
        for (uint32_t k = 0; k < 2; k++) {
            random_state = seed;
            simt_configure(&(struct simt_options){.shared_most = k == 0 ? 0 : 99 << 10});
            if (k == 1)
                assert_int_equal(api->open(&device, &options, &err), STATUS_OK);
            fixture_open(&w[k], &cases[i]);
            fixture_run(&w[k], rows, count);
            wide[k] = attn_plan_of(w[k].host)->wide_count;
        }
        assert_true(wide[1] > wide[0]);
        assert_memory_equal(w[0].out_host, w[1].out_host, w[0].out_bytes);
        fixture_close(&w[1]);
        api->close(device);
        device = roomy;
        simt_configure(&(struct simt_options){0});
        fixture_close(&w[0]);
    }
}

static uint64_t blocks_of_run(struct attn_fixture *w, const struct step_row *rows, uint32_t count)
{
    struct simt_counts before, after;
    simt_read(&before);
    fixture_run(w, rows, count);
    simt_read(&after);
    return after.blocks - before.blocks;
}

// A recorded launch has the full grid, because later replays may need it, also after a refused
// second begin; launches after the recording do not.
static void test_grid_after_recording(void **state)
{
    (void)state;
    if (!simt_read)
        skip();
    static const struct attn_case c = {
        DTYPE_BF16, {4, 2, 16, 0, 0.25f, 1, 1, 0}, 6, 3, 2, {1, 1}, {70, 9}, 0};
    struct attn_fixture w;
    struct step_row rows[8];
    struct graph *graph = NULL;
    uint32_t count = case_rows(&c, rows);
    fixture_open(&w, &c);
    uint64_t blocks = blocks_of_run(&w, rows, count);
    assert_int_equal(api->graph_begin(w.stream), STATUS_OK);
    assert_int_equal(api->copy_in(w.stream, w.record, w.host, w.host->layout.bytes), STATUS_OK);
    assert_int_equal(api->graph_end(w.stream, &graph, NULL), STATUS_OK);
    assert_int_equal(blocks_of_run(&w, rows, count), blocks);
    api->graph_close(graph);
    recorded = true;
    uint64_t full = blocks_of_run(&w, rows, count);
    begun_twice = true;
    uint64_t refused = blocks_of_run(&w, rows, count);
    recorded = begun_twice = false;
    assert_true(full > blocks);
    assert_int_equal(refused, full);
    fixture_close(&w);
}

// The fragment loads of attention and of the wide product have no bank conflicts; exact mode calls
// no product of the library. The emulator counted them during the tests above.
static void test_counts(void **state)
{
    (void)state;
    if (!simt_read)
        skip();
    struct simt_counts counts;
    simt_read(&counts);
    printf("  %llu launches, %llu ldmatrix, %llu conflicts\n", (unsigned long long)counts.launches,
           (unsigned long long)counts.ldsm, (unsigned long long)counts.ldsm_conflicts);
    assert_true(counts.ldsm > 0);
    assert_int_equal(counts.ldsm_conflicts, 0);
    assert_int_equal(counts.blas_calls, 0);
    assert_int_equal(counts.reports, 0);
}

static int setup(void **state)
{
    (void)state;
    struct error err;
    struct device_options options = {.exact = true, .note = note};
    api = weft_device_plugin();
    if (api->open(&device, &options, &err) != STATUS_OK) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    done = host_alloc(HOST_WORDS * 4);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    api->host_free(device, done, HOST_WORDS * 4);
    api->close(device);
    return 0;
}

int main(int argc, char **argv)
{
    small = argc > 1 && strcmp(argv[1], "small") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_staging),
        cmocka_unit_test(test_three_pieces),
        cmocka_unit_test(test_direct_refused),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_sinks),
        cmocka_unit_test(test_fp8),
        cmocka_unit_test(test_fp8_nan),
        cmocka_unit_test(test_both_bodies),
        cmocka_unit_test(test_small_parts),
        cmocka_unit_test(test_grid_after_recording),
        cmocka_unit_test(test_cards_of_little_shared_memory),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_experts),
    };
    return cmocka_run_group_tests_name("kernels", tests, setup, teardown);
}
