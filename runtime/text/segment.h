// SPDX-License-Identifier: Apache-2.0
// A piece of a prompt, passed from the chat template to the tokenizer.
//
// A prompt is a list of segments that together are its text, in order. Text from a request is
// plain: special tokens and markers are not recognized in it, so an end-of-turn marker that a user
// types stays text; other added tokens are words. Text of the template and the model's own token
// texts are not plain. Adjacent segments always differ in `plain`. The creator of the list owns the
// text.
#pragma once

#include "base/text.h"

#include <stdbool.h>

struct text_segment {
    struct text text;
    bool plain;
};
