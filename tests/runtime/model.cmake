# Tests of runtime/model.
add_library(weft_model_rig STATIC ${CMAKE_CURRENT_LIST_DIR}/model_rig.c
  ${CMAKE_CURRENT_LIST_DIR}/device_wrap.c ${CMAKE_CURRENT_LIST_DIR}/golden.c)
target_link_libraries(weft_model_rig PUBLIC weft_flags weft_model)
foreach(name safetensors config rope tinystories golden model hostile minilm)
  weft_test(NAME test_${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
    LIBS weft_model_rig LABELS cpu)
endforeach()

# The same models through the CUDA sources, where the emulator's library lies beside the tests.
add_test(NAME test_golden_simt COMMAND test_golden)
set_tests_properties(test_golden_simt PROPERTIES LABELS "simt" SKIP_RETURN_CODE 77
  ENVIRONMENT WEFT_TEST_DEVICE=simt)
