#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the stages of .ci/run after `make test`: the slow tests, unit tests, parsers and fuzz corpora under ASan and
# UBSan, rings, ports and the engine under TSan, the full end-to-end tests, the web page in a browser, README's commands
# on Debian 13, the CUDA plugin for one architecture. Prints each stage with its time, and the failed ones at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/stages.sh
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export LSAN_OPTIONS=suppressions=$PWD/tests/e2e/lsan.supp:print_suppressions=0
export TSAN_OPTIONS=halt_on_error=1:suppressions=$PWD/tests/tsan.supp:print_suppressions=0 # equal to that of the preset tsan

# The slow tests: full conformance runs on the CPU and the emulator, its race mode, the interpreted PTX of
# nvcc, budgets of the kernels, four ranks, emulated ISA levels of the CPU.
nvcc=$(tools/nvcc.sh) || exit 1
export PATH=$nvcc:$PATH
stage "slow tests, emulator modes and PTX" bash -c 'cmake --preset release "-DWEFT_SIMT_MODES=plain;race" \
    -DWEFT_PTX=ON -DWEFT_TESTS=ON >/dev/null && tools/build.sh slow_tests && ctest --preset release -L slow -j 3'
# The fast tests of modules and parsers, and the fuzzers' corpora. -g1: reports name lines, and types of variables
# would take a part of the compile time.
lines="-DCMAKE_C_FLAGS_DEBUG=-O1 -g1"
stage "units, parsers and corpora under ASan and UBSan" bash -c 'cmake --preset dev "$0" >/dev/null &&
    cmake --build --preset dev --target sanitized_tests && ctest --preset dev -j 3 -L sanitized' "$lines"
tsan_tests="test_ring test_waker test_port_stress test_engine test_interleave test_cpu_threads test_cpu_device_slot test_cpu_comm test_server test_exchange
    test_drain test_group test_copies"
# shellcheck disable=SC2086
tsan() {
    cmake --preset tsan "$lines" >/dev/null && cmake --build --preset tsan --target weft $tsan_tests &&
        ctest --preset tsan -j 2 -R "^($(tr -s ' \n' '|' <<<"$tsan_tests" | sed 's/|$//'))\$"
}
stage "rings, ports, pool and server under TSan" tsan
stage "one end-to-end run under TSan" env WEFT_BIN="$PWD/build/tsan/bin/weft" \
    WEFT_E2E_VENV="$PWD/build/release/e2e-venv" tests/e2e/run.sh test_openai
plugin='cmake -S . -B build/cuda -G Ninja -DWEFT_CUDA=ON -DWEFT_TESTS=OFF -DWEFT_BENCH=OFF -DCMAKE_CUDA_FLAGS=-Xptxas=-v \
    >/dev/null && ninja -C build/cuda -j 2 weft_cuda | tee -a build/cuda/ptxas.log'
# Work of later stages while the end-to-end tests wait for servers and time-outs: the plugin is compiled (its stage
# does what is left and prints the errors), and the root of Debian 13 waits for its packages.
mkdir -p build/cuda
nice -n 19 bash -o pipefail -c "$plugin" >build/stages/ahead.log 2>&1 &
ahead=$!
nice -n 19 tools/debian13.sh >build/stages/debian13.log 2>&1 &
debian=$!
debian_end() { # prints its output and returns its exit status
    local code=0
    wait "$debian" || code=$?
    cat build/stages/debian13.log
    return "$code"
}
stage "end-to-end tests, full level" tests/e2e/run.sh --full
stage "the web page in a browser" tests/e2e/run.sh --browser
stage "make serve on Debian 13" debian_end
wait "$ahead"
stage "CUDA plugin, one architecture, and its registers" bash -o pipefail -c "$plugin && python3 tests/ptx/budgets.py \
    --registers build/cuda/ptxas.log"
stage "the plugin's host files for aarch64" tools/aarch64.sh
stage "serve with the plugin, without driver or cuBLASLt" env \
    WEFT_CUDA_LIBRARY="$PWD/build/cuda/bin/libweft_cuda.so" tests/e2e/run.sh \
    test_cuda_without_driver test_cuda_without_cublaslt
stages_end
