#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures the release preset, from scratch if build/release was configured under another path (a moved or
# copied clone): CMake refuses such a folder. usage: tools/configure.sh [options of cmake]
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=()
if [ -f build/release/CMakeCache.txt ]; then
    home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' build/release/CMakeCache.txt)
    [ -z "$home" ] || [ "$home" -ef . ] || fresh=(--fresh)
fi
exec cmake --preset release "${fresh[@]}" "$@"
