// SPDX-License-Identifier: Apache-2.0
// Sends datagrams to the service manager; see notify.h. The address and the messages are those of
// sd_notify(3); libsystemd is not needed for them. Main thread.
#include "cli/notify.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

// Fills the socket address; returns its length, 0 if it is not one of the protocol.
static socklen_t address_fill(struct sockaddr_un *to, const char *address)
{
    size_t bytes = strlen(address);
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((*address != '/' && *address != '@') || bytes < 2 || bytes >= sizeof to->sun_path)
        return 0;
    memcpy(to->sun_path, address, bytes);
    if (*address == '@')
        to->sun_path[0] = '\0'; // an abstract name has no NUL at its end
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + (*address == '/'));
}

enum status notify_send(const char *address, const char *message, struct error *err)
{
    static const struct timeval second = {.tv_sec = 1};
    struct sockaddr_un to;
    if (!address)
        return STATUS_OK;
    socklen_t bytes = address_fill(&to, address);
    if (bytes == 0)
        return error_set(err, STATUS_INVALID,
                         "NOTIFY_SOCKET is '%s': it must be a path or @NAME, of at most %zu bytes",
                         address, sizeof to.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, STATUS_IO, "a socket for NOTIFY_SOCKET cannot be opened: %s",
                         strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    ssize_t sent = sendto(fd, message, strlen(message), MSG_NOSIGNAL, (const void *)&to, bytes);
    int failed = errno;
    close(fd);
    if (sent < 0)
        return error_set(err, STATUS_IO, "the service manager at %s cannot be notified: %s",
                         address, strerror(failed));
    return STATUS_OK;
}
