# The CUDA sources through model.h, under the emulator; skipped where its library was not built.
foreach(name simt_exact simt_ahead)
  weft_test(NAME test_${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
    ${CMAKE_CURRENT_LIST_DIR}/simt_device.c LIBS weft_model_rig ${CMAKE_DL_LIBS} LABELS simt)
endforeach()

# Masks, packed texts and dummy weights on the same device.
add_test(NAME test_model_simt COMMAND test_model)
set_tests_properties(test_model_simt PROPERTIES LABELS "simt" SKIP_RETURN_CODE 77
  ENVIRONMENT WEFT_TEST_DEVICE=simt)
