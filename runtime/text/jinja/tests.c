// SPDX-License-Identifier: Apache-2.0
// Tests, the names after `is`.
#include "runtime/text/jinja/internal.h"

static bool test_answer(struct jinja_value *out, bool holds)
{
    *out = jinja_bool(holds);
    return true;
}

static bool test_undefined(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    (void)run;
    return test_answer(out, (call->self.kind == JINJA_UNDEFINED) == (call->name[0] == 'u'));
}

// Tests that depend only on the type; their name selects the row.
static bool test_type(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    static const struct {
        const char *name;
        uint32_t kinds; // bit per kind
    } rows[] = {
        {"none", 1u << JINJA_NONE},
        {"boolean", 1u << JINJA_BOOL},
        {"integer", 1u << JINJA_INT | 1u << JINJA_WIDE},
        {"float", 1u << JINJA_FLOAT},
        {"number", 1u << JINJA_BOOL | 1u << JINJA_INT | 1u << JINJA_WIDE | 1u << JINJA_FLOAT},
        {"string", 1u << JINJA_STRING},
        {"mapping", 1u << JINJA_DICT},
        {"iterable", 1u << JINJA_STRING | 1u << JINJA_LIST | 1u << JINJA_DICT |
                         1u << JINJA_UNDEFINED | 1u << JINJA_LOOP},
        {"callable", 1u << JINJA_MACRO | 1u << JINJA_FUNCTION | 1u << JINJA_LOOP |
                         1u << JINJA_CYCLER | 1u << JINJA_UNDEFINED},
    };
    (void)run;
    uint32_t kinds = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(call->name, rows[i].name) == 0)
            kinds = rows[i].kinds;
    return test_answer(out, (kinds >> call->self.kind & 1u) != 0);
}

static bool test_sequence(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    (void)run;
    bool list = call->self.kind == JINJA_LIST && call->self.flavour <= JINJA_IS_RANGE;
    return test_answer(out, list || call->self.kind == JINJA_STRING ||
                                call->self.kind == JINJA_DICT ||
                                call->self.kind == JINJA_UNDEFINED);
}

static bool test_escaped(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    (void)run;
    return test_answer(out, call->self.kind == JINJA_STRING && call->self.as.string->markup);
}

static bool test_bool(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return test_answer(out, call->self.kind == JINJA_BOOL &&
                                call->self.as.boolean == (call->name[0] == 't'));
}

static bool test_parity(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_value rest;
    struct jinja_value by = jinja_int(2);
    struct jinja_value wanted = jinja_int(call->name[0] == 'o');
    bool equal = false;
    if (call->name[0] == 'd')
        by = call->args[0];
    return jinja_binary(run, '%', call->self, by, &rest) &&
           jinja_equal(run, rest, wanted, &equal) && test_answer(out, equal);
}

static bool test_case(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_call method = {.name = call->name};
    struct text name = text_of(call->name[0] == 'u' ? "isupper" : "islower");
    return jinja_to_string(run, call->self, &method.self) &&
           jinja_row_call(run, jinja_method_find(method.self, name), &method, out);
}

static bool test_compare(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    static const struct {
        const char *names; // each surrounded by blanks
        int op;
    } rows[] = {
        {" == eq equalto ", OP_EQ},
        {" != ne ", OP_NE},
        {" > gt greaterthan ", '>'},
        {" >= ge ", OP_GE},
        {" < lt lessthan ", '<'},
        {" <= le ", OP_LE},
        {" in ", OP_IN},
    };
    char wanted[32];
    bool holds = false;
    size_t bytes = strlen(call->name);
    check(bytes < sizeof wanted - 3, "test name %s", call->name);
    wanted[0] = ' ';
    memcpy(wanted + 1, call->name, bytes);
    memcpy(wanted + 1 + bytes, " ", 2);
    int op = OP_EQ;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(rows[i].names, wanted))
            op = rows[i].op;
    return jinja_compare(run, op, call->self, call->args[0], &holds) && test_answer(out, holds);
}

static bool test_sameas(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_value a = call->self;
    struct jinja_value b = call->args[0];
    bool same = a.kind == b.kind;
    if (same && (jinja_is_number(a) || a.kind == JINJA_STRING))
        return jinja_equal(run, a, b, &same) && test_answer(out, same);
    bool held = a.kind >= JINJA_LIST; // values compared by reference
    return test_answer(out, same && (!held || a.as.space == b.as.space));
}

static bool test_known(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    (void)run;
    if (call->self.kind != JINJA_STRING)
        return test_answer(out, false);
    struct text name = jinja_string_text(call->self.as.string);
    if (call->name[0] == 't')
        return test_answer(out, jinja_test_find(name) != NULL);
    return test_answer(out, jinja_text_filter(name) || jinja_sequence_filter(name) ||
                                jinja_map_filter(name));
}

const struct jinja_row *jinja_test_find(struct text name)
{
    static const struct jinja_row rows[] = {
        {"defined", "", 0, test_undefined},
        {"undefined", "", 0, test_undefined},
        {"none", "", 0, test_type},
        {"boolean", "", 0, test_type},
        {"integer", "", 0, test_type},
        {"float", "", 0, test_type},
        {"number", "", 0, test_type},
        {"string", "", 0, test_type},
        {"mapping", "", 0, test_type},
        {"iterable", "", 0, test_type},
        {"callable", "", 0, test_type},
        {"sequence", "", 0, test_sequence},
        {"escaped", "", 0, test_escaped},
        {"true", "", 0, test_bool},
        {"false", "", 0, test_bool},
        {"odd", "", 0, test_parity},
        {"even", "", 0, test_parity},
        {"divisibleby", "num", 1, test_parity},
        {"upper", "", 0, test_case},
        {"lower", "", 0, test_case},
        {"sameas", "other", 1, test_sameas},
        {"filter", "", 0, test_known},
        {"test", "", 0, test_known},
        {"==", "b", 1, test_compare},
        {"eq", "b", 1, test_compare},
        {"equalto", "b", 1, test_compare},
        {"!=", "b", 1, test_compare},
        {"ne", "b", 1, test_compare},
        {">", "b", 1, test_compare},
        {"gt", "b", 1, test_compare},
        {"greaterthan", "b", 1, test_compare},
        {">=", "b", 1, test_compare},
        {"ge", "b", 1, test_compare},
        {"<", "b", 1, test_compare},
        {"lt", "b", 1, test_compare},
        {"lessthan", "b", 1, test_compare},
        {"<=", "b", 1, test_compare},
        {"le", "b", 1, test_compare},
        {"in", "seq", 1, test_compare},
    };
    return jinja_row_find(rows, sizeof rows / sizeof *rows, name);
}
