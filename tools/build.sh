#!/usr/bin/env bash
# Builds the named targets of the release preset; quiet when there is nothing to do.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -f build/release/build.ninja ]; then
    cmake --preset release >build-log.$$ 2>&1 || { cat build-log.$$; rm -f build-log.$$; exit 1; }
    rm -f build-log.$$
fi
ninja -C build/release "$@" | grep -v -E 'no work to do|Entering directory|Re-checking globbed' || true
[ "${PIPESTATUS[0]}" -eq 0 ]
