// SPDX-License-Identifier: Apache-2.0
// The hub of a weft that was built without libcurl: models can be found in the cache, but none is
// downloaded. See client.h and transfer.h.
#include "cli/hub/transfer.h"

static const char missing[] =
    "this weft was built without libcurl, which downloads models: install the Debian package "
    "libcurl4-openssl-dev and build again, or give the path of a folder";

enum status hub_client_open(struct hub_client *client, struct arena *arena, struct error *err)
{
    *client = (struct hub_client){.arena = arena};
    return error_set(err, STATUS_IO, "%s", missing);
}

void hub_client_close(struct hub_client *client)
{
    (void)client;
}

enum status hub_json(const struct hub_client *client, json_t **out, const char *url,
                     const struct hub_name *name, const char **next, struct error *err)
{
    (void)client, (void)url, (void)name, (void)next;
    *out = NULL;
    return error_set(err, STATUS_IO, "%s", missing);
}

const char *hub_url_escape(const char *path, struct arena *arena)
{
    (void)arena;
    return path;
}

enum status hub_transfer(const struct hub_client *client, const struct hub_name *name,
                         const char *folder, const char *commit, const struct hub_listing *files,
                         struct hub_progress *progress, struct error *err)
{
    (void)client, (void)name, (void)folder, (void)commit, (void)files, (void)progress;
    return error_set(err, STATUS_IO, "%s", missing);
}
