// SPDX-License-Identifier: Apache-2.0
// Sends messages to the service manager in the protocol of sd_notify(3): one datagram of lines
// NAME=VALUE to the socket that the variable NOTIFY_SOCKET names. Main thread.
#pragma once

#include "base/status.h"

// Sends a message, such as "READY=1\nSTATUS=serving 2 models". address: value of NOTIFY_SOCKET, a
// path that begins with '/', or '@' for a name in Linux's abstract name space; NULL: there is no
// service manager, and nothing is sent. Waits at most a second for a manager that does not read.
// INVALID if the address has another form or is too long, IO if the message cannot be sent.
enum status notify_send(const char *address, const char *message, struct error *err) MUST_USE;
