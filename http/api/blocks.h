// State of the writer of Messages (messages_write.c): content blocks follow one another, and each
// is closed before the next opens. Part of struct generation; all zero: no block has begun.
#pragma once

#include "http/api/signature.h"
#include "runtime/text/dialect/scan.h"

struct block_writer {
    bool thinking;         // true if the client requested thinking: usage reports its tokens
    bool thinking_omitted; // true if only the signature of the thinking text is sent
    uint32_t count;        // number of blocks begun
    enum { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_TOOL } open;
    struct signature signature; // of the text of the open thinking block
    uint32_t call;              // number of the newest call, from 1
    struct json_scan scan;      // JSON scanner over the newest call's arguments
    bool broken; // true if those arguments are not a JSON object: the rest of them is sent as text
    uint32_t broken_call; // number of the malformed call shown as the open text block, or 0
};
