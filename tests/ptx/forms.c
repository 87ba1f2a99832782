// SPDX-License-Identifier: Apache-2.0
// Maps an opcode with its operands to a row of the tables.
#include "tests/ptx/ops.h"
#include "tests/ptx/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ptx_form *const tables[] = {ptx_alu_forms, ptx_memory_forms, ptx_warp_forms};
enum { TABLES = sizeof tables / sizeof tables[0] };

static uint8_t letter_bytes(char letter) // bytes of a letter; 0: any
{
    switch (letter) {
    case '2':
    case 'h':
        return 2;
    case '4':
    case 'w':
        return 4;
    case '8':
    case 'd':
        return 8;
    default:
        return 0;
    }
}

static uint8_t copied_bytes(char letter) // bytes that one cp.async copies
{
    return letter == 'A' ? 4 : letter == 'B' ? 8 : 16;
}

// Returns true if the operand fits the letter. `least`: least bytes of a register whose letter
// allows any size.
static bool fits(char letter, const struct written *x, uint8_t least)
{
    bool number = x->kind == WRITTEN_NUMBER || (x->kind == WRITTEN_NAME && !x->label);
    uint8_t bytes = letter_bytes(letter);
    bool sized =
        x->kind == WRITTEN_REGISTER && (bytes != 0 ? x->at.bytes == bytes : x->at.bytes >= least);
    switch (letter) {
    case 'h':
    case 'w':
    case 'd':
    case 't':
        return (sized && !x->special) || x->kind == WRITTEN_SINK;
    case '2':
    case '4':
    case '8':
    case 'n':
        return number || sized;
    case 'p':
        return x->kind == WRITTEN_PREDICATE;
    case 'P':
        return x->kind == WRITTEN_PREDICATE || x->kind == WRITTEN_NUMBER;
    case 'q':
        return x->kind == WRITTEN_PREDICATE || x->kind == WRITTEN_ABSENT;
    case 'a':
        return x->kind == WRITTEN_ADDRESS;
    case 'i':
        return x->kind == WRITTEN_NUMBER;
    case 'A':
    case 'B':
    case 'C':
        return x->kind == WRITTEN_NUMBER && x->value == copied_bytes(letter);
    default: // 'l': label
        return x->kind == WRITTEN_NAME && x->label;
    }
}

static bool shape_fits(const char *shape, const struct written *x, uint32_t count,
                       const uint8_t least[2])
{
    if (strlen(shape) != count)
        return false;
    for (uint32_t k = 0; k < count; k++)
        if (!fits(shape[k], &x[k], least[k != 0]))
            return false;
    return true;
}

// Returns true for suffixes without effect here: caches, scopes, and memory orders, because one
// block runs at a time.
static bool suffix_ignored(const char *s)
{
    static const char *const ignored[] = {"nc",
                                          "L1::no_allocate",
                                          "L1::evict_last",
                                          "L1::evict_first",
                                          "L2::64B",
                                          "L2::128B",
                                          "L2::256B",
                                          "acquire",
                                          "release",
                                          "relaxed",
                                          "acq_rel",
                                          "volatile",
                                          "weak",
                                          "gpu",
                                          "sys",
                                          "cta"};
    for (size_t k = 0; k < sizeof ignored / sizeof ignored[0]; k++)
        if (strcmp(s, ignored[k]) == 0)
            return true;
    return false;
}

static const char *const space_names[] = {[SPACE_GLOBAL] = "global",
                                          [SPACE_SHARED] = "shared",
                                          [SPACE_LOCAL] = "local",
                                          [SPACE_PARAM] = "param"};

static bool suffix_space(const char *s, struct ptx_access *a)
{
    for (uint8_t k = SPACE_GLOBAL; k <= SPACE_PARAM; k++)
        if (strcmp(s, space_names[k]) == 0)
            return a->space = k, true;
    return strcmp(s, "shared::cta") == 0 ? a->space = SPACE_SHARED, true : false;
}

static bool suffix_type(const char *s, struct ptx_access *a)
{
    if (!strchr("usbf", s[0]) || s[0] == 0)
        return false;
    int bits = atoi(s + 1);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        return false;
    a->bytes = (uint8_t)(bits / 8);
    a->is_signed = s[0] == 's';
    return true;
}

enum family { FAMILY_NONE, FAMILY_LOAD, FAMILY_STORE, FAMILY_ATOMIC, FAMILY_COPY };

// Returns the family of an opcode, or of its row in the tables. The suffixes of families are
// parsed.
static enum family family_of(const char *opcode)
{
    static const struct {
        const char *name;
        enum family family;
    } all[] = {{"ld", FAMILY_LOAD}, {"st", FAMILY_STORE}, {"atom", FAMILY_ATOMIC}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        size_t length = strlen(all[k].name);
        if (strncmp(opcode, all[k].name, length) == 0 && strchr(".", opcode[length]))
            return all[k].family;
    }
    return strncmp(opcode, "cp.async", 8) == 0 ? FAMILY_COPY : FAMILY_NONE;
}

// Parses the suffixes into `a`. The remaining suffixes, in order, are the name in the table.
static bool suffixes_read(const char *opcode, struct ptx_access *a, char *left, size_t room)
{
    char text[128], *rest = NULL;
    if (strlen(opcode) >= sizeof text)
        return false;
    strcpy(text, opcode);
    enum family family = family_of(opcode);
    bool atomic = family == FAMILY_ATOMIC, copy = family == FAMILY_COPY;
    *a = (struct ptx_access){.space = SPACE_GENERIC, .count = 1};
    left[0] = 0;
    bool typed = false;
    for (char *s = strtok_r(text, ".", &rest); s != NULL; s = strtok_r(NULL, ".", &rest)) {
        bool first = left[0] == 0;
        a->readonly = a->readonly || (!first && strcmp(s, "nc") == 0);
        if (!first && (suffix_ignored(s) || (!copy && suffix_space(s, a))))
            continue;
        if (!first && !copy && !atomic && (strcmp(s, "v2") == 0 || strcmp(s, "v4") == 0)) {
            a->count = (uint8_t)(s[1] - '0');
            continue;
        }
        bool type = !first && !copy && suffix_type(s, a);
        typed = typed || type;
        if (type && !atomic)
            continue;
        if (strlen(left) + strlen(s) + 2 > room)
            return false;
        if (!first)
            strcat(left, ".");
        strcat(left, s);
    }
    // otherwise the sign has no effect
    a->is_signed = a->is_signed && family == FAMILY_LOAD && a->bytes < 8;
    return typed || copy;
}

// Computes the least bytes of registers of any size: of the first operand, and of the others.
static void least_bytes(const char *opcode, const struct ptx_access *a, uint8_t least[2])
{
    least[0] = least[1] = a->bytes;
    if (strncmp(opcode, "cvt.", 4) != 0)
        return;
    struct ptx_access type = {0};
    const char *from = strrchr(opcode, '.'), *to = from - 1;
    while (to > opcode && *to != '.')
        to--;
    if (suffix_type(from + 1, &type))
        least[1] = type.bytes;
    if (suffix_type(to + 1, &type))
        least[0] = type.bytes;
}

// Writes the shape of an access: a letter per element, and the address, which is last in a load and
// first in a store.
static void access_shape(const char *name, const struct ptx_access *a, char *shape)
{
    bool is_load = family_of(name) == FAMILY_LOAD;
    memset(shape, is_load ? 't' : 'n', a->count + 1u);
    shape[is_load ? a->count : 0] = 'a';
    shape[a->count + 1] = 0;
}

// --- rows by access ---

// Loads, stores and atomics have a row per space, loads and stores also per vector and type; the
// type of an atomic is part of its name.
enum { TYPES = 7, VECTORS = 3, SPACES = SPACE_PARAM + 1, ACCESSES = TYPES * VECTORS * SPACES };

static bool access_taken(enum family family, const struct ptx_access *a)
{
    switch (family) {
    case FAMILY_LOAD:
        return a->bytes * a->count <= 16;
    case FAMILY_STORE:
        return a->bytes * a->count <= 16 && a->space != SPACE_PARAM;
    case FAMILY_ATOMIC:
        return a->count == 1 && a->space <= SPACE_SHARED;
    default:
        return true;
    }
}

// Fills in the n-th access. Returns false if the row has no such access.
static bool access_at(const struct ptx_form *f, uint32_t n, struct ptx_access *a)
{
    enum family family = family_of(f->opcode);
    uint32_t type = n % TYPES, vector = n / TYPES % VECTORS;
    *a = (struct ptx_access){.space = (uint8_t)(n / TYPES / VECTORS),
                             .bytes = (uint8_t)(1 << type / 2),
                             .count = (uint8_t)(1 << vector),
                             .is_signed = type % 2 != 0};
    if (family == FAMILY_NONE || family == FAMILY_COPY)
        return n == 0;
    if ((family == FAMILY_ATOMIC && type != 0) || (family == FAMILY_STORE && a->is_signed))
        return false;
    return access_taken(family, a);
}

void ptx_row_of(const struct ptx_form *f, const struct ptx_access *a, struct ptx_row *out)
{
    enum family family = family_of(f->opcode);
    const char *point = a->space != SPACE_GENERIC ? "." : "", *vector = a->count == 4 ? ".v4" : "";
    const char *space = a->space != SPACE_GENERIC ? space_names[a->space] : "";
    out->shape = f->shape;
    if (family == FAMILY_ATOMIC)
        snprintf(out->opcode, sizeof out->opcode, "atom%s%s%s", point, space, f->opcode + 4);
    else if (family == FAMILY_LOAD || family == FAMILY_STORE)
        snprintf(out->opcode, sizeof out->opcode, "%s%s%s%s.%c%d", f->opcode, point, space,
                 a->count == 2 ? ".v2" : vector, a->is_signed ? 's' : 'b', 8 * a->bytes);
    else
        snprintf(out->opcode, sizeof out->opcode, "%s", f->opcode);
}

const struct ptx_form *ptx_form_of(const char *opcode, const struct written *x, uint32_t count,
                                   struct ptx_access *access, char shape[PTX_OPERANDS_MAX + 1],
                                   bool *known)
{
    char left[128];
    uint8_t least[2];
    *known = false;
    *access = (struct ptx_access){0};
    enum family family = family_of(opcode);
    if (family != FAMILY_NONE) {
        if (!suffixes_read(opcode, access, left, sizeof left) || !access_taken(family, access))
            return NULL;
        opcode = left;
    }
    least_bytes(opcode, access, least);
    for (uint32_t t = 0; t < TABLES; t++)
        for (const struct ptx_form *f = tables[t]; f->opcode != NULL; f++) {
            if (strcmp(f->opcode, opcode) != 0)
                continue;
            *known = true;
            strcpy(shape, f->shape);
            if (family == FAMILY_LOAD || family == FAMILY_STORE)
                access_shape(opcode, access, shape);
            if (shape_fits(shape, x, count, least))
                return f;
        }
    return NULL;
}

bool ptx_opcode(uint32_t index, struct ptx_row *out)
{
    struct ptx_access access;
    for (uint32_t t = 0; t < TABLES; t++)
        for (const struct ptx_form *f = tables[t]; f->opcode != NULL; f++)
            for (uint32_t n = 0; n < ACCESSES; n++)
                if (access_at(f, n, &access) && index-- == 0) {
                    ptx_row_of(f, &access, out);
                    return true;
                }
    return false;
}
