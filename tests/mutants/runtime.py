# Faults of runtime/: one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("BERT's accents go only where all marks go", "runtime/text/normalizer.c", "map_accents", "!char_is_mark_nonspacing(c)", "1", "test_tokenizer"),
]
