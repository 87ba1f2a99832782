# Faults of cli/: one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("the paste lines name a variable that nobody set", "cli/curl.c", "key_put", "settings->api_keys.count > 0", "false", "test_commands"),
    ("a quote in a model's name ends the paste line's text", "cli/curl.c", "quoted_put", "json_put_literal(out, \"'\\\\''\");", "json_put_literal(out, \"'\");", "test_commands"),
    ("a line of embed may be anything", "cli/embed.c", "embed", "text_check(\"the text\", line, err)", "STATUS_OK", "test_commands"),
    ("the names of tensors reach the terminal as they are", "cli/inspect.c", "tensors_print", "safe_of(t->name).at", "t->name.at", "test_commands"),
    ("a server on every address makes its own key", "cli/keys.c", "is_loopback", "== 127", "<= 127", "test_keys"),
    ("a key file that others can read is not warned of", "cli/keys.c", "readers_warn", "S_IRGRP | S_IROTH", "S_IWGRP", "e2e:test_secrets"),
    ("the plain keys of a file stay in memory", "cli/keys.c", "keys_wipe", "if (keys->file.at != NULL)", "if (false)", "test_keys"),
    ("help of no command is the general help", "cli/main.c", "main", "(help && argc == 2)", "help", "test_commands"),
    ("a printed key stays in the buffer of the output", "cli/serve.c", "keys_end", "explicit_bzero(printed, sizeof printed);", "", "e2e:test_secrets"),
    ("an error keeps what a file put into it", "cli/session.c", "command_failed", "safe_line(stderr, \"weft: %s\", err->text)", "fprintf(stderr, \"weft: %s\\n\", err->text)", "test_commands"),
    ("an empty query is taken", "cli/session.c", "required_check", "(*given != '\\0' || !c->required_filled)", "true", "test_commands"),
    ("the end waits for an engine's thread as long as it takes", "cli/serve.c", "engines_end", "&& clock_ns() < deadline", "", "e2e:test_stop_with_an_engine_that_stands"),
    ("a second SIGTERM is taken as the first", "cli/signals.c", "stop_take", "s->phase = PHASE_DRAINING;", "", "e2e:test_stop_twice"),
    ("SIGTERM while loading is a failure", "cli/signals.c", "stop_take", "process_end(EXIT_CODE_OK);", "process_end(EXIT_CODE_FAILURE);", "e2e:test_stop_while_loading"),
    ("detokenize passes over ids that are none", "cli/tokenize.c", "ids_check", ".at == NULL", ".at == (void *)1", "test_commands"),
]
