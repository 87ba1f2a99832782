# Faults of http/: one a line, sorted by file; the form stands in tests/mutants.py.
FAULTS = [
    ("a quote behind a backslash ends a string of the body", "http/api/call.c", "values_are_too_many", "at += *at == '\\\\' ? 2 : 1;", "at += 1;", "test_api_fields"),
    ("a message's own fields are not judged", "http/api/chat_turns.c", "turn_read", "fields_check_object(f, &message_rules, in, fields_path(f, \"messages[%zu]\", i));", "", "test_api_fields"),
    ("fields inside of a field are not judged", "http/api/fields.c", "rule_apply", "else if (rule->members)", "else if (false)", "test_api_fields"),
    ("the type of a known field is not judged", "http/api/fields.c", "rule_apply", "rule->types && ", "false && rule->types && ", "test_api_fields"),
    ("a stream that is cut ends without its error event", "http/api/generation.c", "generation_cut", "generation_send(g, &out);", "", "e2e:test_stop_cuts_streams"),
    ("n_predict is ignored", "http/api/not_served.c", "rows", "\"n_predict\"", "\"n_prediction\"", "test_api_fields"),
    ("of two stop strings the shorter one is taken", "http/api/stop.c", "stop_scan_at", "string.bytes > longest", "here != HERE_MATCH", "test_api_stop"),
    ("a key after the first is given another number", "http/auth.c", "key_find", "at |= i & (0u - first);", "at |= 0u;", "test_auth"),
    ("blanks after a key belong to it", "http/auth.c", "bearer_key", "while (end > at && value.at[end - 1] == ' ') end--;", "", "test_auth"),
    ("a renewed list of keys forgets the fixed ones", "http/auth.c", "keys_make", "memcpy(keys->hashes[i], old->hashes[i], HASH_BYTES);", "", "test_auth"),
    ("the end of the time to drain breaks connections at once", "http/drain.c", "drain_cut", "exchange_cut(x, &failure);", "exchange_abort(x);", "test_drain"),
    ("a request that is cut is not taken back from its engine", "http/exchange.c", "exchange_forget", "if (x->request != NULL)", "if (x->request != NULL && x->cut_with == NULL)", "test_drain"),
    ("a connection does not hold the certificate it was accepted with", "http/loop.c", "accept_one", "SSL_CTX_up_ref(connection->ssl);", "", "e2e:test_reload_certificate"),
    ("a request that a text worker holds is not told that it was cut", "http/offload.c", "work_done", "exchange_cut_end(x);", "(void)x;", "test_drain"),
    ("a reload renews the fixed keys, too", "http/reload.c", "server_keys_renew", "server->options.api_keys_fixed", "0", "e2e:test_reload_keys"),
]
