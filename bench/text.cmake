add_executable(bench_text ${CMAKE_CURRENT_LIST_DIR}/bench_text.c)
target_link_libraries(bench_text PRIVATE weft_flags weft_text)
