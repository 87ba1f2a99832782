// SPDX-License-Identifier: Apache-2.0
// Reads PTX text: modules, kernels, registers, symbols and labels; decodes each instruction once.
//
// Constants and addresses of symbols become registers that all warps share, so that each operand is
// an array of 32 lanes. Dynamic shared memory begins after the kernel's static shared memory, whose
// size is known at the kernel's end.
#include "tests/ptx/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FAMILIES_MAX = 256,
    ARRAYS_APART = 128,      // bytes between arrays of shared memory
    REGISTERS_MAX = 1 << 18, // most registers of one declaration
    ALIGN_MAX = 4096,
    DECLARED_MAX = 1 << 24 // most elements of an array
};

struct family { // %r<12> is twelve registers %r0 to %r11; a single register has no count
    char prefix[64];
    uint32_t count, at, scope;
    uint8_t bytes; // bytes of a register; 0: predicate
    bool alone;
};

enum symbol_space { SYMBOL_PARAM, SYMBOL_SHARED, SYMBOL_LOCAL, SYMBOL_DYNAMIC };
struct symbol {
    char name[WORD_MAX];
    enum symbol_space space;
    uint32_t at;
};

struct label {
    char *name;
    uint32_t at;
};

struct constant {
    uint64_t value;
    uint32_t at;
    uint8_t bytes;
    bool dynamic;
};

struct jump { // an instruction whose target is not known yet
    uint32_t ins, line;
    char *label;
};

// Grows an array by one zeroed item.
#define GROW(list, count)                                                                          \
    (array_grow((void **)&(list), &(count), sizeof *(list)), &(list)[(count) - 1])

struct building {
    struct scan *s;
    struct ptx_module *module;
    struct ptx_kernel *kernel;
    struct family families[FAMILIES_MAX];
    uint32_t family_count, scope;
    struct symbol *symbols; // symbols of the module come first
    uint32_t symbol_count;
    struct ptx_kernel shared; // shared memory of the module, which each kernel also has
    struct label *labels;
    uint32_t label_count;
    struct constant *constants;
    uint32_t constant_count;
    struct jump *jumps;
    uint32_t jump_count;
    uint32_t file, source_line;
};

static void array_grow(void **list, uint32_t *count, size_t bytes)
{
    uint32_t n = *count;
    if (n == 0 || (n >= 16 && (n & (n - 1)) == 0)) { // the array is full
        *list = realloc(*list, (n == 0 ? 16 : 2 * (size_t)n) * bytes);
        if (!*list)
            abort();
    }
    memset((char *)*list + n * bytes, 0, bytes);
    *count = n + 1;
}

static uint32_t rounded_up(uint32_t value, uint32_t to)
{
    return (value + to - 1) / to * to;
}

// --- types and declarations ---

// Reads a type such as ".b32"; *bytes: its size, 0 for a predicate. Returns false after a fault.
static bool type_read(struct scan *s, uint8_t *bytes)
{
    char word[WORD_MAX];
    if (!scan_word(s, word))
        return false;
    if (strcmp(word, ".pred") == 0)
        return *bytes = 0, true;
    bool shape = word[0] == '.' && word[1] != 0 && strchr("busf", word[1]);
    static const char *const bits[] = {"8", "16", "32", "64"};
    for (uint8_t k = 0; shape && k < 4; k++)
        if (strcmp(word + 2, bits[k]) == 0)
            return *bytes = (uint8_t)(1 << k), true;
    return scan_fail(s, "'%s' is no type that is known", word);
}

static uint32_t registers_alloc(struct ptx_kernel *k, uint8_t bytes, uint32_t count)
{
    uint32_t at = k->register_bytes;
    uint32_t each = bytes != 0 ? (uint32_t)bytes * PTX_LANES : (uint32_t)sizeof(uint32_t);
    k->register_bytes = rounded_up(at + each * count, 64);
    return at;
}

// Reads .reg .b32 %r<12>; .reg .pred p, q;
static bool registers_read(struct building *b)
{
    uint8_t bytes;
    if (!type_read(b->s, &bytes))
        return false;
    bytes = bytes == 1 ? 2 : bytes; // 8-bit registers have 16 bits
    do {
        char name[WORD_MAX];
        if (b->family_count == FAMILIES_MAX || !scan_name(b->s, name) ||
            strlen(name) >= sizeof b->families[0].prefix)
            return scan_fail(b->s, "too many registers, or too long a name");
        struct family *f = &b->families[b->family_count++];
        *f = (struct family){.bytes = bytes, .scope = b->scope, .alone = true, .count = 1};
        strcpy(f->prefix, name);
        uint64_t count = 1;
        if (scan_accept(b->s, '<')) {
            f->alone = false;
            if (!scan_number(b->s, &count) || !scan_expect(b->s, '>'))
                return false;
        }
        if (count > REGISTERS_MAX)
            return scan_fail(b->s, "more than %d registers %s", REGISTERS_MAX, name);
        f->count = (uint32_t)count;
        f->at = registers_alloc(b->kernel, bytes, f->count);
    } while (scan_accept(b->s, ','));
    return scan_expect(b->s, ';');
}

struct declared {
    char name[WORD_MAX];
    uint32_t align, bytes;
    bool open; // true: name[]
};

// Reads [.align n] .type [.ptr [.space] [.align n]] name[[n]]
static bool declaration_read(struct scan *s, struct declared *d)
{
    uint8_t bytes;
    uint64_t number;
    char word[WORD_MAX];
    *d = (struct declared){0};
    number = 0;
    if (scan_is(s, ".align") && (!scan_word(s, word) || !scan_number(s, &number)))
        return false;
    if (!type_read(s, &bytes))
        return false;
    if (bytes == 0 || number > ALIGN_MAX)
        return scan_fail(s, "a declaration of a predicate, or aligned to more than %d", ALIGN_MAX);
    d->align = number > bytes ? (uint32_t)number : bytes;
    while (scan_is(s, ".")) // such as .ptr .global .align 16
        if (!scan_word(s, word) || (strcmp(word, ".align") == 0 && !scan_number(s, &number)))
            return false;
    if (!scan_name(s, d->name))
        return false;
    uint64_t count = 1;
    if (scan_accept(s, '[')) {
        d->open = scan_peek(s) == ']';
        if ((!d->open && !scan_number(s, &count)) || !scan_expect(s, ']'))
            return false;
    }
    if (count > DECLARED_MAX)
        return scan_fail(s, "'%s' has more than %d elements", d->name, DECLARED_MAX);
    d->bytes = d->open ? 0 : (uint32_t)(count * bytes);
    return true;
}

static struct symbol *symbol_new(struct building *b, const char *name, enum symbol_space space,
                                 uint32_t at)
{
    struct symbol *symbol = GROW(b->symbols, b->symbol_count);
    snprintf(symbol->name, sizeof symbol->name, "%s", name);
    symbol->space = space;
    symbol->at = at;
    return symbol;
}

// Reads .local of a kernel.
static bool local_read(struct building *b)
{
    struct declared d;
    if (!declaration_read(b->s, &d) || !scan_expect(b->s, ';'))
        return false;
    uint32_t *bytes = &b->kernel->local_bytes;
    *bytes = rounded_up(*bytes, d.align);
    symbol_new(b, d.name, SYMBOL_LOCAL, *bytes);
    *bytes += d.bytes;
    return true;
}

// Returns the address of an array of shared memory: apart from the previous one, and at an odd
// multiple of its alignment.
static uint32_t array_place(uint32_t end, uint32_t align)
{
    uint32_t at = rounded_up(end == 0 ? 0 : end + ARRAYS_APART, align);
    return at / align % 2 == 0 ? at + align : at;
}

// Reads .shared of a kernel or of the module.
static bool shared_read(struct building *b, struct ptx_kernel *k)
{
    struct declared d;
    if (!declaration_read(b->s, &d) || !scan_expect(b->s, ';'))
        return false;
    if (d.open) {
        symbol_new(b, d.name, SYMBOL_DYNAMIC, 0);
        k->dynamic_align = d.align > k->dynamic_align ? d.align : k->dynamic_align;
        return true;
    }
    uint32_t at = array_place(k->shared_end, d.align);
    symbol_new(b, d.name, SYMBOL_SHARED, at);
    *GROW(k->arrays, k->array_count) = (struct ptx_array){at, d.bytes};
    k->shared_end = at + d.bytes;
    k->shared_bytes = rounded_up(k->shared_bytes, d.align) + d.bytes;
    return true;
}

// Starts a kernel's shared memory with that of the module.
static void shared_begin(const struct building *b, struct ptx_kernel *k)
{
    k->shared_bytes = b->shared.shared_bytes;
    k->shared_end = b->shared.shared_end;
    k->dynamic_align = b->shared.dynamic_align;
    for (uint32_t n = 0; n < b->shared.array_count; n++)
        *GROW(k->arrays, k->array_count) = b->shared.arrays[n];
}

// --- operands ---

static const char *const special_names[SPECIAL_COUNT] = {
    [SPECIAL_TID_X] = "%tid.x",       [SPECIAL_TID_Y] = "%tid.y",
    [SPECIAL_TID_Z] = "%tid.z",       [SPECIAL_NTID_X] = "%ntid.x",
    [SPECIAL_NTID_Y] = "%ntid.y",     [SPECIAL_NTID_Z] = "%ntid.z",
    [SPECIAL_CTAID_X] = "%ctaid.x",   [SPECIAL_CTAID_Y] = "%ctaid.y",
    [SPECIAL_CTAID_Z] = "%ctaid.z",   [SPECIAL_NCTAID_X] = "%nctaid.x",
    [SPECIAL_NCTAID_Y] = "%nctaid.y", [SPECIAL_NCTAID_Z] = "%nctaid.z",
    [SPECIAL_LANE] = "%laneid"};

static bool special_find(struct building *b, const char *name, struct ptx_operand *out)
{
    struct ptx_kernel *k = b->kernel;
    for (uint8_t which = 0; which < SPECIAL_COUNT; which++) {
        if (strcmp(name, special_names[which]) != 0)
            continue;
        uint32_t n = 0;
        while (n < k->special_count && k->specials[n].which != which)
            n++;
        if (n == k->special_count)
            k->specials[k->special_count++] = (struct ptx_special){registers_alloc(k, 4, 1), which};
        *out = (struct ptx_operand){.at = k->specials[n].at, .bytes = 4};
        return true;
    }
    return false;
}

// Finds the innermost register of that name.
static bool register_find(const struct building *b, const char *name, struct ptx_operand *out)
{
    for (uint32_t n = b->family_count; n-- > 0;) {
        const struct family *f = &b->families[n];
        size_t length = strlen(f->prefix);
        if (strncmp(name, f->prefix, length) != 0)
            continue;
        char *rest = NULL;
        unsigned long index = f->alone ? 0 : strtoul(name + length, &rest, 10);
        bool is =
            f->alone ? name[length] == 0 : name[length] >= '0' && name[length] <= '9' && *rest == 0;
        if (!is || index >= f->count)
            continue;
        uint32_t each = f->bytes != 0 ? (uint32_t)f->bytes * PTX_LANES : (uint32_t)sizeof(uint32_t);
        *out = (struct ptx_operand){.at = f->at + (uint32_t)index * each, .bytes = f->bytes};
        return true;
    }
    return false;
}

static const struct symbol *symbol_find(const struct building *b, const char *name)
{
    for (uint32_t n = b->symbol_count; n-- > 0;)
        if (strcmp(b->symbols[n].name, name) == 0)
            return &b->symbols[n];
    return NULL;
}

static bool named_read(struct building *b, struct written *x)
{
    char name[WORD_MAX];
    if (!scan_word(b->s, name))
        return false;
    if (register_find(b, name, &x->at)) {
        x->kind = x->at.bytes != 0 ? WRITTEN_REGISTER : WRITTEN_PREDICATE;
        return true;
    }
    if (special_find(b, name, &x->at)) {
        x->kind = WRITTEN_REGISTER;
        x->special = true;
        return true;
    }
    if (name[0] == '%')
        return scan_fail(b->s, "'%s' is no register that is known", name);
    x->kind = strcmp(name, "_") == 0 ? WRITTEN_SINK : WRITTEN_NAME;
    if (x->kind == WRITTEN_SINK)
        return true;
    const struct symbol *symbol = symbol_find(b, name);
    x->label = !symbol;
    x->value = symbol ? symbol->at : 0;
    x->dynamic = symbol && symbol->space == SYMBOL_DYNAMIC;
    snprintf(x->name, sizeof x->name, "%s", name);
    return true;
}

static bool number_next(struct scan *s)
{
    char c = scan_peek(s);
    return c == '-' || (c >= '0' && c <= '9');
}

static struct ptx_operand constant_add(struct building *b, uint64_t value, uint8_t bytes,
                                       bool dynamic)
{
    for (uint32_t n = 0; n < b->constant_count; n++) {
        const struct constant *c = &b->constants[n];
        if (c->value == value && c->bytes == bytes && c->dynamic == dynamic)
            return (struct ptx_operand){.at = c->at, .bytes = bytes, .constant = true};
    }
    struct constant *c = GROW(b->constants, b->constant_count);
    *c = (struct constant){value, b->kernel->constant_bytes, bytes, dynamic};
    b->kernel->constant_bytes += (uint32_t)bytes * PTX_LANES;
    return (struct ptx_operand){.at = c->at, .bytes = bytes, .constant = true};
}

// Reads [base], [base+offset] or [number].
static bool address_read(struct building *b, struct written *x)
{
    struct scan *s = b->s;
    struct written base = {.kind = WRITTEN_NUMBER};
    if (!(number_next(s) ? scan_number(s, &base.value) : named_read(b, &base)))
        return false;
    if (base.kind == WRITTEN_PREDICATE || base.kind == WRITTEN_SINK ||
        (base.kind == WRITTEN_NAME && base.label))
        return scan_fail(s, "'%s' is no address", base.name);
    x->kind = WRITTEN_ADDRESS;
    x->at = base.kind == WRITTEN_REGISTER ? base.at : constant_add(b, base.value, 8, base.dynamic);
    while (scan_accept(s, '+')) {
        uint64_t offset;
        if (!scan_number(s, &offset))
            return false;
        int64_t sum = x->at.offset + (int64_t)offset;
        if (sum != (int32_t)sum)
            return scan_fail(s, "the offset %lld does not fit 32 bits", (long long)sum);
        x->at.offset = (int32_t)sum;
    }
    return scan_expect(s, ']');
}

static bool operand_read(struct building *b, struct written *x, uint32_t *count)
{
    struct scan *s = b->s;
    if (*count == PTX_OPERANDS_MAX)
        return scan_fail(s, "too many operands");
    if (scan_accept(s, '{')) {
        do
            if (!operand_read(b, x, count))
                return false;
        while (scan_accept(s, ','));
        return scan_expect(s, '}');
    }
    struct written *out = &x[(*count)++];
    *out = (struct written){.kind = WRITTEN_NUMBER};
    if (scan_accept(s, '['))
        return address_read(b, out);
    return number_next(s) ? scan_number(s, &out->value) : named_read(b, out);
}

// Reads the operands; d|p of a shuffle is two operands, of which the second is optional.
static bool operands_read(struct building *b, const char *opcode, struct written *x,
                          uint32_t *count)
{
    *count = 0;
    while (scan_peek(b->s) != ';' && !b->s->failed) {
        if (*count != 0 && !scan_expect(b->s, ','))
            return false;
        if (!operand_read(b, x, count))
            return false;
        if (strncmp(opcode, "shfl.", 5) == 0 && *count == 1) {
            if (!scan_accept(b->s, '|'))
                x[(*count)++] = (struct written){.kind = WRITTEN_ABSENT};
            else if (!operand_read(b, x, count))
                return false;
        }
    }
    return scan_expect(b->s, ';');
}

// --- instructions ---

static uint32_t opcode_index(struct ptx_kernel *k, const char *opcode, const struct ptx_form *form,
                             const struct ptx_access *access)
{
    for (uint32_t n = 0; n < k->opcode_count; n++)
        if (k->opcodes[n].form == form && strcmp(k->opcodes[n].opcode, opcode) == 0)
            return n;
    *GROW(k->opcodes, k->opcode_count) = (struct ptx_opcode_count){strdup(opcode), form, *access};
    return k->opcode_count - 1;
}

static uint8_t constant_bytes(char letter)
{
    if (strchr("iABC", letter))
        return 4;
    return letter == 'n' ? 8 : (uint8_t)(letter - '0');
}

static struct ptx_operand operand_of(struct building *b, char letter, const struct written *x)
{
    if (letter == 'P' && x->kind == WRITTEN_NUMBER)
        return constant_add(b, x->value != 0 ? UINT32_MAX : 0, 4, false);
    switch (x->kind) {
    case WRITTEN_SINK:
        return (struct ptx_operand){.at = registers_alloc(b->kernel, 8, 1), .bytes = 8};
    case WRITTEN_ABSENT:
        return (struct ptx_operand){.absent = true};
    case WRITTEN_NUMBER:
    case WRITTEN_NAME:
        return x->label ? (struct ptx_operand){.absent = true}
                        : constant_add(b, x->value, constant_bytes(letter), x->dynamic);
    default:
        return x->at;
    }
}

static bool guard_read(struct building *b, struct ptx_ins *i)
{
    i->guard.absent = true;
    if (!scan_accept(b->s, '@'))
        return true;
    i->guard_negated = scan_accept(b->s, '!');
    char name[WORD_MAX];
    if (!scan_word(b->s, name))
        return false;
    if (!register_find(b, name, &i->guard) || i->guard.bytes != 0)
        return scan_fail(b->s, "'%s' is no predicate", name);
    return true;
}

static bool instruction_read(struct building *b)
{
    struct ptx_kernel *k = b->kernel;
    struct ptx_ins i = {.line = b->s->line, .file = b->file, .source_line = b->source_line};
    char opcode[WORD_MAX], shape[PTX_OPERANDS_MAX + 1];
    struct written x[PTX_OPERANDS_MAX];
    uint32_t count;
    bool known;
    if (!guard_read(b, &i) || !scan_word(b->s, opcode) || !operands_read(b, opcode, x, &count))
        return false;
    const struct ptx_form *form = ptx_form_of(opcode, x, count, &i.access, shape, &known);
    if (!form)
        return scan_fail(b->s,
                         known ? "the operands of '%s' are not what it takes"
                               : "the opcode '%s' is not known",
                         opcode);
    i.run = form->run;
    i.flow = form->flow;
    i.division = strncmp(opcode, "div.", 4) == 0 || strncmp(opcode, "rem.", 4) == 0;
    i.uniform = strcmp(opcode, "bra.uni") == 0;
    i.operands = (uint8_t)count;
    i.opcode = opcode_index(k, opcode, form, &i.access);
    for (uint32_t n = 0; n < count; n++)
        i.x[n] = operand_of(b, shape[n], &x[n]);
    if (i.flow == FLOW_BRANCH)
        *GROW(b->jumps, b->jump_count) = (struct jump){k->code_count, i.line, strdup(x[0].name)};
    *GROW(k->code, k->code_count) = i;
    return true;
}

// Reads .loc file line column[, function_name ..., inlined_at ...]: the location of the inlined
// code, not where it was inlined.
static bool location_read(struct building *b)
{
    uint64_t file, line;
    if (!scan_number(b->s, &file) || !scan_number(b->s, &line))
        return false;
    b->file = (uint32_t)file;
    b->source_line = (uint32_t)line;
    scan_line(b->s);
    return true;
}

static bool directive_read(struct building *b)
{
    char word[WORD_MAX];
    if (!scan_word(b->s, word))
        return false;
    if (strcmp(word, ".reg") == 0)
        return registers_read(b);
    if (strcmp(word, ".shared") == 0)
        return shared_read(b, b->kernel);
    if (strcmp(word, ".local") == 0)
        return local_read(b);
    if (strcmp(word, ".loc") == 0)
        return location_read(b);
    if (strcmp(word, ".pragma") == 0)
        return scan_over(b->s, ';'), true;
    return scan_fail(b->s, "the directive '%s' is not known in a kernel", word);
}

// Reads a label: a name followed by a colon.
static bool label_read(struct building *b)
{
    struct scan before = *b->s;
    char name[WORD_MAX];
    if (scan_peek(b->s) == '@' || scan_peek(b->s) == '.')
        return false;
    if (!scan_name(b->s, name) || b->s->at >= b->s->end || *b->s->at != ':') {
        *b->s = before;
        return false;
    }
    b->s->at++;
    *GROW(b->labels, b->label_count) = (struct label){strdup(name), b->kernel->code_count};
    return true;
}

static bool body_read(struct building *b)
{
    struct scan *s = b->s;
    if (!scan_expect(s, '{'))
        return false;
    b->scope = 1;
    while (b->scope != 0 && !s->failed) {
        if (scan_peek(s) == 0)
            return scan_fail(s, "the kernel does not end");
        if (scan_accept(s, '{')) {
            b->scope++;
        } else if (scan_accept(s, '}')) {
            while (b->family_count != 0 && b->families[b->family_count - 1].scope == b->scope)
                b->family_count--;
            b->scope--;
        } else if (scan_peek(s) == '.') {
            directive_read(b);
        } else if (!label_read(b)) {
            instruction_read(b);
        }
    }
    return !s->failed;
}

// --- kernels ---

static bool parameters_read(struct building *b)
{
    struct ptx_kernel *k = b->kernel;
    if (!scan_accept(b->s, '('))
        return true;
    while (!scan_accept(b->s, ')')) {
        char word[WORD_MAX];
        struct declared d;
        if (k->parameter_count != 0 && !scan_expect(b->s, ','))
            return false;
        if (!scan_word(b->s, word) || strcmp(word, ".param") != 0 || !declaration_read(b->s, &d))
            return scan_fail(b->s, "a parameter is missing");
        k->parameter_bytes = rounded_up(k->parameter_bytes, d.align);
        symbol_new(b, d.name, SYMBOL_PARAM, k->parameter_bytes);
        *GROW(k->parameters, k->parameter_count) =
            (struct ptx_parameter){k->parameter_bytes, d.bytes};
        k->parameter_bytes += d.bytes;
    }
    return true;
}

static int label_order(const void *x, const void *y)
{
    return strcmp(((const struct label *)x)->name, ((const struct label *)y)->name);
}

static bool jumps_settle(struct building *b)
{
    if (b->label_count != 0)
        qsort(b->labels, b->label_count, sizeof *b->labels, label_order);
    for (uint32_t n = 1; n < b->label_count; n++)
        if (strcmp(b->labels[n - 1].name, b->labels[n].name) == 0)
            return scan_fail(b->s, "the label '%s' stands twice", b->labels[n].name);
    for (uint32_t n = 0; n < b->jump_count; n++) {
        struct label want = {b->jumps[n].label, 0};
        const struct label *l = b->label_count == 0 ? NULL
                                                    : bsearch(&want, b->labels, b->label_count,
                                                              sizeof *b->labels, label_order);
        if (!l || l->at >= b->kernel->code_count) {
            b->s->line = b->jumps[n].line;
            return scan_fail(b->s, "no instruction stands at the label '%s'", want.name);
        }
        b->kernel->code[b->jumps[n].ins].target = l->at;
    }
    return true;
}

static void constants_settle(struct building *b)
{
    struct ptx_kernel *k = b->kernel;
    k->dynamic_at = array_place(k->shared_end, k->dynamic_align != 0 ? k->dynamic_align : 1);
    k->constants = calloc(k->constant_bytes + 1, 1);
    k->issued = calloc(k->code_count + 1, sizeof *k->issued);
    if (!k->constants || !k->issued)
        abort();
    for (uint32_t n = 0; n < b->constant_count; n++) {
        const struct constant *c = &b->constants[n];
        uint64_t value = c->value + (c->dynamic ? k->dynamic_at : 0);
        for (uint32_t l = 0; l < PTX_LANES; l++)
            memcpy(k->constants + c->at + l * c->bytes, &value, c->bytes);
    }
}

static void building_clear(struct building *b, uint32_t module_symbols)
{
    for (uint32_t n = 0; n < b->label_count; n++)
        free(b->labels[n].name);
    for (uint32_t n = 0; n < b->jump_count; n++)
        free(b->jumps[n].label);
    free(b->labels);
    free(b->jumps);
    free(b->constants);
    b->labels = NULL;
    b->jumps = NULL;
    b->constants = NULL;
    b->label_count = b->jump_count = b->constant_count = b->family_count = 0;
    b->symbol_count = module_symbols;
}

// Reads .maxntid 256, 1, 1; and .reqntid 128; others have no effect here.
static bool bounds_read(struct building *b)
{
    while (scan_peek(b->s) == '.') {
        char word[WORD_MAX];
        if (!scan_word(b->s, word))
            return false;
        bool most = strcmp(word, ".maxntid") == 0, all = strcmp(word, ".reqntid") == 0;
        uint64_t side[3] = {1, 1, 1};
        for (int n = 0; (most || all) && n < 3 && (n == 0 || scan_accept(b->s, ',')); n++)
            if (!scan_number(b->s, &side[n]) || side[n] == 0 || side[n] > 1024)
                return scan_fail(b->s, "'%s' names no size of a block", word);
        if (most)
            b->kernel->threads_max = (uint32_t)(side[0] * side[1] * side[2]);
        for (int n = 0; all && n < 3; n++)
            b->kernel->threads[n] = (uint32_t)side[n];
        if (!most && !all)
            scan_line(b->s);
    }
    return !b->s->failed;
}

static bool kernel_read(struct building *b)
{
    char name[WORD_MAX];
    uint32_t module_symbols = b->symbol_count;
    if (!scan_name(b->s, name))
        return false;
    b->kernel = GROW(b->module->kernels, b->module->kernel_count);
    b->kernel->name = strdup(name);
    b->kernel->module = b->module;
    shared_begin(b, b->kernel);
    bool fine = parameters_read(b) && bounds_read(b);
    fine = fine && body_read(b) && jumps_settle(b);
    if (fine) {
        constants_settle(b);
        fine = ptx_flow(b->kernel) || scan_fail(b->s, "the kernel '%s' runs over its end", name);
    }
    building_clear(b, module_symbols);
    return fine;
}

// --- modules ---

static bool file_read(struct building *b)
{
    uint64_t number;
    if (!scan_number(b->s, &number) || number > 4096 || !scan_expect(b->s, '"'))
        return scan_fail(b->s, "a file has no number or no name");
    const char *from = b->s->at;
    scan_over(b->s, '"');
    while (b->module->file_count <= number)
        *GROW(b->module->files, b->module->file_count) = NULL;
    free(b->module->files[number]);
    b->module->files[number] = strndup(from, (size_t)(b->s->at - from) - 1);
    scan_line(b->s);
    return true;
}

static bool section_skip(struct building *b)
{
    scan_over(b->s, '{');
    scan_over(b->s, '}');
    return true;
}

static bool statement_read(struct building *b)
{
    static const char *const lines[] = {".version", ".target", ".address_size"};
    static const char *const words[] = {".visible", ".weak", ".extern"};
    char word[WORD_MAX];
    if (!scan_word(b->s, word))
        return false;
    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++)
        if (strcmp(word, lines[n]) == 0)
            return scan_line(b->s), true;
    for (size_t n = 0; n < sizeof words / sizeof words[0]; n++)
        if (strcmp(word, words[n]) == 0)
            return true; // the declaration that it precedes follows
    if (strcmp(word, ".entry") == 0)
        return kernel_read(b);
    if (strcmp(word, ".shared") == 0)
        return shared_read(b, &b->shared);
    if (strcmp(word, ".global") == 0 || strcmp(word, ".const") == 0)
        return scan_over(b->s, ';'), true; // a use of the name is reported as unknown
    if (strcmp(word, ".file") == 0)
        return file_read(b);
    if (strcmp(word, ".section") == 0)
        return section_skip(b);
    return scan_fail(b->s, "'%s' is not known in a module", word);
}

struct ptx_module *ptx_module_read(const char *text, size_t bytes, char *why, size_t why_bytes)
{
    struct ptx_module *module = calloc(1, sizeof *module);
    struct building *b = calloc(1, sizeof *b);
    if (!module || !b)
        abort();
    struct scan s = {
        .at = text, .end = text + bytes, .line = 1, .why = why, .why_bytes = why_bytes};
    b->s = &s;
    b->module = module;
    while (!s.failed && scan_peek(&s) != 0)
        statement_read(b);
    free(b->symbols);
    free(b->shared.arrays);
    free(b);
    if (!s.failed)
        return module;
    ptx_module_free(module);
    return NULL;
}
