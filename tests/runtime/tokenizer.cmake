# The tokenizer's tests, and the probe that tools/tokenizer_diff.py talks to.
add_executable(tokenizer_probe ${CMAKE_CURRENT_LIST_DIR}/tokenizer_probe.c)
target_link_libraries(tokenizer_probe PRIVATE weft_flags weft_text)
foreach(name tokenizer tokenizer_rules text_vectors detok slices)
  weft_test(NAME test_${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
    LIBS weft_text LABELS cpu)
endforeach()
