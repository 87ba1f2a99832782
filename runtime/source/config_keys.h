// SPDX-License-Identifier: Apache-2.0
// The table of the keys of config.json, and of GGUF files, that change what a model computes: for
// each key the values that change nothing, and its meaning. If a key of the table has another value
// and the architecture does not read it, the model is refused, because it would answer wrongly. A
// new key is a new row. Loading thread only.
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { KEY_DECODERS = 1, KEY_ENCODERS = 2, KEY_ALL = KEY_DECODERS | KEY_ENCODERS };

// The values of a key that change nothing; null, an empty list and an empty object never do. false
// and true count as 0 and 1.
enum key_neutral {
    NEUTRAL_ANY,        // any value: these families read the key, or text does not need it
    NEUTRAL_NONE,       // no other value
    NEUTRAL_NUMBER,     // the number `value`, or a list of this number only
    NEUTRAL_NOT_ZERO,   // any number but 0, or a list of such numbers
    NEUTRAL_AT_MOST,    // a number of at most `value`
    NEUTRAL_WORD,       // one of the words of `words`
    NEUTRAL_HEAD_DIM,   // the number of columns of a head
    NEUTRAL_HEAD_SCALE, // 1 / sqrt(columns of a head), the scale that attention has without the key
    NEUTRAL_HIDDEN,     // the width of the hidden states
    NEUTRAL_LENGTH,     // 0, or a number of at least the model's positions
    NEUTRAL_WINDOW,     // as NEUTRAL_LENGTH, and any value if use_sliding_window is false
};

struct config_key {
    const char *name;  // key of config.json; "rope." begins a member of the object of the rope
    const char *gguf;  // key of a GGUF file after the name of its family; NULL: there is none
    uint32_t families; // families for which the row applies
    enum key_neutral neutral;
    double value;
    const char *words;   // words separated by spaces
    const char *meaning; // noun phrase for messages: "a cap on the logits"
};

// The properties of a model with which values are compared.
struct config_facts {
    uint32_t family;  // KEY_DECODERS or KEY_ENCODERS
    const char *name; // name of the architecture, for messages
    // Keys that the architecture reads in addition to those that its family reads, separated by
    // spaces; NULL: none.
    const char *reads;
    uint32_t head_dim, hidden, positions;
};

// Refuses the first key of the table that has a value that would be ignored.
enum status config_keys_check(const json_t *json, const struct config_facts *facts,
                              struct error *err) MUST_USE;

// Refuses members of the object of the rope (rope_parameters or rope_scaling) that would be
// ignored, also those that the table does not have. object: the object's name, for messages.
enum status config_rope_check(const json_t *rope, const char *object,
                              const struct config_facts *facts, struct error *err) MUST_USE;

// Returns the row of a key of GGUF files, named without the family, or NULL.
const struct config_key *config_key_of_gguf(const char *rest, uint32_t family);

// Returns true if the value changes what the model computes and the architecture does not read it.
bool config_key_ignored(const struct config_key *key, const json_t *value,
                        const struct config_facts *facts);

// Returns row i of the table, or NULL after the last one.
const struct config_key *config_key_at(uint32_t i);
