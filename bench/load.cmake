pkg_check_modules(CURL IMPORTED_TARGET libcurl)
if(CURL_FOUND)
  set(load ${CMAKE_CURRENT_LIST_DIR})
  add_executable(bench_load ${load}/bench_load.c ${load}/load_options.c ${load}/load_trace.c
    ${load}/load_request.c ${load}/load_reply.c ${load}/load_stats.c ${load}/load_run.c
    ${load}/load_poll.c)
  target_link_libraries(bench_load PRIVATE weft_flags weft_base PkgConfig::CURL)
endif()
