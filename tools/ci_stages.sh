#!/usr/bin/env bash
# The stages of .ci/run after `make test`: units and parsers under ASan+UBSan, rings, ports and the
# engine under TSan, the web page in a browser, the emulator in its other modes, the CUDA plugin for one
# architecture and the PTX of nvcc interpreted, fuzz corpora replayed. Each stage says what it did; those
# that fail are named at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/stages.sh
preset_tests() { # preset, then arguments of ctest
    local preset=$1
    shift
    cmake --preset "$preset" >/dev/null && cmake --build --preset "$preset" &&
        ctest --preset "$preset" -j 2 "$@"
}
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export LSAN_OPTIONS=suppressions=$PWD/tests/e2e/lsan.supp:print_suppressions=0
export TSAN_OPTIONS=halt_on_error=1

# conformance and the simulation have runs of their own; they walk the same code for minutes here.
stage "units and parsers under ASan and UBSan" preset_tests dev -L 'unit|cpu' -E '^sim$|conformance'
tsan_tests="test_ring test_waker test_port_stress test_engine test_interleave test_cpu_threads test_cpu_device_slot test_cpu_comm test_server test_exchange
    test_drain test_group test_copies"
# shellcheck disable=SC2086
tsan() {
    cmake --preset tsan >/dev/null && cmake --build --preset tsan --target weft $tsan_tests &&
        ctest --preset tsan -j 2 -R "^($(tr -s ' \n' '|' <<<"$tsan_tests" | sed 's/|$//'))\$"
}
stage "rings, ports, pool and server under TSan" tsan
stage "one end-to-end run under TSan" env WEFT_BIN="$PWD/build/tsan/bin/weft" \
    WEFT_E2E_VENV="$PWD/build/release/e2e-venv" tests/e2e/run.sh test_openai
stage "emulator: ASan and race modes" bash -c 'cmake --preset release \
    "-DWEFT_SIMT_MODES=plain;asan;race" >/dev/null && ninja -C build/release simt_modes &&
    ctest --preset release -L simt -R "_(asan|race)\$" -j 2'
stage "the web page in a browser" tests/e2e/run.sh --browser
nvcc=$(tools/nvcc.sh) || exit 1
export PATH=$nvcc:$PATH
stage "CUDA plugin, one architecture" bash -c 'cmake -S . -B build/cuda -G Ninja -DWEFT_CUDA=ON \
    -DWEFT_TESTS=OFF -DWEFT_BENCH=OFF >/dev/null && ninja -C build/cuda weft_cuda'
stage "the plugin's host files for aarch64" tools/aarch64.sh
stage "serve with the plugin, without driver or cuBLASLt" env \
    WEFT_CUDA_LIBRARY="$PWD/build/cuda/bin/libweft_cuda.so" tests/e2e/run.sh \
    test_cuda_without_driver test_cuda_without_cublaslt
stage "what nvcc emits, interpreted" bash -c 'cmake --preset release -DWEFT_PTX=ON \
    >/dev/null && ninja -C build/release ptx_modes && ctest --preset release -L ptx'
if command -v clang >/dev/null || command -v clang-14 >/dev/null; then
    stage "fuzz corpora replayed" tools/fuzz.sh replay
fi
stages_end
