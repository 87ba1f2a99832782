if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_executable(bench_ops bench_ops.c peaks.c)
  set_source_files_properties(peaks.c PROPERTIES COMPILE_OPTIONS
    "-O3;-mavx512f;-mavx512vnni;-mavx512bf16;-mamx-tile;-mamx-bf16;-mamx-int8")
  target_link_libraries(bench_ops PRIVATE weft_kernels)
endif()
