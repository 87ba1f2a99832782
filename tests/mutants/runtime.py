# Faults of runtime/: one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("a folder of models is only told what it lacks", "runtime/base/folder.c", "folder_lacks", "found[0] != '\\0' && !is_there(path, \"config.json\")", "false", "test_commands"),
    ("a NUL in a key stays what stood for it", "runtime/base/json_keys.c", "key_mend", "found ? '\\0' : key[i]", "key[i]", "test_json"),
    ("the log is written by whoever logs", "runtime/base/log.c", "put", "bool direct = !ring.started;", "bool direct = true;", "test_log"),
    ("dropped lines are never said", "runtime/base/log.c", "unsaid_put", "ring.unsaid == 0 ||", "ring.unsaid >= 0 ||", "test_log"),
    ("a flush does not wait for the piece in the writer's hands", "runtime/base/log.c", "all_is_written", "&& !ring.writing", "", "test_log"),
    ("a log line keeps what its arguments hold", "runtime/base/log.c", "log_line", "safe_format(", "(size_t)vsnprintf(", "test_log"),
    ("marks that turn text around reach the terminal", "runtime/base/safe.c", "", "{0x2028, 0x202E}", "{0x2028, 0x2029}", "test_safe"),
    ("bytes that are no UTF-8 reach the terminal", "runtime/base/safe.c", "safe_put", "(unsigned char)in.at[0]", "0", "test_safe"),
    ("a shape that overflows is refused for its bytes", "runtime/model/safetensors.c", "", "__builtin_mul_overflow(total, size, &total) || total > INT64_MAX", "__builtin_mul_overflow(total, size, &total) && total > INT64_MAX", "test_hostile"),
    ("a head that lies beyond the file is read for its shape", "runtime/model/safetensors.c", "", "if (first > end || end > data_bytes)", "if (first > end)", "test_hostile"),
    ("a header of any number of values is read", "runtime/model/safetensors.c", "safetensors_parse", "keys > TENSORS_MAX + 1 || values > TENSOR_VALUES_MAX", "keys > TENSORS_MAX + 1", "test_hostile"),
    ("a classifier of several labels is a wrong shape", "runtime/model/weights.c", "labels_check", "tensor->shape[0] > 1", "false", "test_commands"),
    ("BERT's accents go only where all marks go", "runtime/text/normalizer.c", "map_accents", "!char_is_mark_nonspacing(c)", "1", "test_tokenizer"),
    ("a normalizer may make any text of one byte", "runtime/text/tokenizer_open.c", "parts_open", "t->tokens_per_byte > TEXT_GROWTH_MAX", "false", "test_commands"),
]
