#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder of an nvcc whose version is that of tests/ptx/budgets.txt: that of PATH, else /usr/local/cuda/bin,
# else a toolkit that it installs in build/cuda-toolkit from NVIDIA's packages on PyPI. Prints a reason and exits 1 if
# none is available. usage: tools/nvcc.sh [--own]   (--own: always installs one)
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^nvcc //p' tests/ptx/budgets.txt)
packages=("nvidia-cuda-nvcc==$version" "nvidia-cuda-crt==$version" "nvidia-nvvm==$version"
    "nvidia-cuda-runtime>=13.0,<13.1" "nvidia-cuda-cccl>=13.0,<13.1" "nvidia-cublas>=13.1,<13.2")

if [ "${1:-}" != --own ]; then
    there=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)
    if [ -n "$there" ] && "$there" --version | grep -qF "V$version"; then
        dirname "$there"
        exit 0
    fi
fi
own=$PWD/build/cuda-toolkit
if [ ! -e "$own/ready" ]; then
    echo "nvcc.sh: no nvcc $version here, it is installed from PyPI into build/cuda-toolkit (900 MB)" >&2
    rm -rf "$own"
    if ! { python3 -m venv "$own" && "$own/bin/pip" install -q --disable-pip-version-check "${packages[@]}"; } >&2; then
        echo "nvcc.sh: nvcc $version could not be installed: install the CUDA toolkit and put nvcc on PATH" >&2
        exit 1
    fi
    toolkit=$(echo "$own"/lib/python3*/site-packages/nvidia/cu13)
    ln -sfn lib "$toolkit/lib64" # nvcc and cmake search lib64, for names without a version
    for library in "$toolkit"/lib/lib*.so.[0-9]*; do
        ln -sfn "$(basename "$library")" "${library%.so.*}.so"
    done
    "$toolkit/bin/nvcc" --version >/dev/null
    touch "$own/ready"
fi
echo "$own"/lib/python3*/site-packages/nvidia/cu13/bin
