# The chat template engine.
list(APPEND WEFT_TEXT_SOURCES
  chat.c
  jinja_access.c
  jinja_call.c
  jinja_char.c
  jinja_dict.c
  jinja_eval.c
  jinja_exec.c
  jinja_filters_map.c
  jinja_filters_sequence.c
  jinja_filters_text.c
  jinja_format.c
  jinja_globals.c
  jinja_json.c
  jinja_lexer.c
  jinja_methods.c
  jinja_operators.c
  jinja_parse_expr.c
  jinja_parser.c
  jinja_print.c
  jinja_string.c
  jinja_tests.c
  jinja_text.c
  jinja_time.c
  jinja_value.c)
