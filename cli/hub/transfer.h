// SPDX-License-Identifier: Apache-2.0
// Downloads contents into the cache: several connections, in segments, resumed after an
// interruption, checked by their digests. A blob gets its name only when it is complete and its
// digest is right. The calling thread runs all connections.
#pragma once

#include "cli/hub/client.h"
#include "cli/hub/progress.h"
#include "cli/hub/select.h"

// Downloads the files whose blobs are missing. folder: that of the repository in the cache; commit:
// the revision to read. The caller holds the locks of the blobs. NO_SPACE if the disk has too
// little space, which is checked first; errors of hub_failed.
enum status hub_transfer(const struct hub_client *client, const struct hub_name *name,
                         const char *folder, const char *commit, const struct hub_listing *files,
                         struct hub_progress *progress, struct error *err) MUST_USE;
