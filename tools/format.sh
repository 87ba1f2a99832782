#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs one version of clang-format (19.1.7, a wheel of PyPI) on every C and CUDA file.
#
#   tools/format.sh              formats in place
#   tools/format.sh --check      changes nothing; prints the files that differ and exits 1 if there are any
set -euo pipefail
cd "$(dirname "$0")/.."
version=19.1.7
venv=build/format-venv
[ -x $venv/bin/clang-format ] || { python3 -m venv $venv && $venv/bin/pip install -q clang-format==$version; }
how=(-i)
[ "${1:-}" != --check ] || how=(--dry-run --Werror)
git ls-files -z '*.c' '*.h' '*.cu' '*.cuh' '*.inc' | xargs -0 -n 32 -P "$(nproc)" $venv/bin/clang-format "${how[@]}" || exit 1
