// Times the cuda device's ops on a real GPU, each beside its floor, a row flushed at a time. Uses
// the device table only. Times are wall time over a queue of launches that ends in one wait, so
// launch gaps count where they are not hidden. Weights and caches are walked through several
// copies, larger together than the L2 cache. Random data throughout.
//
// gpu_ops exact|fast [small] small: tiny shapes, to test the program itself
#include "bench/gpu_ops.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct device_api *weft_device_plugin(void);

void need(enum status status, const char *what)
{
    if (status == STATUS_OK)
        return;
    printf("gpu_ops: %s: %s\n", what, status_name(status));
    exit(1);
}

void *take(struct bench *b, size_t bytes)
{
    void *at = NULL;
    need(b->api->memory_take(b->device, &at, bytes, NULL), "memory");
    return at;
}

void settle(struct bench *b, struct stream *stream)
{
    struct error err = {0};
    need(b->api->signal(stream, b->done, ++b->signals), "signal");
    if (b->api->wait(stream, b->done, b->signals, UINT64_MAX, &err) != STATUS_OK) {
        printf("gpu_ops: %s\n", err.text);
        exit(1);
    }
}

// Random bf16 numbers of deviation 0.02, made on the device.
struct weight random_weight(struct bench *b, uint32_t n, uint32_t k, uint64_t seed)
{
    struct weight w = {.shape = {WEIGHT_PRODUCT, DTYPE_BF16, n, k}};
    w.bytes = b->api->weight_bytes(b->device, &w.shape);
    w.data = take(b, w.bytes);
    struct weight_source source = {
        .fd = -1, .rows = n, .cols = k, .seed = seed, .deviation = 0.02f};
    need(b->api->weight_put(b->device, &w, 0, &source, NULL), "weight");
    need(b->api->weight_finish(b->device, &w, NULL), "weight");
    return w;
}

struct stream *open_stream(struct bench *b, const struct stream_limits *limits)
{
    struct stream *stream = NULL;
    need(b->api->stream_open(b->device, &stream, limits, NULL), "stream");
    return stream;
}

// The floor is what the bytes take at the copy rate of this run, or the sums at the best rate of
// its products, whichever is more.
void print_row(struct bench *b, const struct bench_row *row)
{
    double floor = b->copy_rate > 0 ? row->bytes / b->copy_rate : 0;
    if (row->flops > 0 && row->flops / row->seconds > b->math_rate)
        b->math_rate = row->flops / row->seconds;
    if (b->math_rate > 0 && row->flops / b->math_rate > floor)
        floor = row->flops / b->math_rate;
    printf("{\"op\":\"%s\",\"shape\":\"%s\",\"us\":%.2f,\"floor_us\":%.2f,\"GBps\":%.1f,"
           "\"TFLOPs\":%.2f}\n",
           row->op, row->shape, row->seconds * 1e6, floor * 1e6, row->bytes / row->seconds * 1e-9,
           row->flops / row->seconds * 1e-12);
    fflush(stdout);
}

static void bench_copy(struct bench *b)
{
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = 1};
    struct stream *stream = open_stream(b, &limits);
    uint32_t width = 8192;
    uint32_t rows = b->small ? 4 : 65536;
    size_t bytes = (size_t)rows * width * 2;
    struct swiglu_args args = {.act = DTYPE_BF16,
                               .in = take(b, 2 * bytes),
                               .out = take(b, bytes),
                               .rows = rows,
                               .width = width};
    need(b->api->ops->swiglu(stream, &args), "swiglu");
    settle(b, stream);
    double start = clock_s();
    for (int i = 0; i < REPEATS; i++)
        need(b->api->ops->swiglu(stream, &args), "swiglu");
    settle(b, stream);
    double seconds = (clock_s() - start) / REPEATS;
    b->copy_rate = 3.0 * (double)bytes / seconds;
    print_row(b, &(struct bench_row){"swiglu", "large: stands for the copy rate", seconds,
                                     3.0 * (double)bytes, 0});
    b->api->memory_give(b->device, (void *)(uintptr_t)args.in, 2 * bytes);
    b->api->memory_give(b->device, args.out, bytes);
    b->api->stream_close(stream);
}

static void bench_gemm(struct bench *b, uint32_t n, uint32_t k)
{
    static const uint32_t rows_of[] = {1, 8, 16, 32, 64, 128, 256, 2048, 8192};
    struct stream_limits limits = {.step = {.rows_max = 256, .tokens_max = 8192}, .width_max = n};
    struct stream *stream = open_stream(b, &limits);
    uint32_t copies = b->small ? 1 : 1 + (uint32_t)((200u << 20) / ((size_t)n * k * 2));
    struct weight weight[32];
    copies = copies > 32 ? 32 : copies;
    for (uint32_t i = 0; i < copies; i++)
        weight[i] = random_weight(b, n, k, i);
    uint32_t most = b->small ? 64 : 8192;
    struct weight x = random_weight(b, most, k, 99);
    void *y = take(b, (size_t)most * n * 2);
    for (size_t m = sizeof rows_of / sizeof rows_of[0];
         m-- > 0;) { // most rows: the best rate first
        if (rows_of[m] > most)
            continue;
        struct gemm_args args = {.x_dtype = DTYPE_BF16,
                                 .y_dtype = DTYPE_BF16,
                                 .x = x.data,
                                 .y = y,
                                 .rows = rows_of[m],
                                 .x_stride = (k + 31) / 32 * 32,
                                 .y_stride = n};
        args.weight = &weight[0];
        need(b->api->ops->gemm(stream, &args), "gemm");
        settle(b, stream);
        double start = clock_s();
        for (uint32_t i = 0; i < REPEATS; i++) {
            args.weight = &weight[i % copies];
            need(b->api->ops->gemm(stream, &args), "gemm");
        }
        settle(b, stream);
        char shape[64];
        snprintf(shape, sizeof shape, "n %u k %u rows %u", n, k, rows_of[m]);
        double bytes = 2.0 * ((double)n * k + (double)rows_of[m] * (n + k));
        print_row(b, &(struct bench_row){"gemm", shape, (clock_s() - start) / REPEATS, bytes,
                                         2.0 * n * k * rows_of[m]});
    }
    for (uint32_t i = 0; i < copies; i++)
        b->api->memory_give(b->device, weight[i].data, weight[i].bytes);
    b->api->memory_give(b->device, x.data, x.bytes);
    b->api->memory_give(b->device, y, (size_t)most * n * 2);
    b->api->stream_close(stream);
}

struct attn_bench {
    const char *name;
    struct attn_shape shape;
    uint32_t rows, q_len, kv_len;
};

// Device and host record of a step of equal rows, with its plan; block tables in order.
static void attn_record(struct bench *b, struct stream *stream, const struct stream_limits *limits,
                        const struct attn_bench *c, struct step **host, void **device)
{
    struct step_layout layout;
    step_layout_init(&layout, &limits->step, b->api->step_private_bytes(b->device, limits));
    need(b->api->host_take(b->device, (void **)host, layout.bytes, NULL), "record");
    *device = take(b, layout.bytes);
    (*host)->layout = layout;
    (*host)->row_count = c->rows;
    (*host)->token_count = c->rows * c->q_len;
    (*host)->q_len_max = c->q_len;
    (*host)->kv_len_max = c->kv_len;
    struct step_row *rows = step_section(*host, layout.rows);
    for (uint32_t i = 0; i < c->rows; i++)
        rows[i] = (struct step_row){.slot = i,
                                    .q_start = i * c->q_len,
                                    .q_len = c->q_len,
                                    .kv_len = c->kv_len,
                                    .sample = STEP_NO_ROW};
    b->api->step_plan(stream, *host);
    need(b->api->copy_in(stream, *device, *host, layout.bytes), "record");
}

static void bench_attn(struct bench *b, const struct attn_bench *c)
{
    uint32_t blocks = c->shape.paged ? (c->kv_len + 63) / 64 : 0;
    struct stream_limits limits = {.step = {.rows_max = c->rows,
                                            .tokens_max = c->rows * c->q_len,
                                            .slots_max = c->rows,
                                            .blocks_max = blocks},
                                   .attn = c->shape,
                                   .width_max = 1,
                                   .layers = 1};
    struct stream *stream = open_stream(b, &limits);
    struct step *host = NULL;
    void *record = NULL;
    attn_record(b, stream, &limits, c, &host, &record);
    uint64_t token_bytes = c->shape.dim * 2, head_bytes = 64 * token_bytes;
    uint64_t value_offset = head_bytes * c->shape.kv_heads, block_bytes = 2 * value_offset;
    uint32_t width = (c->shape.heads + 2 * c->shape.kv_heads) * c->shape.dim;
    struct weight qkv = random_weight(b, c->rows * c->q_len, width, 1);
    struct weight kv = random_weight(b, c->rows * blocks + 1, (uint32_t)(block_bytes / 2), 2);
    uint32_t *table = calloc((size_t)c->rows * blocks + 1, 4);
    for (uint32_t i = 0; i < c->rows * blocks; i++)
        table[i] = (uint32_t)(i * block_bytes / 256);
    void *table_device = take(b, ((size_t)c->rows * blocks + 1) * 4);
    need(b->api->upload(b->device, table_device, table, (size_t)c->rows * blocks * 4, NULL),
         "table");
    size_t out_bytes = (size_t)c->rows * c->q_len * c->shape.heads * c->shape.dim * 2;
    struct attn_args args = {.act = DTYPE_BF16,
                             .kv = DTYPE_BF16,
                             .qkv = qkv.data,
                             .out = take(b, out_bytes),
                             .step = record,
                             .step_host = host,
                             .block_table = table_device,
                             .kv_base = kv.data,
                             .value_offset = value_offset,
                             .head_bytes = head_bytes,
                             .token_bytes = token_bytes,
                             .shape = c->shape,
                             .blocks_max = blocks,
                             .block_shift = 6,
                             .row_count = c->rows,
                             .token_count = c->rows * c->q_len};
    need(b->api->ops->attn(stream, &args), "attn");
    settle(b, stream);
    double start = clock_s();
    for (int i = 0; i < REPEATS; i++)
        need(b->api->ops->attn(stream, &args), "attn");
    settle(b, stream);
    double pairs = (double)c->rows * c->q_len *
                   (c->shape.causal ? c->kv_len - (c->q_len - 1) / 2.0 : c->kv_len);
    double bytes = 4.0 * c->rows * c->kv_len * c->shape.kv_heads * c->shape.dim;
    print_row(b, &(struct bench_row){"attn", c->name, (clock_s() - start) / REPEATS, bytes,
                                     4.0 * c->shape.dim * c->shape.heads * pairs});
    void *rooms[] = {qkv.data, kv.data, table_device, args.out, record};
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++)
        b->api->memory_give(b->device, rooms[i], 0);
    b->api->host_give(b->device, host, host->layout.bytes);
    free(table);
    b->api->stream_close(stream);
}

static void bench_all_attn(struct bench *b)
{
    static const struct attn_shape llama = {32, 8, 128, 0, 0.0884f, 1, 1};
    static const struct attn_shape bert = {16, 16, 64, 0, 0.125f, 0, 0};
    const struct attn_bench cases[] = {
        {"prefill 1 x 8192, dim 128, group 4", llama, 1, 8192, 8192},
        {"prefill 4 x 2048, dim 128, group 4", llama, 4, 2048, 2048},
        {"prefill 16 x 512, dim 128, group 4", llama, 16, 512, 512},
        {"chunk 1024 of 16384, dim 128, group 4", llama, 1, 1024, 16384},
        {"encoder 64 x 512, dim 64", bert, 64, 512, 512},
        {"decode 1 x 32768", llama, 1, 1, 32768},
        {"decode 8 x 8192", llama, 8, 1, 8192},
        {"decode 64 x 4096", llama, 64, 1, 4096},
        {"decode 256 x 1024", llama, 256, 1, 1024},
    };
    const struct attn_bench tiny[] = {{"decode 2 x 70", llama, 2, 1, 70},
                                      {"encoder 2 x 20", bert, 2, 20, 20}};
    for (size_t i = 0; b->small && i < 2; i++)
        bench_attn(b, &tiny[i]);
    for (size_t i = 0; !b->small && i < sizeof cases / sizeof cases[0]; i++)
        bench_attn(b, &cases[i]);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct bench b = {.api = weft_device_plugin()};
    struct device_options options = {.exact = argc > 1 && strcmp(argv[1], "exact") == 0};
    b.small = argc > 2 && strcmp(argv[2], "small") == 0;
    if (b.api->open(&b.device, &options, &err) != STATUS_OK) {
        printf("gpu_ops: skipped: %s\n", err.text);
        return 77;
    }
    struct device_facts facts;
    b.api->facts(b.device, &facts);
    need(b.api->host_take(b.device, (void **)&b.done, 64, NULL), "host memory");
    printf("{\"card\":\"%s\",\"exact\":%s}\n", facts.name, options.exact ? "true" : "false");
    bench_copy(&b);
    static const uint32_t products[][2] = {
        {6144, 4096}, {4096, 4096}, {24576, 4096}, {4096, 12288}};
    for (size_t i = 0; !b.small && i < 4; i++)
        bench_gemm(&b, products[i][0], products[i][1]);
    if (b.small)
        bench_gemm(&b, 64, 96);
    bench_all_attn(&b);
    bench_rows(&b);
    b.api->host_give(b.device, b.done, 64);
    b.api->close(b.device);
    return 0;
}
