# SPDX-License-Identifier: Apache-2.0
# SPDX-License-Identifier: Apache-2.0
"""Pseudo-terminals of tests. A machine without any (no devpts on /dev/pts) skips the tests that need one."""
import pty


def terminal_open(skip):
    """Returns two file descriptors, the test's and the program's; raises `skip` if there is no pseudo-terminal."""
    try:
        return pty.openpty()
    except OSError as error:
        raise skip(f"no pseudo-terminal here ({error}): mount devpts on /dev/pts") from error
