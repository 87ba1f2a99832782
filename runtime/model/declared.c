// SPDX-License-Identifier: Apache-2.0
// Turns the lists of a declaration into rules: a pattern of modules' names and the format of these
// modules. The first rule that matches decides. How a pattern matches is what the tools of a method
// do with it; see declared.h.
#include "runtime/model/declared.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/safe.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

// POSIX_MAX: \w in a class grows most, from 2 bytes to the 10 of [:alnum:]_; ^( and ) are added.
enum {
    PATTERN_MAX = 256,
    POSIX_MAX = 5 * PATTERN_MAX + 8,
    REPEATED_MAX = 4,
    RULES_MAX = 1 << 16,
    REGEXES_MAX = 512,
};

enum rule_match {
    RULE_NAME,  // the entire name
    RULE_PART,  // whole components of the name ("mlp.gate"), or the name; * is any text
    RULE_TEXT,  // any text in the name
    RULE_REGEX, // a regular expression that matches at the start of the name
};

struct declared_rule {
    enum rule_match match;
    const char *pattern; // a part of the JSON
    regex_t *regex;
    struct declared_format format;
};

struct declaration {
    json_t *json;         // the whole file
    const json_t *object; // the declaration in it
    const char *usual;    // see quantised_format_of
    const char *folder;
    bool log;
    struct declared_format all, other; // format by the declaration; of modules without a rule
    struct declared_rule *rules;       // [count]
    uint32_t count;
    uint32_t regexes;
};

static const struct declared_format floats = {.quantized = false};

// Translates a regular expression of Python to one of POSIX. Returns false for what that lacks, and
// for what can take all memory: repetitions with counts, and many groups with a +, of which regcomp
// makes two copies each, also within each other.
static bool regex_translate(char out[POSIX_MAX], const char *from)
{
    char *to = stpcpy(out, "^(");
    bool class = false;
    uint32_t repeated = 0;
    if (strlen(from) >= PATTERN_MAX)
        return false;
    for (; *from != '\0'; from++) {
        char letter = from[0] == '\\' ? from[1] : '\0';
        if (letter == 'd') {
            to = stpcpy(to, class ? "0-9" : "[0-9]");
            from++;
        } else if (class && (letter == 'w' || letter == 's')) {
            to = stpcpy(to, letter == 'w' ? "[:alnum:]_" : "[:space:]");
            from++;
        } else if (from[0] == '\\' && from[1] != '\0') {
            bool outside = strchr("bswSW", letter) != NULL; // glibc has these outside classes
            if (outside ? class : strchr("ABDZ0123456789", letter) != NULL)
                return false;
            if (!class) // in a class POSIX takes a backslash literally
                *to++ = *from;
            *to++ = *++from;
        } else if (!class && from[0] == '(' && from[1] == '?') {
            if (from[2] != ':')
                return false;
            *to++ = '(';
            from += 2;
        } else if (!class && from[0] == '{') {
            return false;
        } else if (!class && from[0] == ')' && from[1] == '+' && ++repeated > REPEATED_MAX) {
            return false;
        } else if (!class && from[0] == '?' && to[-1] != '\\' && strchr("*+?", to[-1])) {
            continue; // a lazy repetition matches the same names
        } else {
            class = class ? *from != ']' : *from == '[';
            *to++ = *from;
        }
    }
    stpcpy(to, ")");
    return true;
}

// Adds a rule. A pattern that is not read is logged, and its modules have no rule.
static void rule_add(struct declaration *d, enum rule_match match, const char *pattern,
                     struct declared_format format)
{
    struct declared_rule rule = {match, pattern, NULL, format};
    if (!pattern || d->count == RULES_MAX)
        return;
    if (match == RULE_REGEX) {
        char posix[POSIX_MAX];
        rule.regex = heap_alloc_zeroed(1, sizeof *rule.regex);
        if (d->regexes == REGEXES_MAX || !regex_translate(posix, pattern) ||
            regcomp(rule.regex, posix, REG_EXTENDED | REG_NOSUB) != 0) {
            heap_free(rule.regex);
            if (d->log)
                log_line(
                    LOG_WARNING,
                    "%s: the pattern '%s' in the quantization declaration is not supported and is "
                    "ignored: modules that match it may have another format than in the checkpoint",
                    d->folder, safe_of(text_of(pattern)).at);
            return;
        }
        d->regexes++;
    }
    d->rules = heap_grow(d->rules, (d->count + 1) * sizeof *d->rules);
    d->rules[d->count++] = rule;
}

// Adds a rule for a pattern that may begin with "re:".
static void pattern_add(struct declaration *d, enum rule_match match, const json_t *value,
                        struct declared_format format)
{
    const char *pattern = json_string_value(value);
    bool regex = pattern && strncmp(pattern, "re:", 3) == 0;
    rule_add(d, regex ? RULE_REGEX : match, regex ? pattern + 3 : pattern, format);
}

// Returns the format of the declaration with the members of `changes` in place of its own.
static struct declared_format changed(const struct declaration *d, const json_t *changes)
{
    json_t *object = json_copy((json_t *)d->object);
    json_object_update(object, (json_t *)changes);
    struct declared_format format = quantised_format_of(object, d->usual);
    json_decref(object);
    return format;
}

// The modules that are left out.
static void left_out_add(struct declaration *d)
{
    static const char *const keys[] = {"ignore", "exclude_modules", "modules_to_not_convert",
                                       "llm_int8_skip_modules", "ignored_layers"};
    const char *method = quantised_method(d->object, d->usual);
    enum rule_match match = strcmp(method, "compressed-tensors") == 0 ? RULE_NAME
                            : strcmp(method, "awq") == 0              ? RULE_TEXT
                                                                      : RULE_PART;
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        const json_t *list = json_object_get(d->object, keys[k]);
        for (size_t i = 0; i < json_array_size(list); i++)
            pattern_add(d, match, json_array_get(list, i), floats);
    }
}

// compressed-tensors: groups of modules, by name or as all linear ones.
static void groups_add(struct declaration *d)
{
    const char *key;
    json_t *group, *target;
    size_t i;
    const json_t *groups = json_object_get(d->object, "config_groups");
    if (strcmp(quantised_method(d->object, d->usual), "compressed-tensors") != 0)
        return;
    d->other = floats;
    json_object_foreach((json_t *)groups, key, group)
    {
        const json_t *weights = json_object_get(group, "weights");
        const json_t *targets = json_object_get(group, "targets");
        if (!json_is_object(weights))
            continue;
        struct declared_format format = quantised_group_format(weights);
        bool linear = !json_is_array(targets);
        json_array_foreach(targets, i, target)
        {
            linear =
                linear || (json_is_string(target) && !strcmp(json_string_value(target), "Linear"));
            pattern_add(d, RULE_NAME, target, format);
        }
        if (linear) // unknown if several groups that differ have all modules
            d->other = !d->other.quantized || declared_formats_equal(&d->other, &format)
                           ? format
                           : (struct declared_format){.quantized = true};
    }
}

// GPTQModel: "dynamic" has regular expressions with other values, or with "-:" for modules that are
// left out. "modules_in_block_to_quantize" lists the modules of a layer that are quantised.
static void dynamic_add(struct declaration *d)
{
    const char *key;
    json_t *value, *names;
    size_t i, k;
    json_object_foreach(json_object_get(d->object, "dynamic"), key, value)
    {
        bool out = strncmp(key, "-:", 2) == 0, more = strncmp(key, "+:", 2) == 0;
        rule_add(d, RULE_REGEX, key + (out || more ? 2 : 0), out ? floats : changed(d, value));
    }
    json_array_foreach(json_object_get(d->object, "modules_in_block_to_quantize"), i, names)
    {
        d->other = floats;
        if (json_is_string(names))
            pattern_add(d, RULE_PART, names, d->all);
        json_array_foreach(names, k, value) pattern_add(d, RULE_PART, value, d->all);
    }
}

// AutoRound: modules, by name or regular expression, with other values; 16 bits are floats.
static void extra_add(struct declaration *d)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(d->object, "extra_config"), key, value)
    {
        bool left = json_integer_value(json_object_get(value, "bits")) >= 16;
        bool regex = strpbrk(key, "*+?^$[(|\\") != NULL;
        rule_add(d, regex ? RULE_REGEX : RULE_NAME, key, left ? floats : changed(d, value));
    }
}

// ModelOpt with mixed precision: a format for each module.
static void layers_add(struct declaration *d)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(d->object, "quantized_layers"), key, value)
    {
        d->other = floats;
        rule_add(d, RULE_NAME, key, quantised_format_of(value, "modelopt"));
    }
}

enum status declaration_open(struct declaration **out, const char *folder, bool log,
                             struct error *err)
{
    struct declaration *d = heap_alloc_zeroed(1, sizeof *d);
    *out = NULL;
    d->folder = folder;
    d->log = log;
    enum status status = quantised_declaration(&d->json, &d->object, &d->usual, folder, err);
    if (status != STATUS_OK || !d->object) {
        declaration_close(d);
        return status;
    }
    d->all = d->other = quantised_format_of(d->object, d->usual);
    left_out_add(d);
    groups_add(d);
    dynamic_add(d);
    extra_add(d);
    layers_add(d);
    *out = d;
    return STATUS_OK;
}

void declaration_close(struct declaration *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->rules[i].regex) {
            regfree(d->rules[i].regex);
            heap_free(d->rules[i].regex);
        }
    heap_free(d->rules);
    json_decref(d->json);
    heap_free(d);
}

// Returns true if the pattern, in which * is any text, is the text up to its end, or up to
// a dot if `open`.
static bool star_matches(const char *pattern, const char *text, bool open)
{
    const char *star = NULL, *from = text;
    for (;;) {
        if (*pattern == '\0' && (*text == '\0' || (open && *text == '.')))
            return true;
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (*text != '\0' && *pattern == *text) {
            pattern++;
            text++;
        } else if (star && *from != '\0') { // the last * takes one character more
            pattern = star;
            text = ++from;
        } else {
            return false;
        }
    }
}

static bool rule_matches(const struct declared_rule *rule, const char *name)
{
    switch (rule->match) {
    case RULE_NAME:
        return strcmp(rule->pattern, name) == 0;
    case RULE_TEXT:
        return strstr(name, rule->pattern) != NULL;
    case RULE_REGEX:
        return regexec(rule->regex, name, 0, NULL, 0) == 0;
    case RULE_PART:
        break;
    }
    for (const char *at = name; at; at = strchr(at, '.'), at += at != NULL)
        if (star_matches(rule->pattern, at, true))
            return true;
    return false;
}

struct declared_format declaration_format(const struct declaration *d, const char *const *names,
                                          uint32_t count)
{
    for (uint32_t r = 0; r < d->count; r++)
        for (uint32_t i = 0; i < count; i++)
            if (rule_matches(&d->rules[r], names[i]))
                return d->rules[r].format;
    return d->other;
}
