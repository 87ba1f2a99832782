add_executable(bench_step ${CMAKE_CURRENT_LIST_DIR}/bench_step.c
  ${CMAKE_CURRENT_LIST_DIR}/step_cases.c)
target_link_libraries(bench_step PRIVATE weft_flags weft_model)
