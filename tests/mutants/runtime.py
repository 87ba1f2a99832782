# Faults of runtime/: one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("the log is written by whoever logs", "runtime/base/log.c", "put", "bool direct = !ring.started;", "bool direct = true;", "test_log"),
    ("dropped lines are never said", "runtime/base/log.c", "unsaid_put", "ring.unsaid == 0 ||", "ring.unsaid >= 0 ||", "test_log"),
    ("a flush does not wait for the piece in the writer's hands", "runtime/base/log.c", "all_is_written", "&& !ring.writing", "", "test_log"),
    ("BERT's accents go only where all marks go", "runtime/text/normalizer.c", "map_accents", "!char_is_mark_nonspacing(c)", "1", "test_tokenizer"),
]
