# The fake model takes the place of weft_model.
add_executable(bench_engine bench_engine.c ${CMAKE_SOURCE_DIR}/tests/sim/fake.c
  ${CMAKE_SOURCE_DIR}/runtime/model/batch.c)
target_link_libraries(bench_engine PRIVATE weft_scheduler weft_base weft_kernels)
