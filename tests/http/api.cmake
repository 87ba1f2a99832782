# Tests of the endpoints, with doubles for the server, the scheduler and runtime/text.
include(${CMAKE_SOURCE_DIR}/http/api/endpoints.cmake)
add_library(weft_api_fake STATIC ${WEFT_HTTP_API_SOURCES} ${CMAKE_SOURCE_DIR}/http/errors.c
  ${CMAKE_SOURCE_DIR}/http/ids.c
  ${CMAKE_SOURCE_DIR}/runtime/text/prompt.c ${CMAKE_SOURCE_DIR}/runtime/text/rerank.c
  ${CMAKE_CURRENT_LIST_DIR}/api_fake.c)
target_link_libraries(weft_api_fake PUBLIC weft_base PkgConfig::JANSSON)
foreach(test test_api_stop.c test_api_fields.c test_api_chat.c test_api_messages.c
    test_api_embeddings.c test_api_rerank.c test_api_slices.c)
  string(REGEX REPLACE "\\.c$" "" name ${test})
  weft_test(NAME ${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/${test} LIBS weft_api_fake LABELS cpu)
endforeach()
