// Private to the reader of PTX text: operands as they are written, before an opcode says what they
// mean.
#pragma once

#include "tests/ptx/internal.h"
#include "tests/ptx/scan.h"

enum written_kind {
    WRITTEN_REGISTER,
    WRITTEN_PREDICATE,
    WRITTEN_NUMBER,
    WRITTEN_ADDRESS,
    WRITTEN_NAME,
    WRITTEN_SINK, // _: what is written to it is lost
    WRITTEN_ABSENT
};

struct written {
    enum written_kind kind;
    struct ptx_operand at; // register, predicate; of an address: its base
    uint64_t value;        // number; of a name: where it lies, or the label
    bool dynamic;          // the value is an offset from where dynamic shared memory begins
    bool label;            // a name that is no symbol
    bool special;          // a register that cannot be written, such as %tid.x
    char name[WORD_MAX];   // of a label
};

// The row of forms.c for an opcode and its operands; NULL: none. For loads, stores and atomics
// `access` is filled. `known`: the opcode alone is known, so its operands are wrong.
const struct ptx_form *ptx_form_of(const char *opcode, const struct written *x, uint32_t count,
                                   struct ptx_access *access, char shape[PTX_OPERANDS_MAX + 1],
                                   bool *known);
