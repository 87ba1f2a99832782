// Generated tables (tools/unicode_tables.py): Unicode 16.0 where the libraries of the system know
// an older one, and what the reference library has frozen. Ranges are sorted and do not overlap.
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
    const char *name, *code; // small letters only
    bool old;                // PCRE2 knows it
};

extern const struct unicode_script unicode_scripts[];
extern const uint32_t unicode_scripts_count;
extern const char *const unicode_binaries[];
extern const struct unicode_table unicode_added_binaries[]; // as unicode_binaries
extern const uint32_t unicode_binaries_count;

extern const struct unicode_table unicode_added;         // values: categories of utf8proc
extern const struct unicode_table unicode_added_scripts; // values: positions in unicode_scripts
extern const struct unicode_table unicode_added_lower;   // values: what is added, modulo 65536
extern const struct unicode_table unicode_inert;
extern const struct unicode_table unicode_marks_otherwise, unicode_nonspacing_otherwise;
extern const struct unicode_table unicode_control_otherwise, unicode_punctuation_otherwise;
extern const struct unicode_table unicode_script_runs; // values: numbers of scripts

// The range that holds c, NULL: none.
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
