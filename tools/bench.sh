#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the CPU benchmarks one after another, each compared with its lower bound. Copy the output to
# bench/results/ to keep it.
set -uo pipefail
cd "$(dirname "$0")/.."
text=README.md
longer=${WEFT_ASSETS:-none}/text/tinyshakespeare.txt
[ ! -f "$longer" ] || text=$longer
for name in bench_ops bench_step bench_ranks bench_engine bench_masks bench_text bench_http; do
    program=build/release/bin/$name
    [ -x "$program" ] || continue
    echo "== $name"
    if [ "$name" = bench_text ]; then # comparison with the library: tools/bench_text.py
        "$program" models/weft-demo-chat "$text" 2
    else
        "$program"
    fi
done
