weft_test(NAME test_chat_assets SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_chat_assets.c
  LIBS weft_text LABELS cpu)
