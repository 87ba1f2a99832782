# Tests of the server core: a real server on loopback in the test process, with routes and ports of
# the tests. Sanitizers over libh2o: tests/http/suppressions.md.
if(TARGET weft_http)
  set(HTTP_DOUBLES ${CMAKE_CURRENT_LIST_DIR}/fixture.c ${CMAKE_CURRENT_LIST_DIR}/routes_double.c
    ${CMAKE_CURRENT_LIST_DIR}/port_double.c ${CMAKE_CURRENT_LIST_DIR}/http_client.c)
  foreach(file test_server.c test_framing.c test_exchange.c test_drain.c test_http2.c test_tls.c
      test_pressure.c)
    get_filename_component(name ${file} NAME_WE)
    weft_test(NAME ${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/${file} ${HTTP_DOUBLES}
      LIBS weft_http PkgConfig::OPENSSL LABELS cpu)
  endforeach()
  foreach(file test_errors.c test_auth.c test_route.c test_work.c)
    get_filename_component(name ${file} NAME_WE)
    weft_test(NAME ${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/${file}
      LIBS weft_http PkgConfig::OPENSSL LABELS cpu)
  endforeach()
endif()
