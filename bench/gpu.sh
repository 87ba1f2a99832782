#!/usr/bin/env bash
# All that must be proved on a real GPU: bench/gpu.sh --stage test|bench|all [--out FOLDER]
# Needs one GPU, nvcc, cmake, g++ and cmocka; no network, no h2o. Each stage ends within ten minutes, runs
# to its end whatever fails in it, and writes a row at a time into the output folder; the summary is
# what goes into bench/results/.
set -uo pipefail
cd "$(dirname "$0")/.."
stage=all
out=${OUT:-gpu-results}
while [ $# -gt 0 ]; do
    case $1 in
    --stage) stage=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) echo "usage: bench/gpu.sh --stage test|bench|all [--out FOLDER]" >&2; exit 2 ;;
    esac
done
case $stage in test | bench | all) ;; *) echo "gpu.sh: no stage '$stage'" >&2; exit 2 ;; esac
mkdir -p "$out"
summary=$out/summary.txt
build=build/gpu
limit=${GPU_LIMIT_S:-570}
rc=0

left() { echo $((limit - (SECONDS - began))); }
say() { printf '%4ds  %-28s %s\n' "$SECONDS" "$1" "$2" | tee -a "$summary"; }
# step NAME SECONDS COMMAND...: a log of its own, a line in the summary, never stops the script.
step() {
    local name=$1 seconds=$2
    shift 2
    if [ "$(left)" -lt 10 ]; then say "$name" "skipped: no time left"; rc=1; return 1; fi
    [ "$seconds" -lt "$(left)" ] || seconds=$(left)
    timeout -k 5 "$seconds" "$@" >"$out/$name.log" 2>&1
    local code=$?
    if [ $code = 0 ]; then say "$name" ok
    elif [ $code = 77 ]; then say "$name" "skipped: $(tail -1 "$out/$name.log")"
    else say "$name" "FAILED ($code)"; tail -5 "$out/$name.log"; rc=1; fi
    return $code
}

# A private top level: the parts of the tree that need neither h2o nor the text libraries.
top() {
    mkdir -p "$build/top"
    sed -e '/^foreach(room/,$d' -e "s#\${CMAKE_SOURCE_DIR}#$PWD#g" CMakeLists.txt >"$build/top/CMakeLists.txt"
    for part in kernels tests/conformance tests/simt; do
        echo "add_subdirectory($PWD/$part $part)" >>"$build/top/CMakeLists.txt"
    done
    local generator=()
    command -v ninja >/dev/null && generator=(-G Ninja)
    cmake "${generator[@]}" -S "$build/top" -B "$build" -DWEFT_CUDA=ON -DWEFT_BENCH=OFF -DWEFT_SIMT_MODES=plain \
        "-DCMAKE_CUDA_ARCHITECTURES=${ARCH:-native}"
}

began=$SECONDS
{ date -u +%Y-%m-%dT%H:%MZ; git rev-parse --short HEAD 2>/dev/null; git status --porcelain 2>/dev/null | head -5
  nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv,noheader 2>&1
  nvcc --version 2>&1 | tail -1; } | tee "$summary"
step configure 60 top || { cat "$out/configure.log"; exit 1; }
step build 300 cmake --build "$build" -j "$(nproc)" --target \
    gpu_kernels gpu_probe gpu_ops weft_cuda conformance gpu_probe_simt
bin=$build/bin

if [ $stage != bench ]; then
    # every wrapper against the emulator, word by word
    step probe-emulated 60 "$bin/gpu_probe_simt"
    step probe-gpu 60 "$bin/gpu_probe"
    step probe-equal 20 diff "$out/probe-emulated.log" "$out/probe-gpu.log"
    step conformance 180 "$bin/conformance" cuda "$PWD/$bin/libweft_cuda.so"
    step kernels 120 "$bin/gpu_kernels" # with bit equality of exact mode
    step kernels-blocking 120 env CUDA_LAUNCH_BLOCKING=1 "$bin/gpu_kernels" small
    step kernels-repeat 60 bash -c "for i in 1 2 3 4 5; do '$bin/gpu_kernels' small | grep -v Running || exit 1; done \
        | sort | uniq -c | awk '\$1 % 5 { print; bad = 1 } END { exit bad }'"
    if command -v compute-sanitizer >/dev/null; then
        for tool in memcheck racecheck synccheck initcheck; do
            step "sanitizer-$tool" 90 compute-sanitizer --tool $tool --error-exitcode 7 "$bin/gpu_kernels" small
        done
    else
        say sanitizers "skipped: compute-sanitizer is not here"
    fi
fi
if [ $stage != test ]; then
    began=$SECONDS
    step ops-fast 240 "$bin/gpu_ops" fast
    step ops-exact 240 "$bin/gpu_ops" exact
    if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
        step torch 120 python3 bench/gpu_torch.py
    else
        say torch "skipped: no torch with a GPU here"
    fi
    cat "$out"/ops-*.log "$out/torch.log" 2>/dev/null | tee -a "$summary" >"$out/bench.jsonl"
fi
echo "--- $summary"
exit $rc
