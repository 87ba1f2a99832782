// SPDX-License-Identifier: Apache-2.0
// Lists of origins and values that browsers send: a list is accepted or refused with a sentence,
// each origin of an accepted list is found, and an answer is always the origin that was sent,
// unless any is allowed.
#include "http/cors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cors cors = {0};
    struct error err;
    char *list = malloc(bytes + 1); // a NUL-terminated string, as an option is
    memcpy(list, data, bytes);
    list[bytes] = '\0';
    const char *origins[] = {list, "https://a.example"};
    struct text sent = text_span((const char *)data, bytes);
    (void)cors_names_are_fine(sent);
    if (cors_open(&cors, origins, 2, &err) == STATUS_OK) {
        check(cors.count > 0, "a list without origins");
        for (uint32_t i = 0; i < cors.count; i++)
            check(cors_origin(&cors, cors.origins[i]).at, "origin %u is not found", i);
        struct text said = cors_origin(&cors, sent);
        check(!said.at || cors.any || said.bytes == bytes, "another origin than that of the page");
    } else {
        check(err.text[0] != '\0', "an error without a sentence");
    }
    cors_close(&cors);
    free(list);
    return 0;
}
