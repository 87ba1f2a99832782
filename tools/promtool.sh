#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of promtool: the installed one, otherwise that of Debian's package prometheus, unpacked
# in build/promtool. The package is not installed, because it would start a service.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v promtool; then
    exit 0
fi
tool=$PWD/build/promtool/usr/bin/promtool
if [ ! -x "$tool" ]; then
    mkdir -p build/promtool
    cd build/promtool
    apt-get download -qq prometheus >&2
    dpkg -x prometheus_*.deb .
    rm prometheus_*.deb
fi
echo "$tool"
