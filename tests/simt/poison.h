// SPDX-License-Identifier: Apache-2.0
// Marks bytes as inaccessible and accessible for AddressSanitizer; nothing in other builds.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#define UNPOISON(at, bytes) ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#else
#define POISON(at, bytes) ((void)(at), (void)(bytes))
#define UNPOISON(at, bytes) ((void)(at), (void)(bytes))
#endif
