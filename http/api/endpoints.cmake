# Sources of the endpoints, for http/CMakeLists.txt.
set(WEFT_HTTP_API_DIR ${CMAKE_CURRENT_LIST_DIR})
set(WEFT_HTTP_API_SOURCES "")
foreach(file fields ids stop call conversation chat_turns messages_turns prompt generation chat
    messages pooled vectors embeddings rerank)
  list(APPEND WEFT_HTTP_API_SOURCES ${WEFT_HTTP_API_DIR}/${file}.c)
endforeach()
