# SPDX-License-Identifier: Apache-2.0
"""Removes progress lines of model loading from output: only a slow machine prints them."""
import re


def without_progress(stderr):
    return re.sub(rb"^loading .*\n", b"", stderr, flags=re.M)
