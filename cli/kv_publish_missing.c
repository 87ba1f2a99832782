// SPDX-License-Identifier: Apache-2.0
// Takes the place of kv_publish.c in a build without libzmq: the publisher cannot be opened.
#include "cli/kv_publish.h"

enum status kv_publisher_open(struct kv_publisher **out, const struct kv_publish_options *options,
                              struct error *err)
{
    (void)options;
    *out = NULL;
    return error_set(err, STATUS_UNSUPPORTED,
                     "this weft was built without libzmq, which --kv-events needs: install the "
                     "Debian package libzmq3-dev and build again");
}

struct kv_event_log *kv_publisher_log(struct kv_publisher *publisher)
{
    (void)publisher;
    return NULL;
}

void kv_publisher_close(struct kv_publisher *publisher)
{
    (void)publisher;
}
