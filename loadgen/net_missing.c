// SPDX-License-Identifier: Apache-2.0
// The load generator of a weft that was built without libcurl: no server can be measured, but
// results are compared, and models are measured without a server. See fetch.h and run.h.
#include "loadgen/fetch.h"
#include "loadgen/run.h"

static enum status refuse(struct error *err)
{
    return error_set(err, STATUS_UNSUPPORTED,
                     "this weft was built without libcurl, which connects to servers: install the "
                     "Debian package libcurl4-openssl-dev and build again; weft bench --model "
                     "FOLDER measures a model without a server");
}

enum status bench_net_open(struct error *err)
{
    return refuse(err);
}

void bench_net_close(void)
{
}

enum status bench_get(struct json_buffer *out, const struct bench_options *o, const char *path,
                      double seconds_max, struct error *err)
{
    (void)out, (void)o, (void)path, (void)seconds_max;
    return refuse(err);
}

enum status bench_model_find(char *name, size_t size, const struct bench_options *o,
                             struct error *err)
{
    (void)name, (void)size, (void)o;
    return refuse(err);
}

bool bench_words_calibrate(struct bench_words *words, const struct bench_options *o)
{
    (void)words, (void)o;
    return false;
}

enum status bench_run(struct bench_run *out, const struct bench_run_args *args, struct error *err)
{
    (void)args;
    *out = (struct bench_run){0};
    return refuse(err);
}
