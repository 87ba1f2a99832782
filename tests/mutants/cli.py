# Faults of cli/: one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("the names of tensors reach the terminal as they are", "cli/inspect.c", "tensors_print", "safe_of(t->name).at", "t->name.at", "test_commands"),
    ("a server on every address makes its own key", "cli/keys.c", "is_loopback", "== 127", "<= 127", "test_keys"),
    ("an error keeps what a file put into it", "cli/session.c", "command_failed", "safe_line(stderr, \"weft: %s\", err->text)", "fprintf(stderr, \"weft: %s\\n\", err->text)", "test_commands"),
    ("a second SIGTERM is taken as the first", "cli/signals.c", "stop_take", "s->phase = PHASE_DRAINING;", "", "e2e:test_stop_twice"),
    ("SIGTERM while loading is a failure", "cli/signals.c", "stop_take", "process_end(EXIT_CODE_OK);", "process_end(EXIT_CODE_FAILURE);", "e2e:test_stop_while_loading"),
]
