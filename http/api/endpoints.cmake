# Sources of the endpoints, for http/CMakeLists.txt and the tests with doubles.
set(WEFT_HTTP_API_SOURCES "")
foreach(file fields.c not_served.c stop.c call.c conversation.c chat_turns.c messages_turns.c
    prompt.c generation.c chat.c messages.c pooled.c vectors.c embeddings.c rerank.c)
  list(APPEND WEFT_HTTP_API_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${file})
endforeach()
