// SPDX-License-Identifier: Apache-2.0
// Generated tables (tools/unicode_tables.py): Unicode 16.0 data that older system libraries lack,
// and frozen tables of the reference library. Ranges are sorted and do not overlap.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct unicode_range {
    uint32_t first, last, value;
};

struct unicode_table {
    const struct unicode_range *ranges;
    uint32_t count;
};

struct unicode_script {
    const char *name, *code; // lower case, without separators
    bool old;                // true if PCRE2 knows the script
};

extern const struct unicode_script unicode_scripts[];
extern const uint32_t unicode_scripts_count;
extern const char *const unicode_binaries[];
extern const struct unicode_table unicode_added_binaries[]; // members that PCRE2 may lack
extern const uint32_t unicode_binaries_count;

// Tables whose name ends in _otherwise list the characters on which the reference library decides
// contrary to Unicode 16.0.
extern const struct unicode_table unicode_added;         // values: categories, as in utf8proc
extern const struct unicode_table unicode_added_scripts; // values: indices into unicode_scripts
extern const struct unicode_table unicode_added_lower; // values: lower case - character, mod 65536
extern const struct unicode_table unicode_inert;
extern const struct unicode_table unicode_marks_otherwise, unicode_nonspacing_otherwise;
extern const struct unicode_table unicode_control_otherwise, unicode_punctuation_otherwise;
extern const struct unicode_table unicode_script_runs; // values: script numbers

// Returns the range that contains c, or NULL.
static inline const struct unicode_range *unicode_find(const struct unicode_table *table,
                                                       uint32_t c)
{
    uint32_t low = 0, high = table->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (c > table->ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->count && c >= table->ranges[low].first ? &table->ranges[low] : (void *)0;
}
