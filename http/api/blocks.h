// Where the writer of Messages (messages_write.c) is: content blocks come one after the other, each
// is closed before the next. A part of the generation; zero: none has begun.
#pragma once

#include "http/api/signature.h"
#include "runtime/text/dialect/scan.h"

struct block_writer {
    bool thinking;         // was asked for: its tokens are told
    bool thinking_omitted; // but only the signature of its text is sent
    uint32_t count;        // blocks begun
    enum { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_TOOL } open;
    struct signature signature; // of the thinking block that is open
    uint32_t call;              // the newest one, from 1
    struct json_scan scan;      // of its arguments
    bool broken;                // they are no JSON object: their rest is text
    uint32_t broken_call;       // the one that the open text block stands for, or 0
};
