# Tests of runtime/model.
add_library(weft_model_folders STATIC ${CMAKE_CURRENT_LIST_DIR}/golden.c)
target_link_libraries(weft_model_folders PUBLIC weft_flags weft_base)
foreach(name safetensors config rope)
  weft_test(NAME test_${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
    LIBS weft_model weft_model_folders LABELS cpu)
endforeach()
