# Faults of http/: one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("a key after the first is given another number", "http/auth.c", "key_find", "at |= i & (0u - first);", "at |= 0u;", "test_auth"),
    ("blanks after a key belong to it", "http/auth.c", "bearer_key", "while (end > at && value.at[end - 1] == ' ') end--;", "", "test_auth"),
    ("of two stop strings the shorter one is taken", "http/api/stop.c", "stop_scan_at", "string.bytes > longest", "here != HERE_MATCH", "test_api_stop"),
]
