#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Counts the instructions of the hot kernels (bench/gpu_model/after.json) and writes the generated tables of
# bench/gpu_predictions.md and tests/ptx/README.md: opcodes, instructions compared with Triton's, counts, predictions
# and targets.
#
#   tools/gpu_tables.sh           writes them; creates the venv with Triton and nvdisasm if it is missing
#   tools/gpu_tables.sh --check   prints the outdated tables, for `make soak`; passes without the venv
# Needs build/release with kernel_counts and ptx_run.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=build/release/bin
python=build/triton-venv/bin/python
after=bench/gpu_model/after.json
usage="usage: tools/gpu_tables.sh [--check]"
case "$#:${1:-}" in
0:) mode=--write ;;
1:--check) mode=--check ;;
*) echo "$usage" >&2 && exit 2 ;;
esac
PATH=$(tools/nvcc.sh):$PATH
[ "$mode" = --check ] || python3 tools/triton/check.py --program $bin/ptx_run --write
if [ ! -x $python ]; then
    echo "gpu_tables: skipped: build/triton-venv is not there; tools/gpu_tables.sh without --check makes it"
    exit
fi
if ! $python -m pip install -q nvidia-cuda-nvdisasm==13.2.51; then
    echo "gpu_tables: skipped: nvdisasm cannot be had from PyPI here"
    [ "$mode" = --check ]
    exit
fi
failed=0
found=$(mktemp)
trap 'rm -f "$found"' EXIT
$python bench/gpu_model/measure.py $bin/kernel_counts --out "$found"
if [ "$mode" = --write ]; then
    cat "$found" >"$after"
elif ! cmp -s "$found" "$after"; then
    echo "$after is of other kernels: tools/gpu_tables.sh renews it"
    failed=1
fi
$python bench/gpu_model/page.py $mode || failed=1
$python tools/triton/counts.py --program $bin/ptx_run $mode || failed=1
exit $failed
