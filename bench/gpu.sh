#!/usr/bin/env bash
# All that must be proved on a real GPU: bench/gpu.sh --stage test|bench|all|libs [--out FOLDER]
# Needs one GPU, nvcc, cmake, g++ and cmocka; no network, no h2o. The model tests and whole steps also need
# jansson and yajl and are skipped without them: `--stage libs` on a machine that has all three libraries
# copies them to build/libs, which is then taken along. Each stage ends within ten minutes, runs to its end
# whatever fails in it, and leaves three files in the output folder: summary.txt, which goes into
# bench/results/, the rows of the measurements (a row at a time), and the logs.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
stage=all
out=${OUT:-gpu-results}
while [ $# -gt 0 ]; do
    case $1 in
    --stage) stage=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) echo "usage: bench/gpu.sh --stage test|bench|all|libs [--out FOLDER]" >&2; exit 2 ;;
    esac
done
case $stage in test | bench | all | libs) ;; *) echo "gpu.sh: no stage '$stage'" >&2; exit 2 ;; esac
# Headers and libraries of this machine with names in place of links, and .pc files of our own.
libs() {
    local to=$PWD/build/libs name from
    rm -rf "$to" && mkdir -p "$to/include" "$to/lib/pkgconfig" || return 1
    for name in cmocka jansson yajl; do
        from=$(cc -print-file-name="lib$name.so")
        cp -rL "/usr/include/$name"* "$to/include/" && cp -L "$from"* "$to/lib/" || return 1
        printf 'prefix=${pcfiledir}/../..\nName: %s\nDescription: copied\nVersion: %s\nLibs: %s -l%s\nCflags: %s\n' \
            $name "$(pkg-config --modversion $name)" '-L${prefix}/lib' $name '-I${prefix}/include' \
            >"$to/lib/pkgconfig/$name.pc" || return 1
    done
    du -sh "$to"
}
if [ $stage = libs ]; then libs; exit; fi
if [ -d build/libs ]; then
    export PKG_CONFIG_PATH=$PWD/build/libs/lib/pkgconfig:${PKG_CONFIG_PATH:-}
    export LD_LIBRARY_PATH=$PWD/build/libs/lib:${LD_LIBRARY_PATH:-}
fi
mkdir -p "$out"
summary=$out/summary.txt
rows=$out/bench.jsonl
build=build/gpu
logs=$build/logs # gathered in one file: what comes back from a lent machine is few files
bin=$PWD/$build/bin
limit=${GPU_LIMIT_S:-570}
rc=0
rm -rf "$logs" "$out/logs.txt" "$rows"
mkdir -p "$logs"

left() { echo $((limit - (SECONDS - began))); }
say() { printf '%4ds  %-28s %s\n' "$SECONDS" "$1" "$2" | tee -a "$summary"; }
# step NAME SECONDS COMMAND...: a log of its own, a line in the summary, never stops the script.
step() {
    local name=$1 seconds=$2
    shift 2
    local word
    for word in "$@"; do
        case $word in
        "$bin"/*) [ -e "$word" ] || { say "$name" "skipped: ${word#"$bin"/} was not built"; rc=1; return 1; } ;;
        esac
    done
    if [ "$(left)" -lt 10 ]; then say "$name" "skipped: no time left"; rc=1; return 1; fi
    [ "$seconds" -lt "$(left)" ] || seconds=$(left)
    local limited=(timeout -k 5 "$seconds")
    ! declare -F "$1" >/dev/null || limited=() # timeout runs programs only
    "${limited[@]}" "$@" >"$logs/$name.log" 2>&1
    local code=$?
    { echo "=== $name: $*"; cat "$logs/$name.log"; } >>"$out/logs.txt"
    if [ $code = 0 ]; then say "$name" ok
    elif [ $code = 77 ]; then say "$name" "$(grep -h -m1 -o 'skipped: .*' "$logs/$name.log")"
    else say "$name" "FAILED ($code)"; tail -5 "$logs/$name.log"; rc=1; fi
    return $code
}

# The same with rows of JSON, which are kept even where its time ran out.
bench_step() {
    step "$@"
    local code=$?
    grep -h '^{' "$logs/$1.log" 2>/dev/null | tee -a "$summary" >>"$rows"
    return $code
}

models=yes
for name in jansson yajl; do
    pkg-config --exists $name 2>/dev/null || models="skipped: $name is not here"
done

# A private top level: the parts of the tree that need neither h2o nor the text libraries.
top_make() {
    local parts="kernels tests/conformance tests/simt" part
    [ "$models" != yes ] || parts="kernels runtime/base runtime/model tests/conformance tests/simt"
    mkdir -p "$build/top"
    sed -e '/^foreach(room/,$d' -e "s#\${CMAKE_SOURCE_DIR}#$PWD#g" CMakeLists.txt >"$build/top/CMakeLists.txt"
    for part in $parts; do
        echo "add_subdirectory($PWD/$part $part)" >>"$build/top/CMakeLists.txt"
    done
    if [ "$models" = yes ]; then
        for part in tests/runtime/model tests/runtime/simt bench/step; do
            echo "include($PWD/$part.cmake)" >>"$build/top/CMakeLists.txt"
        done
    fi
    local generator=() arch=native
    command -v ninja >/dev/null && generator=(-G Ninja)
    nvidia-smi -L >/dev/null 2>&1 || arch=90a-real
    timeout 60 cmake "${generator[@]}" -S "$build/top" -B "$build" -DWEFT_CUDA=ON -DWEFT_BENCH=OFF -DWEFT_SIMT_MODES=plain \
        "-DCMAKE_CUDA_ARCHITECTURES=${ARCH:-$arch}"
}

began=$SECONDS
{ date -u +%Y-%m-%dT%H:%MZ; git rev-parse --short HEAD 2>/dev/null; git status --porcelain 2>/dev/null | head -5
  nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv,noheader 2>&1
  nvcc --version 2>&1 | tail -1; } | tee "$summary"
step configure 60 top_make || { cat "$logs/configure.log"; exit 1; }
targets=(weft_cuda gpu_ops)
[ $stage = bench ] || targets+=(gpu_kernels gpu_probe conformance gpu_probe_simt)
step build 300 cmake --build "$build" -j "$(nproc)" --target "${targets[@]}"
model_tests="test_golden test_model test_simt_exact test_simt_ahead test_tinystories"
targets=(bench_step)
# shellcheck disable=SC2206 # words
[ $stage = bench ] || targets+=($model_tests)
if [ "$models" = yes ]; then step build-models 120 cmake --build "$build" -j "$(nproc)" --target "${targets[@]}"; fi

if [ $stage != bench ]; then
    # every wrapper against the emulator, word by word
    step probe-emulated 60 "$bin/gpu_probe_simt"
    step probe-gpu 60 "$bin/gpu_probe"
    step probe-equal 20 diff "$logs/probe-emulated.log" "$logs/probe-gpu.log"
    step conformance 180 "$bin/conformance" cuda "$bin/libweft_cuda.so"
    step kernels 120 "$bin/gpu_kernels" # with bit equality of exact mode
    for name in $model_tests; do # whole models, exact mode: golden tokens, bits, steps ahead
        if [ "$models" != yes ]; then say "$name" "$models"; continue; fi
        step "$name" 90 env WEFT_TEST_DEVICE=cuda WEFT_TEST_DEVICE_LIBRARY="$bin/libweft_cuda.so" "$bin/$name"
    done
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
# rate KEY: the best of the rows of gpu_ops so far; the large swiglu stands for a copy.
rate() {
    case $1 in
    copy) grep -h 'stands for the copy' "$rows" | grep -o '"GBps":[0-9.]*' ;;
    math) grep -h '"op":"gemm"' "$rows" | grep -o '"TFLOPs":[0-9.]*' ;;
    esac 2>/dev/null | cut -d: -f2 | sort -g | tail -1
}
# whole NAME SECONDS SHAPE [--no-exact]: whole steps of a dummy model, filled on the device.
whole() {
    local name=$1 seconds=$2 shape=$3
    shift 3
    if [ "$models" != yes ]; then say "$name" "$models"; return 1; fi
    bench_step "$name" "$seconds" "$bin/bench_step" --device cuda --library "$bin/libweft_cuda.so" \
        --shape "$shape" --copy "$copy" --math "$math" "$@"
}
if [ $stage != test ]; then
    [ $stage = bench ] || began=$SECONDS # of `bench` alone the build is a part
    bench_step ops-fast 110 "$bin/gpu_ops" fast
    bench_step ops-exact 90 "$bin/gpu_ops" exact
    copy=$(rate copy) math=$(rate math)
    : "${copy:=0}" "${math:=0}"
    whole step-qwen3-8b-fast 100 qwen3-8b --no-exact
    whole step-qwen3-8b-exact 90 qwen3-8b
    whole step-xlm-r-large-fast 45 xlm-r-large --no-exact
    whole step-qwen2.5-0.5b-fast 40 qwen2.5-0.5b --no-exact
    whole step-xlm-r-large-exact 45 xlm-r-large
    whole step-qwen2.5-0.5b-exact 40 qwen2.5-0.5b
    if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
        bench_step torch 120 python3 bench/gpu_torch.py
    else
        say torch "skipped: no torch with a GPU here"
    fi
fi
echo "--- $summary"
exit $rc
