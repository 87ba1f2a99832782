// SPDX-License-Identifier: Apache-2.0
// Private to the reader of PTX text: operands as written, before the opcode defines their meaning.
#pragma once

#include "tests/ptx/internal.h"
#include "tests/ptx/scan.h"

enum written_kind {
    WRITTEN_REGISTER,
    WRITTEN_PREDICATE,
    WRITTEN_NUMBER,
    WRITTEN_ADDRESS,
    WRITTEN_NAME,
    WRITTEN_SINK, // _: values written to it are discarded
    WRITTEN_ABSENT
};

struct written {
    enum written_kind kind;
    struct ptx_operand at; // register or predicate; of an address: its base
    uint64_t value;        // number; of a name: its address, or the label
    bool dynamic;          // true: the value is an offset from the start of dynamic shared memory
    bool label;            // true: a name that is no symbol
    bool special;          // true: a register that cannot be written, such as %tid.x
    char name[WORD_MAX];   // name of the label
};

// Returns the row of forms.c for an opcode and its operands; NULL: there is none. Fills `access`
// for loads, stores and atomics. `known`: the opcode exists, so its operands are wrong.
const struct ptx_form *ptx_form_of(const char *opcode, const struct written *x, uint32_t count,
                                   struct ptx_access *access, char shape[PTX_OPERANDS_MAX + 1],
                                   bool *known);
