#!/usr/bin/env bash
# The fuzzers of tests/fuzz. `replay` runs each over its committed corpus; `run SECONDS` fuzzes.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-replay}
seconds=${2:-600}
compiler=$(command -v clang || command -v clang-14)
cmake --preset fuzz -DCMAKE_C_COMPILER="$compiler" >/dev/null
cmake --build --preset fuzz
found=0
for program in build/fuzz/bin/fuzz_*; do
    [ -x "$program" ] || continue
    name=$(basename "$program")
    corpus=tests/fuzz/corpus/${name#fuzz_}
    found=$((found + 1))
    if [ "$mode" = replay ]; then
        files=$([ ! -d "$corpus" ] || find "$corpus" -type f | sort)
        if [ -z "$files" ]; then
            "$program" -runs=2000 -seed=1 >build/fuzz/$name.log 2>&1 || { tail -n 40 build/fuzz/$name.log; exit 1; }
        else
            "$program" $files >build/fuzz/$name.log 2>&1 || { tail -n 40 build/fuzz/$name.log; exit 1; }
        fi
        echo "$name: replayed $(wc -w <<<"$files") inputs"
    else
        mkdir -p build/fuzz/corpus/$name
        # shellcheck disable=SC2086
        "$program" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -max_len=65536 \
            build/fuzz/corpus/$name $([ -d "$corpus" ] && echo "$corpus") >build/fuzz/$name.log 2>&1 ||
            { tail -n 60 build/fuzz/$name.log; exit 1; }
        echo "$name: $(grep -E '^Done|stat::number_of' build/fuzz/$name.log | tail -n 1)"
    fi
done
[ "$found" -gt 0 ]
