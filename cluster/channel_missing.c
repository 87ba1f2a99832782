// SPDX-License-Identifier: Apache-2.0
// Takes the place of channel.c in a build without libzmq: the channel cannot be opened.
#include "cluster/channel.h"

static const char missing[] =
    "this weft was built without libzmq, which connects nodes: install the Debian package "
    "libzmq3-dev and build again, or leave --nnodes out";

enum status channel_open(struct channel **out, const struct channel_options *options,
                         struct error *err)
{
    (void)options;
    *out = NULL;
    return error_set(err, STATUS_UNSUPPORTED, "%s", missing);
}

void channel_end(struct channel *channel, bool ended)
{
    (void)channel, (void)ended;
}

void channel_close(struct channel *channel)
{
    (void)channel;
}

enum status channel_meet(struct channel *channel, const struct facts *facts, double seconds,
                         struct error *err)
{
    (void)channel, (void)facts, (void)seconds;
    return error_set(err, STATUS_UNSUPPORTED, "%s", missing);
}

enum status channel_send(struct channel *channel, enum message_kind kind, uint32_t model,
                         uint64_t number, const struct channel_part *parts, uint32_t count,
                         struct error *err)
{
    (void)channel, (void)kind, (void)model, (void)number, (void)parts, (void)count;
    return error_set(err, STATUS_UNSUPPORTED, "%s", missing);
}

enum status channel_receive(struct channel *channel, uint32_t from, uint32_t model,
                            enum channel_lane lane, uint64_t deadline_ns,
                            struct channel_letter *out, struct error *err)
{
    (void)channel, (void)from, (void)model, (void)lane, (void)deadline_ns, (void)out;
    return error_set(err, STATUS_UNSUPPORTED, "%s", missing);
}

void channel_letter_free(struct channel_letter *letter)
{
    (void)letter;
}

void channel_stop(struct channel *channel, uint32_t model)
{
    (void)channel, (void)model;
}

void channel_fail(struct channel *channel, const struct error *err)
{
    (void)channel, (void)err;
}

bool channel_failed(struct channel *channel, struct error *err)
{
    (void)channel, (void)err;
    return false;
}

void channel_leave(struct channel *channel)
{
    (void)channel;
}

bool channel_ended(struct channel *channel)
{
    (void)channel;
    return true;
}

void channel_step_started(struct channel *channel, uint32_t model, uint64_t step)
{
    (void)channel, (void)model, (void)step;
}

uint64_t channel_step_of(struct channel *channel, uint32_t node, uint32_t model)
{
    (void)channel, (void)node, (void)model;
    return 0;
}
