# The CUDA sources through model.h, under the emulator; skipped where its library was not built.
weft_test(NAME test_simt_exact SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_simt_exact.c
  ${CMAKE_CURRENT_LIST_DIR}/simt_device.c LIBS weft_model_rig ${CMAKE_DL_LIBS} LABELS simt)
