// SPDX-License-Identifier: Apache-2.0
// `weft chat --url` of a weft without libcurl: an error that explains it; see chat.h. Main thread.
#include "cli/chat.h"

enum status chat_remote_open(struct chat_remote **out, const struct chat_remote_args *args,
                             struct error *err)
{
    (void)args;
    *out = NULL;
    return error_set(err, STATUS_UNSUPPORTED,
                     "this weft was built without libcurl, which connects to servers: install the "
                     "Debian package libcurl4-openssl-dev and build again, or chat with a model "
                     "folder");
}

const char *chat_remote_model(const struct chat_remote *remote)
{
    (void)remote;
    return "";
}

enum status chat_remote_answer(void *remote, json_t *messages, const struct chat_params *params,
                               struct chat_answer *out, struct error *err)
{
    (void)remote, (void)messages, (void)params, (void)out;
    return error_set(err, STATUS_UNSUPPORTED, "this weft was built without libcurl");
}

void chat_remote_close(struct chat_remote *remote)
{
    (void)remote;
}
