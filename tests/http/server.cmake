# Tests of the server core: a real server on loopback in the test process, with routes and ports of
# the tests. Sanitizers over libh2o: tests/http/suppressions.md.
if(TARGET weft_http)
  set(HTTP_DOUBLES ${CMAKE_CURRENT_LIST_DIR}/fixture.c ${CMAKE_CURRENT_LIST_DIR}/routes_double.c
    ${CMAKE_CURRENT_LIST_DIR}/port_double.c ${CMAKE_CURRENT_LIST_DIR}/http_client.c)
  foreach(name server exchange drain http2 tls)
    weft_test(NAME test_${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c ${HTTP_DOUBLES}
      LIBS weft_http PkgConfig::OPENSSL LABELS cpu)
  endforeach()
  foreach(name errors auth route)
    weft_test(NAME test_${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
      LIBS weft_http PkgConfig::OPENSSL LABELS cpu)
  endforeach()
endif()
