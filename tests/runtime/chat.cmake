weft_test(NAME test_chat SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_chat.c LIBS weft_text LABELS cpu)
weft_test(NAME test_template_vectors SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_template_vectors.c
  LIBS weft_text LABELS cpu)
weft_test(NAME test_chat_assets SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_chat_assets.c
  LIBS weft_text LABELS cpu)

# Renders templates from stdin; tools/template_diff.py compares it with jinja2.
add_executable(chat_batch ${CMAKE_CURRENT_LIST_DIR}/chat_batch.c)
target_link_libraries(chat_batch PRIVATE weft_flags weft_text)
