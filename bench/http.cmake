if(TARGET weft_http AND WEFT_TESTS)
  set(http_tests ${CMAKE_SOURCE_DIR}/tests/http)
  add_executable(bench_http ${CMAKE_CURRENT_LIST_DIR}/bench_http.c ${http_tests}/fixture.c
    ${http_tests}/routes_double.c ${http_tests}/port_double.c ${http_tests}/http_client.c)
  target_link_libraries(bench_http PRIVATE weft_flags weft_http)
endif()
