// The writer of Messages: an answer as content blocks, whole and as events.
#pragma once

#include "http/api/generation.h"

generation_put messages_put;
