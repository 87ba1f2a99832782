#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the plugin's host files for aarch64 (GH200, Grace) with Debian's cross compiler and the CUDA
# headers of nvcc. They are not linked or run, which would need an aarch64 toolkit and machine. usage: tools/aarch64.sh
set -euo pipefail
cd "$(dirname "$0")/.."
headers=$(tools/nvcc.sh)/../include
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# CUDA_HOST in sources.cmake lists paths without their extensions.
files=$(sed -n '/^set(CUDA_HOST/,/)/p' kernels/cuda/sources.cmake | tr -s ' ()\n' '\n' | grep /)
for file in $files; do
    aarch64-linux-gnu-gcc -std=gnu17 -O2 -Wall -Wextra -Werror -fPIC -D_GNU_SOURCE '-DWEFT_DEVICE_NAME="cuda"' \
        -I. -isystem "$headers" -c "$file.c" -o "$out/${file//\//_}.o"
done
echo "$(echo "$files" | wc -l) host files of the plugin compile for aarch64"
