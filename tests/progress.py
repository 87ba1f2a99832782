# SPDX-License-Identifier: Apache-2.0
"""Lines that say how far a load is: a slow machine prints them, a fast one does not."""
import re


def without_progress(stderr):
    return re.sub(rb"^loading .*\n", b"", stderr, flags=re.M)
