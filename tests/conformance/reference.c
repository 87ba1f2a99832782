// SPDX-License-Identifier: Apache-2.0
// The ops in double, as short as possible and not optimized; see reference.h.
#include "kernels/cpu/bytes.h"
#include "tests/conformance/reference.h"

#include "kernels/attn_tiles.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float *data_of(const struct weight *weight)
{
    return !weight ? NULL : weight->data;
}

void reference_prep(const struct prep_args *a)
{
    const char *step = (const char *)a->step;
    const struct step_layout *at = &a->step->layout;
    const struct step_new_sequence *added = (const void *)(step + at->new_sequences);
    const struct step_change *change = (const void *)(step + at->changes);
    const struct step_row *row = (const void *)(step + at->rows);
    const struct step_bias *bias = (const void *)(step + at->bias);
    const int32_t *history = (const void *)(step + at->history);
    const int32_t *listed = (const void *)(step + at->tokens);
    for (uint32_t i = 0; i < a->new_sequence_count; i++, added++) {
        uint32_t vocab = a->limits.vocab;
        a->state.params[added->slot] = added->params;
        a->state.done[added->slot] = 0;
        for (uint32_t j = 0; j < added->params.bias_count; j++)
            a->state.bias[(size_t)added->slot * a->limits.bias_max + j] = bias[added->bias_at + j];
        if (!(added->params.flags & SAMPLE_PENALTY))
            continue;
        uint16_t *seen = a->state.penalty + (size_t)added->params.penalty_row * vocab;
        memset(seen, 0, vocab * sizeof *seen);
        const int32_t *token = history + added->history_at;
        for (uint32_t j = 0; j < added->history_prompt; j++)
            if ((uint32_t)token[j] < vocab)
                seen[token[j]] |= 0x8000;
        for (uint32_t j = 0; j < added->history_output; j++) {
            uint32_t id = (uint32_t)token[added->history_prompt + j];
            if (id < vocab && (seen[id] & 0x7FFF) != 0x7FFF)
                seen[id]++;
        }
    }
    for (uint32_t i = 0; i < a->change_count; i++)
        a->state.block_table[(size_t)change[i].slot * a->limits.blocks_max + change[i].index] =
            change[i].units;
    for (uint32_t r = 0; r < a->row_count; r++, row++) {
        for (uint32_t i = 0; i < row->q_len; i++) {
            uint32_t t = row->q_start + i;
            uint32_t position = row->kv_len == 0 ? 0 : row->kv_len - row->q_len + i;
            bool fed = row->token_at == (uint32_t)STEP_TOKEN_FED;
            a->token[t] = row->kv_len == 0 ? 0
                          : fed            ? a->state.last_token[row->slot]
                                           : listed[row->token_at + i];
            a->position[t] = position;
            a->row_of[t] = r;
            a->type[t] = position >= row->type_from;
            a->kv_write_offset[t] = UINT64_MAX;
            if (row->kv_len == 0 || a->limits.blocks_max == 0 || a->state.done[row->slot])
                continue;
            uint32_t block = position >> a->block_shift;
            uint32_t units = a->state.block_table[(size_t)row->slot * a->limits.blocks_max + block];
            a->kv_write_offset[t] = (uint64_t)units * TABLE_UNIT_BYTES +
                                    (position - (block << a->block_shift)) * a->token_bytes;
        }
        if (row->token_at != (uint32_t)STEP_TOKEN_FED && a->state.last_token)
            a->state.last_token[row->slot] = listed[row->token_at + row->q_len - 1];
    }
}

static const float *row_of(const struct weight *table, uint32_t row)
{
    return data_of(table) + (size_t)(row < table->shape.n ? row : 0) * table->shape.k;
}

void reference_embed(const struct embed_args *a)
{
    for (uint32_t t = 0; t < a->token_count; t++) {
        float *out = (float *)a->out + (size_t)t * a->width;
        int64_t token = a->token[t] >= 0 && (uint32_t)a->token[t] < a->vocab ? a->token[t] : 0;
        int64_t row = token - a->first;
        memset(out, 0, a->width * sizeof *out);
        if (row >= 0 && row < a->table->shape.n)
            memcpy(out, row_of(a->table, (uint32_t)row), a->width * sizeof *out);
        for (uint32_t i = 0; a->scale != 0 && i < a->width; i++)
            out[i] = (float)((double)out[i] * (double)a->scale);
    }
}

static void norm_row(float *out, const double *x, const float *w, const float *b, uint32_t n,
                     double epsilon)
{
    double mean = 0;
    double variance = 0;
    for (uint32_t i = 0; i < n; i++)
        mean += x[i] / n;
    for (uint32_t i = 0; i < n; i++)
        variance += (x[i] - mean) * (x[i] - mean) / n;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (float)((x[i] - mean) / sqrt(variance + epsilon) * (double)w[i] +
                         (b ? (double)b[i] : 0));
}

enum { REFERENCE_WIDTH_MAX = 16384 };

void reference_embed_bert(const struct embed_bert_args *a)
{
    double x[REFERENCE_WIDTH_MAX];
    for (uint32_t t = 0; t < a->token_count; t++) {
        const float *word = row_of(a->word, (uint32_t)a->token[t]);
        for (uint32_t i = 0; i < a->width; i++)
            x[i] = (double)word[i];
        if (a->position_table)
            for (uint32_t i = 0; i < a->width; i++)
                x[i] += (double)row_of(a->position_table, a->position[t] + a->position_offset)[i];
        if (a->type_table)
            for (uint32_t i = 0; i < a->width; i++)
                x[i] += (double)row_of(a->type_table, a->type[t])[i];
        norm_row((float *)a->out + (size_t)t * a->width, x, data_of(a->norm_weight),
                 data_of(a->norm_bias), a->width, (double)a->epsilon);
    }
}

void reference_rms_norm(const struct rms_norm_args *a)
{
    const float *w = data_of(a->weight);
    double factor = a->factor != 0 ? (double)a->factor : 1;
    for (uint32_t t = 0; t < a->rows; t++) {
        size_t at = (size_t)t * (a->stride != 0 ? a->stride : a->width);
        float *x = (float *)a->residual + at;
        double mean = 0;
        for (uint32_t i = 0; i < a->width; i++) {
            if (a->add)
                x[i] = (float)((double)x[i] + factor * (double)((const float *)a->add)[at + i]);
            mean += (double)x[i] * (double)x[i] / a->width;
        }
        double scale = 1 / sqrt(mean + (double)a->epsilon);
        for (uint32_t i = 0; a->out && i < a->width; i++)
            ((float *)a->out)[at + i] = (float)((double)x[i] * scale * (double)w[i]);
    }
}

void reference_layer_norm(const struct layer_norm_args *a)
{
    double x[REFERENCE_WIDTH_MAX];
    for (uint32_t t = 0; t < a->rows; t++) {
        size_t at = (size_t)t * a->width;
        for (uint32_t i = 0; i < a->width; i++)
            x[i] = (double)((const float *)a->residual)[at + i] +
                   (a->add ? (double)((const float *)a->add)[at + i] : 0);
        norm_row((float *)a->out + at, x, data_of(a->weight), data_of(a->bias), a->width,
                 (double)a->epsilon);
    }
}

void reference_gemm(const struct gemm_args *a)
{
    const struct weight_shape *s = &a->weight->shape;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t n = 0; n < s->n; n++) {
            const float *x = (const float *)a->x + (size_t)r * a->x_stride;
            const float *w = data_of(a->weight) + (size_t)n * s->k;
            double sum = a->bias ? (double)data_of(a->bias)[n] : 0;
            for (uint32_t k = 0; k < s->k; k++)
                sum += (double)x[k] * (double)w[k];
            ((float *)a->y)[(size_t)r * a->y_stride + n] = (float)sum;
        }
}

// Rounds a group of a row to bytes (stored as floats). Returns its scale.
static float group_round(float q[BYTE_GROUP], const float *x, uint32_t at, uint32_t k)
{
    for (uint32_t i = 0; i < BYTE_GROUP; i++)
        q[i] = at + i < k ? x[at + i] : 0;
    byte_rotate(q);
    byte_rotate(q + BYTE_BLOCK);
    float scale = byte_scale(q, BYTE_GROUP);
    float inverse = byte_inverse(scale);
    for (uint32_t i = 0; i < BYTE_GROUP; i++)
        q[i] = rintf(q[i] * inverse);
    return scale;
}

void reference_gemm_i8(const struct gemm_args *a)
{
    const struct weight_shape *s = &a->weight->shape;
    uint32_t depth = byte_depth(s->k);
    for (uint32_t r = 0; r < a->rows; r++) {
        float *y = (float *)a->y + (size_t)r * a->y_stride;
        for (uint32_t n = 0; n < s->n; n++)
            y[n] = a->bias ? data_of(a->bias)[n] : 0;
        for (uint32_t k = 0; k < depth; k += BYTE_GROUP) {
            float q[BYTE_GROUP];
            float scale = group_round(q, (const float *)a->x + (size_t)r * a->x_stride, k, s->k);
            for (uint32_t n = 0; n < s->n; n++) {
                const float *w = data_of(a->weight) + (size_t)n * depth + k;
                double sum = 0;
                for (uint32_t i = 0; i < BYTE_GROUP && k + i < depth; i++)
                    sum += (double)q[i] * (double)w[i];
                y[n] = (float)((double)y[n] + sum * (double)scale);
            }
        }
    }
}

void reference_gemm_codes(const struct gemm_args *a)
{
    const struct weight_shape *s = &a->weight->shape;
    for (uint32_t r = 0; r < a->rows; r++) {
        const float *x = (const float *)a->x + (size_t)r * a->x_stride;
        float *y = (float *)a->y + (size_t)r * a->y_stride;
        for (uint32_t n = 0; n < s->n; n++)
            y[n] = a->bias ? data_of(a->bias)[n] : 0;
        for (uint32_t k = 0; k < s->k; k += 32) {
            float scale = byte_scale(x + k, 32), inverse = byte_inverse(scale);
            for (uint32_t n = 0; n < s->n; n++) {
                const float *w = data_of(a->weight) + (size_t)n * s->k + k;
                double sum = 0;
                for (uint32_t i = 0; i < 32; i++)
                    sum += (double)rintf(x[k + i] * inverse) * (double)w[i];
                y[n] = (float)((double)y[n] + sum * (double)scale);
            }
        }
    }
}

void reference_gemm_e4m3(const struct gemm_args *a, bool blocks)
{
    uint32_t k = a->weight->shape.k, each = blocks ? 128 : k;
    float *rounded = malloc((size_t)a->rows * k * sizeof *rounded);
    struct gemm_args product = *a;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t first = 0; first < k; first += each) {
            const float *x = (const float *)a->x + (size_t)r * a->x_stride + first;
            float top = 0;
            for (uint32_t i = 0; i < each; i++)
                top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
            float scale = top / 448.0f, inverse = scale < FLT_MIN ? 0.0f : 1.0f / scale;
            for (uint32_t i = 0; i < each; i++) {
                float code = x[i] * inverse;
                double value = reference_e4m3_value(reference_e4m3((double)code));
                rounded[(size_t)r * k + first + i] = (float)(value * (double)scale);
            }
        }
    product.x = rounded;
    product.x_stride = k;
    reference_gemm(&product);
    free(rounded);
}

// Writes a key or value of n elements as int8 and its scale.
static void kv_put_bytes(char *at, const float *x, uint32_t n)
{
    float scale = byte_scale(x, n), inverse = byte_inverse(scale);
    for (uint32_t i = 0; i < n; i++)
        at[i] = (char)(int8_t)lrintf(x[i] * inverse);
    memcpy(at + n, &scale, sizeof scale);
}

double reference_e4m3_value(uint32_t code)
{
    int exponent = (int)(code >> 3 & 15), mantissa = (int)(code & 7);
    double value =
        exponent == 0 ? ldexp(mantissa / 8.0, -6) : ldexp(1 + mantissa / 8.0, exponent - 7);
    if ((code & 0x7F) == 0x7F)
        return NAN;
    return code & 0x80 ? -value : value;
}

uint32_t reference_e4m3(double x)
{
    uint32_t best = 0, sign = signbit(x) ? 0x80 : 0;
    if (isnan(x))
        return 0x7F;
    for (uint32_t code = 1; code < 0x7F; code++) {
        double less =
            fabs(fabs(x) - reference_e4m3_value(code)) - fabs(fabs(x) - reference_e4m3_value(best));
        if (less < 0 || (less == 0 && code % 2 == 0))
            best = code;
    }
    return isinf(x) ? sign | 0x7E : sign | best;
}

uint32_t reference_e4m3_place(uint32_t element)
{
    static const uint8_t order[8] = {0, 4, 1, 5, 2, 6, 3, 7}; // of the pairs of 16 elements
    uint32_t at = 0;
    while (order[at] != element % 16 / 2)
        at++;
    return element / 16 * 16 + 2 * at + element % 2;
}

static void kv_put(char *at, enum dtype dtype, float value)
{
    if (dtype == DTYPE_F32) {
        memcpy(at, &value, sizeof value);
        return;
    }
    uint16_t bits = dtype == DTYPE_BF16 ? f32_to_bf16(value) : f32_to_f16(value);
    memcpy(at, &bits, sizeof bits);
}

static double kv_get(const char *at, enum dtype dtype)
{
    float value;
    uint16_t bits;
    if (dtype == DTYPE_F32) {
        memcpy(&value, at, sizeof value);
        return (double)value;
    }
    memcpy(&bits, at, sizeof bits);
    return (double)(dtype == DTYPE_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits));
}

static void head_norm(double *v, const struct qkv_post_args *a, const float *norm)
{
    double mean = 0;
    for (uint32_t i = 0; i < a->shape.dim; i++)
        mean += v[i] * v[i] / a->shape.dim;
    for (uint32_t i = 0; i < a->shape.dim; i++)
        v[i] *= (double)norm[i] / sqrt(mean + (double)a->epsilon);
}

// Computes one head in double: norm over the head and rotation of pairs (i, i + r / 2); then all
// elements times the factor.
static void head_rope(float *x, const struct qkv_post_args *a, const float *norm, uint32_t position,
                      double factor)
{
    double v[256];
    uint32_t dim = a->shape.dim;
    for (uint32_t i = 0; i < dim; i++)
        v[i] = (double)x[i];
    if (norm && !a->norm_last)
        head_norm(v, a, norm);
    uint32_t half = a->rotary_dim / 2;
    for (uint32_t i = 0; i < half; i++) {
        const float *angle = a->cos_sin + ((size_t)position * half + i) * 2;
        double c = (double)angle[0], s = (double)angle[1];
        double one = v[i], two = v[i + half];
        v[i] = one * c - two * s;
        v[i + half] = two * c + one * s;
    }
    if (norm && a->norm_last)
        head_norm(v, a, norm);
    for (uint32_t i = 0; i < dim; i++)
        x[i] = (float)(v[i] * factor);
}

void reference_qkv_post(const struct qkv_post_args *a)
{
    const struct attn_shape *s = &a->shape;
    size_t each = dtype_bytes(a->kv);
    for (uint32_t t = 0; t < a->token_count; t++) {
        float *q = (float *)a->qkv + (size_t)t * (s->heads + 2 * s->kv_heads) * s->dim;
        float *k = q + (size_t)s->heads * s->dim;
        float *v = k + (size_t)s->kv_heads * s->dim;
        uint32_t position = a->position ? a->position[t] : 0;
        for (uint32_t h = 0; h < s->heads; h++)
            head_rope(q + h * s->dim, a, data_of(a->q_norm), position,
                      a->q_factor ? (double)a->q_factor[position] : 1);
        for (uint32_t h = 0; h < s->kv_heads; h++)
            head_rope(k + h * s->dim, a, data_of(a->k_norm), position, 1);
        if (!s->paged || a->kv_write_offset[t] == UINT64_MAX)
            continue;
        for (uint32_t h = 0; h < s->kv_heads; h++) {
            char *at =
                (char *)a->kv_base + a->kv_write_offset[t] + a->layer_offset + h * a->head_bytes;
            if (a->kv == DTYPE_I8) {
                kv_put_bytes(at, k + h * s->dim, s->dim);
                kv_put_bytes(at + a->value_offset, v + h * s->dim, s->dim);
                continue;
            }
            for (uint32_t i = 0; i < s->dim && a->kv == DTYPE_E4M3; i++) {
                char *place = at + reference_e4m3_place(i);
                place[0] = (char)reference_e4m3((double)k[h * s->dim + i]);
                place[a->value_offset] = (char)reference_e4m3((double)v[h * s->dim + i]);
            }
            for (uint32_t i = 0; i < s->dim && a->kv != DTYPE_E4M3; i++) {
                kv_put(at + i * each, a->kv, k[h * s->dim + i]);
                kv_put(at + i * each + a->value_offset, a->kv, v[h * s->dim + i]);
            }
        }
    }
}

struct pair {
    const struct attn_args *a;
    const struct step_row *row;
    uint32_t kv_head;
};

// Returns element i of the key (value: true: of the value) of the row's token `position`.
static double kv_element(const struct pair *p, uint32_t position, uint32_t i, bool value)
{
    const struct attn_args *a = p->a;
    const struct attn_shape *s = &a->shape;
    if (!s->paged) {
        size_t width = (size_t)(s->heads + 2 * s->kv_heads) * s->dim;
        uint32_t head = s->heads + p->kv_head + (value ? s->kv_heads : 0);
        return (double)((const float *)
                            a->qkv)[(p->row->q_start + position) * width + head * s->dim + i];
    }
    uint32_t block = position >> a->block_shift;
    uint64_t at =
        (uint64_t)a->block_table[(size_t)p->row->slot * a->blocks_max + block] * TABLE_UNIT_BYTES +
        (position - (block << a->block_shift)) * a->token_bytes + a->layer_offset +
        p->kv_head * a->head_bytes + (value ? a->value_offset : 0);
    const char *token = (const char *)a->kv_base + at;
    if (a->kv == DTYPE_I8)
        return (double)(int8_t)token[i] * kv_get(token + s->dim, DTYPE_F32);
    if (a->kv == DTYPE_E4M3)
        return reference_e4m3_value((uint8_t)token[reference_e4m3_place(i)]);
    return kv_get(token + i * dtype_bytes(a->kv), a->kv);
}

// Returns the bias of a head at a distance from key to query.
static double distance_bias(const struct attn_args *a, uint32_t head, int64_t distance)
{
    int64_t reach = a->reach;
    int64_t limited = distance < -reach ? -reach : distance > reach ? reach : distance;
    if (!a->bias)
        return 0;
    return (double)((const float *)a->bias->data)[head * (2 * reach + 1) + limited + reach];
}

// Computes attention of one query: softmax over the keys it sees, in one pass with a running
// maximum.
static void query_attend(float *out, const float *q, const struct pair *p, uint32_t position,
                         uint32_t head)
{
    const struct attn_shape *s = &p->a->shape;
    double sum[256] = {0};
    const float *sinks = p->a->sinks ? p->a->sinks->data : NULL;
    double mass = sinks ? 1 : 0;
    double top = sinks ? (double)sinks[head] : -INFINITY;
    uint32_t end = s->causal ? position + 1 : p->row->kv_len;
    if (!s->causal && s->ahead > 0 && position + 1 + s->ahead < end)
        end = position + 1 + s->ahead;
    uint32_t first = s->window > 0 && position + 1 > s->window ? position + 1 - s->window : 0;
    for (uint32_t j = first; j < end; j++) {
        double score = 0;
        for (uint32_t i = 0; i < s->dim; i++)
            score += (double)q[i] * kv_element(p, j, i, false);
        score = score * (double)s->scale + distance_bias(p->a, head, (int64_t)position - j);
        double factor = score > top ? exp(top - score) : 1;
        top = score > top ? score : top;
        double weight = exp(score - top);
        mass = mass * factor + weight;
        for (uint32_t i = 0; i < s->dim; i++)
            sum[i] = sum[i] * factor + weight * kv_element(p, j, i, true);
    }
    for (uint32_t i = 0; i < s->dim; i++)
        out[i] = mass > 0 ? (float)(sum[i] / mass) : 0;
}

void reference_attn(const struct attn_args *a)
{
    const struct attn_shape *s = &a->shape;
    const struct step_row *rows = (const void *)((const char *)a->step + a->step->layout.rows);
    size_t width = (size_t)(s->heads + 2 * s->kv_heads) * s->dim;
    for (uint32_t r = 0; r < a->row_count; r++)
        for (uint32_t i = 0; i < rows[r].q_len; i++)
            for (uint32_t h = 0; h < s->heads; h++) {
                size_t t = rows[r].q_start + i;
                struct pair pair = {a, &rows[r], h / (s->heads / s->kv_heads)};
                float *out = (float *)a->out + (t * s->heads + h) * s->dim;
                if (rows[r].kv_len == 0)
                    memset(out, 0, s->dim * sizeof *out);
                else
                    query_attend(out, (const float *)a->qkv + t * width + h * s->dim, &pair,
                                 rows[r].kv_len - rows[r].q_len + i, h);
            }
}

void reference_swiglu(const struct swiglu_args *a)
{
    for (uint32_t t = 0; t < a->rows; t++)
        for (uint32_t i = 0; i < a->width; i++) {
            const float *in = (const float *)a->in + (size_t)t * 2 * a->width;
            double gate = (double)in[i];
            double cube = sqrt(M_2_PI) * (gate + 0.044715 * gate * gate * gate);
            double active = a->gate == GATE_SILU        ? gate / (1 + exp(-gate))
                            : a->gate == GATE_GELU_TANH ? 0.5 * gate * (1 + tanh(cube))
                                                        : 0.5 * gate * erfc(-gate * M_SQRT1_2);
            double up = (double)in[a->width + i], limit = (double)a->limit;
            if (a->gate == GATE_CLAMPED) {
                gate = gate > limit ? limit : gate;
                active = gate / (1 + exp(-(double)a->alpha * gate));
                up = (up > limit ? limit : up < -limit ? -limit : up) + 1;
            }
            ((float *)a->out)[(size_t)t * a->width + i] = (float)(active * up);
        }
}

void reference_activate(const struct activate_args *a)
{
    for (size_t i = 0; i < (size_t)a->rows * a->width; i++) {
        double x = (double)((float *)a->x)[i];
        switch (a->kind) {
        case ACTIVATE_GELU:
            x = 0.5 * x * erfc(-x * M_SQRT1_2);
            break;
        case ACTIVATE_GELU_TANH:
            x = 0.5 * x * (1 + tanh(sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
            break;
        case ACTIVATE_TANH:
            x = tanh(x);
            break;
        case ACTIVATE_RELU:
            x = x < 0 ? 0 : x; // keeps NaN
            break;
        case ACTIVATE_SILU:
            x = x / (1 + exp(-x));
            break;
        }
        ((float *)a->x)[i] = (float)x;
    }
}

void reference_gather(const struct gather_args *a)
{
    for (uint32_t n = 0; n < a->count; n++) {
        const struct step_sampled *s = &a->sampled[n];
        size_t t = a->first_token ? a->rows[s->row].q_start : s->last_token;
        memcpy((float *)a->out + (size_t)n * a->width, (const float *)a->in + t * a->width,
               a->width * sizeof(float));
    }
}

void reference_pool(const struct pool_args *a)
{
    double x[REFERENCE_WIDTH_MAX];
    for (uint32_t n = 0; n < a->count; n++) {
        const struct step_row *row = &a->rows[a->sampled[n].row];
        double squares = 0;
        for (uint32_t i = 0; i < a->width; i++) {
            const float *in = (const float *)a->in + (size_t)row->q_start * a->width + i;
            double sum = 0, weighted = 0, weights = 0, most = -INFINITY;
            uint32_t from = row->pool & STEP_POOL_FROM, count = row->q_len - from;
            for (uint32_t t = from; t < row->q_len; t++) {
                double v = (double)in[(size_t)t * a->width];
                sum += v;
                weighted += v * (t + 1);
                weights += t + 1;
                most = fmax(most, v);
            }
            const double values[] = {[POOL_CLS] = (double)in[0],
                                     [POOL_LAST] = (double)in[(size_t)(row->q_len - 1) * a->width],
                                     [POOL_MEAN] = sum / count,
                                     [POOL_MEAN_SQRT] = sum / sqrt(count),
                                     [POOL_WEIGHTED] = weighted / weights,
                                     [POOL_MAX] = most,
                                     [POOL_GIVEN] =
                                         (double)((const float *)a->in)[(size_t)n * a->width + i]};
            x[i] = values[a->kind];
            squares += x[i] * x[i];
        }
        bool raw = !a->normalize || row->pool & STEP_POOL_RAW;
        double size = !raw ? fmax(sqrt(squares), 1e-12) : 1;
        for (uint32_t i = 0; i < a->width; i++)
            ((float *)a->out)[(size_t)n * a->width + i] = (float)(x[i] / size);
    }
}

// Collectives take an array: the args of all ranks, in rank order.
void reference_all_reduce(const struct all_reduce_args *a)
{
    for (uint64_t i = 0; i < a->count; i++) {
        double sum = 0;
        for (uint32_t r = 0; r < a->ranks; r++)
            sum += a[r].in[i];
        for (uint32_t r = 0; r < a->ranks; r++)
            ((float *)a[r].out)[i] = (float)sum;
    }
}

void reference_all_gather(const struct all_gather_args *a)
{
    for (uint32_t r = 0; r < a->ranks; r++)
        for (uint32_t from = 0; from < a->ranks; from++)
            for (uint32_t row = 0; row < a->rows; row++)
                for (uint32_t i = 0; i < gather_count(a, from); i++)
                    a[r].out[(size_t)row * a->stride + gather_first(a, from) + i] =
                        a[from].in[(size_t)row * gather_count(a, from) + i];
}
