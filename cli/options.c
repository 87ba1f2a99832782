// SPDX-License-Identifier: Apache-2.0
// Table-driven option parsing; see options.h. Main thread.
#include "cli/options.h"
#include "cli/near.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_row *row_find(const struct option_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            return &table->rows[i];
    return NULL;
}

bool option_known(const struct option_table *table, const char *name)
{
    return row_find(table, name) != NULL;
}

static enum status range_error(const struct option_row *row, const char *value, struct error *err)
{
    if (row->kind == OPTION_INTEGER)
        return error_set(err, STATUS_INVALID, "--%s must be a whole number of 64 bits, got '%s'",
                         row->name, value);
    return error_set(err, STATUS_INVALID, "--%s must be a %snumber from %.15g to %.15g, got '%s'",
                     row->name, row->kind == OPTION_COUNT ? "whole " : "", row->low, row->high,
                     value);
}

static enum status integer_assign(const struct option_row *row, int64_t *field, const char *value,
                                  struct error *err)
{
    char *end;
    errno = 0;
    *field = strtoll(value, &end, 10);
    return end == value || *end != '\0' || errno == ERANGE ? range_error(row, value, err)
                                                           : STATUS_OK;
}

static double suffix_factor(const char *suffix)
{
    static const char letters[] = "KMGT";
    if (*suffix == '\0')
        return 1;
    const char *at = strchr(letters, *suffix & ~0x20);
    const char *rest = suffix + 1; // "K", "KB" and "KiB" mean the same
    bool ends = *rest == '\0' || strcmp(rest, "B") == 0 || strcmp(rest, "iB") == 0;
    bool known = at && *at != '\0' && ends;
    return known ? pow(1024, (double)(at - letters) + 1) : NAN;
}

static enum status number_assign(const struct option_row *row, void *field, const char *value,
                                 struct error *err)
{
    char *end;
    errno = 0;
    double number = strtod(value, &end);
    bool digits = strspn(value, "0123456789") == strlen(value);
    if (end == value || errno == ERANGE || (row->kind == OPTION_COUNT && !digits))
        return range_error(row, value, err);
    number *= row->kind == OPTION_BYTES ? suffix_factor(end) : *end == '\0' ? 1.0 : NAN;
    bool whole = row->kind != OPTION_REAL;
    if (!(number >= row->low && number <= row->high) || (whole && number != floor(number)))
        return range_error(row, value, err);
    if (row->kind == OPTION_COUNT)
        *(uint32_t *)field = (uint32_t)number;
    else if (row->kind == OPTION_BYTES)
        *(uint64_t *)field = (uint64_t)number;
    else
        *(double *)field = number;
    return STATUS_OK;
}

static enum status choice_assign(const struct option_row *row, int *field, const char *value,
                                 struct error *err)
{
    char listed[256] = "";
    for (int i = 0; row->choices[i]; i++) {
        if (strcmp(row->choices[i], value) == 0) {
            *field = i;
            return STATUS_OK;
        }
        strcat(strcat(listed, i > 0 ? ", " : ""), row->choices[i]);
    }
    return error_set(err, STATUS_INVALID, "--%s must be one of %s, got '%s'", row->name, listed,
                     value);
}

// Parses "0,3": numbers of at most `high`, each at most once. Returns false if malformed.
static bool numbers_read(const struct option_row *row, struct option_devices *field,
                         const char *value)
{
    uint64_t seen = 0;
    for (field->count = 0; field->count < OPTION_DEVICES_MAX; value++) {
        char *end;
        unsigned long number = strtoul(value, &end, 10);
        if (*value < '0' || *value > '9' || number > (unsigned long)row->high || seen >> number & 1)
            return false;
        seen |= UINT64_C(1) << number;
        field->at[field->count++] = (uint32_t)number;
        value = end;
        if (*value != ',')
            return *value == '\0';
    }
    return false;
}

static enum status devices_assign(const struct option_row *row, struct option_devices *field,
                                  const char *value, struct arena *arena, struct error *err)
{
    const char *colon = strchr(value, ':');
    *field = (struct option_devices){0};
    if (!colon)
        return choice_assign(row, &field->kind, value, err);
    const char *kind = arena_copy(arena, text_span(value, (size_t)(colon - value))).at;
    enum status status = choice_assign(row, &field->kind, kind, err);
    if (status != STATUS_OK)
        return status;
    if (field->kind < (int)row->low)
        return error_set(err, STATUS_INVALID, "--%s: '%s' accepts no numbers, got '%s'", row->name,
                         kind, value);
    if (!numbers_read(row, field, colon + 1))
        return error_set(
            err, STATUS_INVALID,
            "--%s %s:N,N... accepts at most %d numbers from 0 to %.10g, each once, got "
            "'%s'",
            row->name, kind, OPTION_DEVICES_MAX, row->high, value);
    return STATUS_OK;
}

static enum status flag_assign(const struct option_row *row, bool *field, const char *value,
                               struct error *err)
{
    if (!value || strcmp(value, "true") == 0 || strcmp(value, "on") == 0)
        *field = true;
    else if (strcmp(value, "false") == 0 || strcmp(value, "off") == 0)
        *field = false;
    else
        return error_set(err, STATUS_INVALID, "--%s must be true or false, got '%s'", row->name,
                         value);
    return STATUS_OK;
}

static bool is_flag(const struct option_row *row)
{
    return row->kind == OPTION_FLAG || row->kind == OPTION_SWITCH;
}

static void rows_offer(struct near *near, const struct option_table *table, bool flags_only)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (!flags_only || is_flag(&table->rows[i]))
            near_offer(near, table->rows[i].name);
}

void option_near(struct near *near, const struct option_table *table)
{
    rows_offer(near, table, false);
}

static void text_append(struct texts *list, const char *text, struct arena *arena)
{
    list->at = arena_grow(arena, list->at, list->count * sizeof *list->at,
                          (list->count + 1) * sizeof *list->at);
    list->at[list->count++] = text;
}

static enum status row_assign(const struct option_row *row, void *fields, const char *value,
                              struct arena *arena, struct error *err)
{
    void *field = (char *)fields + row->offset;
    if (row->kind == OPTION_FLAG)
        return flag_assign(row, field, value, err);
    if (row->kind == OPTION_SWITCH) {
        bool on = false;
        enum status status = flag_assign(row, &on, value, err);
        *(int *)field = on;
        return status;
    }
    if (!value)
        return error_set(err, STATUS_INVALID, "--%s needs a value", row->name);
    if (row->kind == OPTION_CHOICE)
        return choice_assign(row, field, value, err);
    if (row->kind == OPTION_DEVICES)
        return devices_assign(row, field, value, arena, err);
    if (row->kind == OPTION_TEXT) {
        *(const char **)field = value;
        return STATUS_OK;
    }
    if (row->kind == OPTION_TEXTS) {
        text_append(field, value, arena);
        return STATUS_OK;
    }
    return row->kind == OPTION_INTEGER ? integer_assign(row, field, value, err)
                                       : number_assign(row, field, value, err);
}

enum status option_assign(const struct option_table *table, void *fields, const char *name,
                          const char *value, struct arena *arena, struct error *err)
{
    const struct option_row *row = row_find(table, name);
    struct near near = {.given = name};
    if (!row) {
        // the rest of `device=cuda:0,1`, split at the comma
        bool number = name[strspn(name, "0123456789")] == '\0';
        option_near(&near, table);
        return error_set(err, STATUS_INVALID, "unknown model option '%s'%s", name,
                         number ? ": a comma inside a value is written '\\,'"
                                : near_text(&near, "").at);
    }
    return row_assign(row, fields, value, arena, err);
}

static enum status unknown_error(const struct options_parse_args *args, const char *dashes,
                                 const char *name, struct error *err)
{
    bool negated = strncmp(name, "no-", 3) == 0;
    struct near near = {.given = negated ? name + 3 : name};
    for (uint32_t i = 0; i < args->table_count; i++)
        rows_offer(&near, &args->tables[i], negated);
    return error_set(err, STATUS_INVALID, "unknown option %s%s%s (see --help)", dashes, name,
                     near_text(&near, negated ? "--no-" : "--").at);
}

// Parses one option. text: without its dashes. Advances *at if the value is the next argument.
static enum status parse_one(const struct options_parse_args *args, const char *text, int *at,
                             struct error *err)
{
    const char *equals = strchr(text, '=');
    size_t bytes = equals ? (size_t)(equals - text) : strlen(text);
    const char *name = arena_copy(args->arena, text_span(text, bytes)).at;
    bool negated = strncmp(name, "no-", 3) == 0;
    for (uint32_t i = 0; i < args->table_count; i++) {
        const struct option_row *row = row_find(&args->tables[i], name);
        const char *value = equals ? equals + 1 : NULL;
        if (!row && negated) {
            row = row_find(&args->tables[i], name + 3);
            if (!row || !is_flag(row))
                continue;
            if (equals)
                return error_set(err, STATUS_INVALID, "--%s accepts no value", name);
            value = "false";
        }
        if (!row)
            continue;
        if (!value && !is_flag(row) && *at + 1 < args->argc)
            value = args->argv[++*at];
        if (args->given)
            text_append(args->given, row->name, args->arena);
        return row_assign(row, args->fields[i], value, args->arena, err);
    }
    return unknown_error(args, "--", name, err);
}

enum status options_parse(const struct options_parse_args *args, struct error *err)
{
    *args->positional = (struct texts){0};
    args->positional->at = arena_alloc(args->arena, (size_t)args->argc * sizeof(char *));
    bool only_positional = false;
    for (int at = 0; at < args->argc; at++) {
        const char *text = args->argv[at];
        if (only_positional || strncmp(text, "-", 1) != 0 || strcmp(text, "-") == 0) {
            args->positional->at[args->positional->count++] = text;
        } else if (strcmp(text, "--") == 0) {
            only_positional = true;
        } else if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
            *args->help = true;
        } else if (strcmp(text, "-v") == 0) {
            enum status status = parse_one(args, "log-level=debug", &at, err);
            if (status != STATUS_OK)
                return status;
        } else if (strncmp(text, "--", 2) != 0) {
            return unknown_error(args, "-", text + 1, err);
        } else {
            enum status status = parse_one(args, text + 2, &at, err);
            if (status != STATUS_OK)
                return status;
        }
    }
    return STATUS_OK;
}

// Prints bytes with the largest suffix that keeps a whole number.
static void help_bytes(FILE *out, double bytes)
{
    static const char *const suffixes[] = {"", "K", "M", "G", "T"};
    int i = 0;
    for (; i < 4 && bytes >= 1024 && fmod(bytes, 1024) == 0; i++)
        bytes /= 1024;
    fprintf(out, "%.10g%s", bytes, suffixes[i]);
}

static void help_value(FILE *out, const struct option_row *row)
{
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_SWITCH:
        return;
    case OPTION_INTEGER:
        fputs(" -2^63..2^63-1", out);
        return;
    case OPTION_COUNT:
    case OPTION_REAL:
        fprintf(out, " %.10g..%.10g", row->low, row->high);
        return;
    case OPTION_BYTES:
        fputc(' ', out);
        help_bytes(out, row->low);
        fputs("..", out);
        help_bytes(out, row->high);
        return;
    case OPTION_CHOICE:
    case OPTION_DEVICES:
        for (int i = 0; row->choices[i]; i++)
            fprintf(out, "%s%s%s", i > 0 ? "|" : " ", row->choices[i],
                    row->kind == OPTION_DEVICES && i >= (int)row->low ? "[:N,...]" : "");
        return;
    case OPTION_TEXT:
    case OPTION_TEXTS:
        fputs(" TEXT", out);
        return;
    }
}

void options_help(FILE *out, const struct option_table *table, const char *title)
{
    fprintf(out, "\n%s\n", title);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct option_row *row = &table->rows[i];
        fprintf(out, "  --%s%s", is_flag(row) ? "[no-]" : "", row->name);
        help_value(out, row);
        bool required = strcmp(row->fallback, "required") == 0;
        const char *before = required ? "" : "default: ";
        fprintf(out, "\n        %s (%s%s)\n", row->help, before, row->fallback);
    }
}

const char *options_environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value != '\0' ? value : NULL;
}

const char *options_environment_key(void)
{
    return options_environment("WEFT_API_KEY");
}

const char *options_environment_openai_key(void)
{
    return options_environment("OPENAI_API_KEY");
}

bool options_colour(int descriptor)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(descriptor) && !(no && *no != '\0') && terminal && strcmp(terminal, "dumb") != 0;
}
