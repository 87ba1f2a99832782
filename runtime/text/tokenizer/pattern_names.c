// SPDX-License-Identifier: Apache-2.0
// The meaning of \p{name}, [:name:], \d, \s, \w and \h in Oniguruma, with Unicode 16.0.
#include "runtime/text/tokenizer/pattern.h"

#include "runtime/text/tokenizer/unicode_tables.h"

#include <stdio.h>

// Bits of general categories, numbered as in utf8proc.
enum {
    LETTERS = 0x3E,         // Lu Ll Lt Lm Lo
    MARKS = 0x1C0,          // Mn Mc Me
    DECIMALS = 1 << 9,      // Nd
    NUMBERS = 0xE00,        // Nd Nl No
    PUNCTUATION = 0x7F000,  // Pc Pd Ps Pe Pi Pf Po
    SYMBOLS = 0x780000,     // Sm Sc Sk So
    SPACES_ONLY = 1 << 23,  // Zs
    SEPARATORS = 0x3800000, // Zs Zl Zp
    CONTROLS = 1 << 26,     // Cc
    FORMATS = 1 << 27,      // Cf
    SURROGATES = 1 << 28,   // Cs
    PRIVATE = 1 << 29,      // Co
    UNASSIGNED = 1,         // Cn
    OTHERS = CONTROLS | FORMATS | SURROGATES | PRIVATE | UNASSIGNED,
    WORDS = LETTERS | MARKS | DECIMALS | 1 << 10 | 1 << 12, // also Nl, Pc
    GRAPHS = LETTERS | MARKS | NUMBERS | PUNCTUATION | SYMBOLS | FORMATS | PRIVATE,
    CASELESS = NUMBERS | PUNCTUATION | SEPARATORS | CONTROLS, // no effect of ignoring case
};

static const struct {
    const char *name;
    uint32_t categories;
} groups[] = {
    {"l", LETTERS},
    {"letter", LETTERS},
    {"lu", 1 << 1},
    {"uppercaseletter", 1 << 1},
    {"ll", 1 << 2},
    {"lowercaseletter", 1 << 2},
    {"lt", 1 << 3},
    {"titlecaseletter", 1 << 3},
    {"lc", 0xE},
    {"casedletter", 0xE},
    {"lm", 1 << 4},
    {"modifierletter", 1 << 4},
    {"lo", 1 << 5},
    {"otherletter", 1 << 5},
    {"m", MARKS},
    {"mark", MARKS},
    {"combiningmark", MARKS},
    {"mn", 1 << 6},
    {"nonspacingmark", 1 << 6},
    {"mc", 1 << 7},
    {"spacingmark", 1 << 7},
    {"me", 1 << 8},
    {"enclosingmark", 1 << 8},
    {"n", NUMBERS},
    {"number", NUMBERS},
    {"nd", DECIMALS},
    {"decimalnumber", DECIMALS},
    {"digit", DECIMALS},
    {"nl", 1 << 10},
    {"letternumber", 1 << 10},
    {"no", 1 << 11},
    {"othernumber", 1 << 11},
    {"p", PUNCTUATION},
    {"punct", PUNCTUATION},
    {"punctuation", PUNCTUATION},
    {"pc", 1 << 12},
    {"connectorpunctuation", 1 << 12},
    {"pd", 1 << 13},
    {"dashpunctuation", 1 << 13},
    {"ps", 1 << 14},
    {"openpunctuation", 1 << 14},
    {"pe", 1 << 15},
    {"closepunctuation", 1 << 15},
    {"pi", 1 << 16},
    {"initialpunctuation", 1 << 16},
    {"pf", 1 << 17},
    {"finalpunctuation", 1 << 17},
    {"po", 1 << 18},
    {"otherpunctuation", 1 << 18},
    {"s", SYMBOLS},
    {"symbol", SYMBOLS},
    {"sm", 1 << 19},
    {"mathsymbol", 1 << 19},
    {"sc", 1 << 20},
    {"currencysymbol", 1 << 20},
    {"sk", 1 << 21},
    {"modifiersymbol", 1 << 21},
    {"so", 1 << 22},
    {"othersymbol", 1 << 22},
    {"z", SEPARATORS},
    {"separator", SEPARATORS},
    {"zs", SPACES_ONLY},
    {"spaceseparator", SPACES_ONLY},
    {"zl", 1 << 24},
    {"lineseparator", 1 << 24},
    {"zp", 1 << 25},
    {"paragraphseparator", 1 << 25},
    {"c", OTHERS},
    {"other", OTHERS},
    {"cc", CONTROLS},
    {"control", CONTROLS},
    {"cntrl", CONTROLS},
    {"cf", FORMATS},
    {"format", FORMATS},
    {"cn", UNASSIGNED},
    {"unassigned", UNASSIGNED},
    {"co", PRIVATE},
    {"privateuse", PRIVATE},
    {"graph", GRAPHS},
    {"print", GRAPHS | SPACES_ONLY},
};

static void add_categories(struct set *set, uint32_t categories)
{
    set->categories |= categories;
    set->folds |= (categories & ~(uint32_t)CASELESS) != 0;
}

static void add_property(struct set *set, const char *kind, const char *name,
                         const struct unicode_table *added, int value)
{
    char text[80];
    if (kind)
        pattern_put(&set->body, text, (size_t)snprintf(text, sizeof text, "\\p{%s%s}", kind, name));
    for (uint32_t i = 0; i < added->count; i++)
        if (value < 0 || added->ranges[i].value == (uint32_t)value)
            set_add_table_range(set, added->ranges[i].first, added->ranges[i].last);
    set->folds = true;
}

static bool add_binary(struct set *set, const char *name)
{
    for (uint32_t i = 0; i < unicode_binaries_count; i++)
        if (strcmp(name, unicode_binaries[i]) == 0) {
            add_property(set, "", name, &unicode_added_binaries[i], -1);
            return true;
        }
    return false;
}

static bool add_script(struct set *set, const char *name)
{
    for (uint32_t i = 0; i < unicode_scripts_count; i++) {
        const struct unicode_script *s = &unicode_scripts[i];
        if (strcmp(name, s->name) != 0 && strcmp(name, s->code) != 0)
            continue;
        add_property(set, s->old ? "sc:" : NULL, s->name, &unicode_added_scripts, (int)i);
        return true;
    }
    return false;
}

static bool add_group(struct set *set, const char *name)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(name, groups[i].name) == 0) {
            add_categories(set, groups[i].categories);
            return true;
        }
    return false;
}

static void add_spaces(struct set *set)
{
    set_add_table_range(set, '\t', '\r');
    set_add_table_range(set, 0x85, 0x85);
    set->categories |= SEPARATORS;
}

// Adds word characters. Outside of brackets Oniguruma includes five more Latin-1 characters.
static void add_word(struct set *set, bool bracket)
{
    static const uint32_t circled[][2] = {
        {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    add_categories(set, WORDS);
    for (size_t i = 0; i < sizeof circled / sizeof *circled; i++)
        set_add_table_range(set, circled[i][0], circled[i][1]);
    if (bracket)
        return;
    set_add_table_range(set, 0xB2, 0xB3);
    set_add_table_range(set, 0xB9, 0xB9);
    set_add_table_range(set, 0xBC, 0xBE);
}

static void add_hexadecimal(struct set *set)
{
    set_add_range(set, '0', '9');
    set_add_range(set, 'A', 'F');
    set_add_range(set, 'a', 'f');
}

bool set_add_letter(struct set *set, char letter, bool bracket)
{
    switch (letter) {
    case 'd':
        add_categories(set, DECIMALS);
        return true;
    case 's':
        add_spaces(set);
        return true;
    case 'w':
        add_word(set, bracket);
        return true;
    case 'h':
        add_hexadecimal(set);
        return true;
    default:
        return false;
    }
}

// Adds a class whose name is valid in both \p{...} and [:...:].
static bool add_posix_name(struct set *set, const char *name)
{
    if (strcmp(name, "alpha") == 0)
        return add_binary(set, "alphabetic");
    if (strcmp(name, "alnum") == 0) {
        add_categories(set, DECIMALS);
        return add_binary(set, "alphabetic");
    }
    if (strcmp(name, "lower") == 0 || strcmp(name, "upper") == 0)
        return add_binary(set, *name == 'l' ? "lowercase" : "uppercase");
    if (strcmp(name, "space") == 0) {
        add_spaces(set);
    } else if (strcmp(name, "blank") == 0) {
        set_add_table_range(set, '\t', '\t');
        add_categories(set, SPACES_ONLY);
    } else if (strcmp(name, "xdigit") == 0) {
        add_hexadecimal(set);
    } else if (strcmp(name, "ascii") == 0) {
        set_add_range(set, 0, 0x7F);
    } else {
        return false;
    }
    return true;
}

bool set_add_posix(struct set *set, struct text name)
{
    static const char *const same[] = {"digit", "cntrl", "graph", "print"};
    char copy[12];
    if (name.bytes >= sizeof copy)
        return false;
    memcpy(copy, name.at, name.bytes);
    copy[name.bytes] = '\0';
    if (strcmp(copy, "word") == 0) {
        add_word(set, true);
        return true;
    }
    if (strcmp(copy, "punct") == 0) {
        add_categories(set, PUNCTUATION | SYMBOLS);
        return true;
    }
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(copy, same[i]) == 0)
            return add_group(set, copy);
    return add_posix_name(set, copy);
}

bool set_add_property(struct set *set, struct text name, bool bracket)
{
    char loose[64];
    size_t n = 0;
    for (size_t i = 0; i < name.bytes; i++) {
        char c = name.at[i];
        if (c == ' ' || c == '-' || c == '_')
            continue;
        if (n + 1 == sizeof loose)
            return false;
        loose[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    loose[n] = '\0';
    if (strcmp(loose, "word") == 0) {
        add_word(set, bracket);
        return true;
    }
    if (strcmp(loose, "any") == 0) {
        set_add_range(set, 0, 0x10FFFF);
        return true;
    }
    if (strcmp(loose, "assigned") == 0) {
        struct set *unassigned = set_create(set->arena);
        add_categories(unassigned, UNASSIGNED);
        unassigned->negated = true;
        set_add(set, unassigned);
        return true;
    }
    if (strcmp(loose, "whitespace") == 0) {
        add_spaces(set);
        return true;
    }
    return add_group(set, loose) || add_posix_name(set, loose) || add_binary(set, loose) ||
           add_script(set, loose);
}
