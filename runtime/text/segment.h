// A piece of a prompt on its way from the chat template to the tokenizer.
//
// A prompt is a list of segments which together are the prompt's text, in order. Where text came
// out of a request (plain), special tokens are not looked for: an end-of-turn marker that a user
// types stays text. Pieces of the template itself and the model's own token texts are not plain.
// Neighbours of one kind are always merged; the text belongs to whoever made the list.
#pragma once

#include "base/text.h"

#include <stdbool.h>

struct text_segment {
    struct text text;
    bool plain;
};
