#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzzers of tests/fuzz, one per core at a time. `build` only builds them; `replay` runs each on
# its committed corpus; `run SECONDS [--part I/N]` fuzzes each of them, or each of a part, for that time.
# Logs and failing inputs are in build/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-replay}
seconds=${2:-600}
part=${4:-1/1}
compiler=$(command -v clang || command -v clang-14)
cmake --preset fuzz -DCMAKE_C_COMPILER="$compiler" >/dev/null
cmake --build --preset fuzz
[ "$mode" != build ] || exit 0

replay() { # name, corpus
    local files
    files=$([ ! -d "$2" ] || find "$2" -type f | sort)
    # shellcheck disable=SC2086
    if [ -z "$files" ]; then
        build/fuzz/bin/"$1" -runs=2000 -seed=1 -artifact_prefix=build/fuzz/"$1"-
    else
        build/fuzz/bin/"$1" $files
    fi >build/fuzz/"$1".log 2>&1 || return 1
    echo "$1: replayed $(wc -w <<<"$files") inputs"
}

run() { # name, corpus
    mkdir -p build/fuzz/corpus/"$1"
    # shellcheck disable=SC2046
    build/fuzz/bin/"$1" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -max_len=65536 \
        -artifact_prefix=build/fuzz/"$1"- build/fuzz/corpus/"$1" $([ ! -d "$2" ] || echo "$2") \
        >build/fuzz/"$1".log 2>&1 || return 1
    echo "$1: $(grep -E '^Done' build/fuzz/"$1".log | tail -n 1)"
}

one() { # name
    "$mode" "$1" "tests/fuzz/corpus/${1#fuzz_}" && return
    echo "$1: FAILED"
    tail -n 60 build/fuzz/"$1".log
    return 1
}
export -f one replay run
export mode seconds
cd build/fuzz/bin && names=(fuzz_*) && cd - >/dev/null
printf '%s\n' "${names[@]}" | awk -v part="$part" '{ split(part, p, "/"); if (NR % p[2] == p[1] % p[2]) print }' |
    xargs -P "$(nproc)" -I{} bash -c 'one {}'
