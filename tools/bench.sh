#!/usr/bin/env bash
# Runs the CPU benchmarks one after the other, each beside its floor; output to bench/results/ by
# hand if it is to be kept.
set -uo pipefail
cd "$(dirname "$0")/.."
for name in bench_ops bench_step bench_engine bench_text bench_http; do
    program=build/release/bin/$name
    [ -x "$program" ] || continue
    echo "== $name"
    "$program"
done
