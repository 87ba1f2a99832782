# Faults of cli/: one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("a server on every address makes its own key", "cli/keys.c", "is_loopback", "== 127", "<= 127", "test_keys"),
]
