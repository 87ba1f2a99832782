// Writes the answers of Messages as content blocks, as one body or as a stream of events.
#pragma once

#include "http/api/generation.h"

generation_write_fn messages_put;
