#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the named targets of the release preset. Prints one progress line on a terminal, a few lines
# elsewhere, the entire log if the build fails, and nothing if there is nothing to do.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'printf "%s" "$clear"; exit 130' INT # without the log: nothing failed
clear=""
[ ! -t 1 ] || clear=$(printf '\r%79s\r' "")

failed() {
    printf '%s' "$clear"
    cat "$log"
    exit 1
}

home_read() { # prints the path under which the folder was configured
    sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' build/release/CMakeCache.txt 2>/dev/null
}

# Reads ninja's lines, "[done/all] step", and logs all of them.
show() {
    local line next=0 shown=""
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$log"
        [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
        [[ $line != *"Re-checking globbed directories"* ]] || continue # before each build
        local done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
        if [ -n "$clear" ]; then
            printf '\r%-79.79s' "$line"
            shown=1
        elif [ "$all" -gt 0 ] && [ $((100 * done / all)) -ge "$next" ]; then
            next=$(((100 * done / all / 25 + 1) * 25)) # four or five lines in total
            echo "building: $done of $all steps"
        fi
    done
    [ -z "$shown" ] || printf '%s' "$clear"
}

# Configures also if the folder was configured without libh2o (it may be installed by now), with older presets or
# under another path.
if [ ! -f build/release/build.ninja ] || [ ! "$(home_read)" -ef . ] || [ CMakePresets.json -nt build/release/build.ninja ] ||
    ! grep -q '^H2O_FOUND:INTERNAL=1' build/release/CMakeCache.txt; then
    [ ! -t 1 ] || printf 'configuring'
    tools/configure.sh >"$log" 2>&1 || failed
    printf '%s' "$clear"
fi
NINJA_STATUS='[%f/%t] ' ninja -C build/release "$@" 2>&1 | show
[ "${PIPESTATUS[0]}" -eq 0 ] || failed
