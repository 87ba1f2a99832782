# Tests of the endpoints, with doubles for the server, the scheduler and runtime/text.
set(WEFT_API_FAKE_SOURCES ${WEFT_HTTP_API_SOURCES} ${CMAKE_SOURCE_DIR}/http/errors.c
  ${CMAKE_SOURCE_DIR}/runtime/text/prompt.c ${CMAKE_SOURCE_DIR}/runtime/text/rerank.c
  ${CMAKE_CURRENT_LIST_DIR}/api_fake.c)
if(NOT WEFT_HTTP_API_SOURCES)
  include(${CMAKE_SOURCE_DIR}/http/api/endpoints.cmake)
  list(PREPEND WEFT_API_FAKE_SOURCES ${WEFT_HTTP_API_SOURCES})
endif()
add_library(weft_api_fake STATIC ${WEFT_API_FAKE_SOURCES})
target_link_libraries(weft_api_fake PUBLIC weft_base PkgConfig::JANSSON)
foreach(name stop fields chat messages embeddings rerank)
  weft_test(NAME test_api_${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_api_${name}.c
    LIBS weft_api_fake LABELS cpu)
endforeach()
