// SPDX-License-Identifier: Apache-2.0
// Files of `weft bench`, and `weft bench compare`; see bench.h. Main thread.
#include "cli/bench.h"

#include "loadgen/report.h"
#include "loadgen/verdict.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t RESULT_BYTES_MAX = (size_t)1 << 30;

// Returns the error number with which writing the file would fail, as far as the file system shows
// it without creating the file; 0: none.
static int write_error(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) == 0)
        return S_ISDIR(facts.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
    if (errno != ENOENT)
        return errno;
    if (*path == '\0')
        return ENOENT;
    const char *slash = strrchr(path, '/');
    size_t bytes = slash ? (size_t)(slash - path) + 1 : 0;
    char folder[PATH_MAX] = ".";
    if (bytes >= sizeof folder)
        return ENAMETOOLONG;
    if (slash) {
        memcpy(folder, path, bytes);
        folder[bytes] = '\0';
    }
    return access(folder, W_OK | X_OK) == 0 ? 0 : errno;
}

enum status bench_outputs_check(const struct bench_settings *s, struct error *err)
{
    const char *const paths[] = {s->output, s->report, s->request_log};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int number = paths[i] ? write_error(paths[i]) : 0;
        if (number != 0)
            return error_set(err, STATUS_IO, "%s cannot be written: %s", paths[i],
                             strerror(number));
    }
    return STATUS_OK;
}

enum status bench_file_write(const char *path, const struct json_buffer *text, struct error *err)
{
    FILE *file = fopen(path, "w");
    bool failed = !file || fwrite(text->at, 1, text->bytes, file) != text->bytes;
    failed |= file && fclose(file) != 0;
    return failed ? error_set(err, STATUS_IO, "%s cannot be written: %s", path, strerror(errno))
                  : STATUS_OK;
}

enum status bench_result_compare(json_t *result, const struct bench_settings *s, struct error *err)
{
    struct bench_comparison *c = heap_alloc_zeroed(1, sizeof *c);
    struct json_buffer text = {0};
    json_t *parsed = NULL;
    enum status status =
        bench_results_compare(c, json_object_get(result, "a"), json_object_get(result, "b"),
                              s->primary, s->interval == 1, err);
    if (status == STATUS_OK) {
        bench_comparison_json(&text, c);
        status = json_parse(&parsed, json_buffer_text(&text), err);
    }
    if (status == STATUS_OK && !s->json)
        bench_comparison_print(stdout, c);
    if (parsed)
        json_object_set_new(result, "comparison", parsed);
    json_buffer_free(&text);
    heap_free(c);
    return status;
}

enum status bench_outputs_write(const json_t *result, const struct bench_settings *s,
                                struct error *err)
{
    struct json_buffer text = {0};
    enum status status = STATUS_OK;
    json_put_value(&text, result);
    json_put_literal(&text, "\n");
    if (s->output)
        status = bench_file_write(s->output, &text, err);
    if (s->json)
        fwrite(text.at, 1, text.bytes, stdout);
    text.bytes = 0;
    if (status == STATUS_OK && s->report) {
        bench_report_write(&text, result);
        status = bench_file_write(s->report, &text, err);
    }
    json_buffer_free(&text);
    return status;
}

enum status bench_files_compare(const char *a, const char *b, const struct bench_settings *s,
                                struct error *err)
{
    const char *const paths[] = {a, b}, *const names[] = {"a", "b"};
    json_t *both = json_object();
    enum status status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && i < 2; i++) {
        json_t *one = NULL;
        status = json_file_parse(&one, paths[i], RESULT_BYTES_MAX, err);
        if (status == STATUS_OK && !json_object_get(one, "completed"))
            status =
                error_set(err, STATUS_INVALID,
                          "%s is not the result of one load on one server, which weft bench URL "
                          "--output FILE writes without --sweep, --find-rate and --against",
                          paths[i]);
        json_object_set_new(both, names[i], one);
    }
    if (status == STATUS_OK)
        status = bench_result_compare(both, s, err);
    if (status == STATUS_OK)
        status = bench_outputs_write(both, s, err);
    json_decref(both);
    return status;
}
