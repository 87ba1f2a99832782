# Faults of runtime/text: one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("compatibility letters of Hangul compose with nothing", "runtime/text/normalizer_forms.c", "combines_back", "p->decomp_type != 0 &&", "0 &&", "test_text_vectors"),
    ("conjoining vowels begin a run", "runtime/text/normalizer_forms.c", "combines_back", "(c >= 0x1160 && c <= 0x11FF) ||", "", "test_text_vectors"),
    ("forms order marks that they do not know", "runtime/text/normalizer_forms.c", "order_of", "|| char_is_inert((uint32_t)c)", "", "test_text_vectors"),
    ("(?m) leaves the dot as it is", "runtime/text/pattern.c", "one", "p->dot_all ?", "0 ?", "test_text_vectors"),
    ("an interval is possessive", "runtime/text/pattern.c", "repeats", "&& !r.interval", "", "test_text_vectors"),
    ("(?i) goes on behind a |", "runtime/text/pattern.c", "options", "p->at += !rest;", "p->at += 1;", "test_text_vectors"),
    ("a ligature is not seen without case", "runtime/text/pattern.c", "pair_is_one", "(a == 's' && (b == 's' || b == 't'))", "0", "test_text_vectors"),
    ("an intersection is a union", "runtime/text/pattern_class.c", "pattern_class", "both->intersection = true;", "", "test_text_vectors"),
    ("a word outside of brackets is one inside", "runtime/text/pattern_names.c", "add_word", "if (bracket)", "if (1)", "test_text_vectors"),
    ("scripts match by extensions", "runtime/text/pattern_names.c", "add_script", '"sc:"', '"scx:"', "test_text_vectors"),
    ("a negated union loses its sets", "runtime/text/pattern_set.c", "put_union", 'put_look(out, "(?!", m);', ";", "test_text_vectors"),
    ("patterns know the letters of 14.0 only", "runtime/text/pattern_set.c", "put_union_body", "if (set->categories != 0)", "if (0)", "test_text_vectors"),
    ("what has no script begins a part", "runtime/text/pretokenizer.c", "cut_scripts", "script < 0 ||", "", "test_text_vectors"),
    ("a long s behind an apostrophe is a word", "runtime/text/pretokenizer_scan.c", "contraction_end", "any_case && a == 0xC5 &&", "0 &&", "test_text_vectors"),
    ("scanners know the letters of utf8proc only", "runtime/text/tokenizer_unicode.c", "category", "added != NULL ? added->value : known", "known", "test_text_vectors"),
]
