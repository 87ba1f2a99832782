// Threads whose work may take long while others serve tokens: they take a processor where no other
// thread of the program wants it, and about a tenth of its share where one does (decision 0050).
#pragma once

#include <sys/resource.h>

enum { PRIORITY_STEPS = 10 }; // of nice, at most down to 19

// Of the calling thread alone, as Linux has it, for good. It is never refused.
static inline void priority_lower(void)
{
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + PRIORITY_STEPS);
}
