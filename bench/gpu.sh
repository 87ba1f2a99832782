#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a test on a real GPU:
#     bench/gpu.sh --stage first|build|test|bench|ranks|all|libs [--out FOLDER] [--plan]
# Needs one GPU, nvcc, cmake, make or ninja, and g++; no network, no h2o. Without cmocka the tests run on bench/cmocka.
# The model tests and whole steps also need jansson and pkg-config and are skipped without them: `--stage libs` on a
# machine that has them copies them to build/libs, which is then copied to the GPU machine. `--stage build` builds the
# programs of the other stages without a time limit. `first` takes at most nine minutes on a card and begins with the
# most important results; `ranks` needs two GPUs. Both use the programs of an earlier build in build/gpu if they run on this card.
#
# Each stage ends within ten minutes: every step has a share of them, later steps can use time that it leaves, and
# `--plan` prints the shares and fails if their sum exceeds the limit. A stage runs all steps even if some fail. It
# writes to the output folder: summary.txt, which is stored in bench/results/, bench.jsonl, a row per measurement, and
# logs.txt. Exit status 0: all passed; 1: something failed, or a skip counts; 77: no GPU here.
# A skip counts if the step is a test or a measurement of weft that this machine could do: its program was not built, a
# library, python3 or the time was missing, or the program skipped itself. These do not count: steps for two GPUs on a
# machine with one; profilers and sanitizers that are not installed or for which no time is left; torch that is not
# installed; and predictions of a card that bench/gpu_model/cards.json lacks.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
stage=all
out=${OUT:-gpu-results}
plan=no
while [ $# -gt 0 ]; do
    case $1 in
    --stage) stage=${2:-}; shift; [ $# = 0 ] || shift ;;
    --out) out=${2:-}; shift; [ $# = 0 ] || shift ;;
    --plan) plan=yes; shift ;;
    *) echo "usage: bench/gpu.sh --stage first|build|test|bench|ranks|all|libs [--out FOLDER] [--plan]" >&2; exit 2 ;;
    esac
done
[ "$stage:$plan" != build:yes ] || { echo "gpu.sh: a build has no plan, it takes as long as it takes" >&2; exit 2; }
case $stage in first | build | test | bench | ranks | all | libs) ;; *) echo "gpu.sh: no stage '$stage'" >&2; exit 2 ;; esac
# Copies headers and libraries of this machine (files instead of links), new .pc files and pkg-config.
libs() {
    local to=$PWD/build/libs name from
    rm -rf "$to" && mkdir -p "$to/include" "$to/lib/pkgconfig" "$to/bin" || return 1
    for name in cmocka jansson; do
        from=$(cc -print-file-name="lib$name.so")
        cp -rL "/usr/include/$name"* "$to/include/" && cp -L "$from"* "$to/lib/" || return 1
        printf 'prefix=${pcfiledir}/../..\nName: %s\nDescription: copied\nVersion: %s\nLibs: %s -l%s\nCflags: %s\n' \
            $name "$(pkg-config --modversion $name)" '-L${prefix}/lib' $name '-I${prefix}/include' \
            >"$to/lib/pkgconfig/$name.pc" || return 1
    done
    from=$(command -v pkg-config)
    cp -L "$from" "$to/bin/pkg-config" || return 1
    for name in $(ldd "$from" | grep -o '/[^ ]*libpkgconf[^ ]*'); do cp -L "$name" "$to/lib/" || return 1; done
    du -sh "$to"
}
if [ $stage = libs ]; then libs; exit; fi
if [ -d build/libs ]; then
    export PKG_CONFIG_PATH=$PWD/build/libs/lib/pkgconfig:${PKG_CONFIG_PATH:-}
    export LD_LIBRARY_PATH=$PWD/build/libs/lib:${LD_LIBRARY_PATH:-}
    command -v pkg-config >/dev/null || export PATH=$PATH:$PWD/build/libs/bin
fi
[ ! -x /usr/local/cuda/bin/nvcc ] || export PATH=$PATH:/usr/local/cuda/bin
limit=570
[ $stage != first ] || limit=540
limit=${GPU_LIMIT_S:-$limit}
build=build/gpu
logs=$build/logs # also gathered in logs.txt, because a remote machine may return only a few files
bin=$PWD/$build/bin
summary=$out/summary.txt
rows=$out/bench.jsonl
rc=0
failed=no
began=$SECONDS
planned=0 # sum of the shares of the steps so far, in seconds

say() { printf '%4ds  %-28s %s\n' "$SECONDS" "$1" "$2" | tee -a "$summary"; }
gpu=no
if nvidia-smi -L >/dev/null 2>&1 || [ -e /dev/nvidia0 ]; then gpu=yes; fi
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
# missing COMMAND...: prints which part of the command is missing, or nothing.
missing() {
    local word
    for word in "$@"; do
        case $word in
        "$bin"/gpu_probe_simt) ;;
        "$bin"/*) [ $gpu = yes ] || { echo "no GPU here"; return; } ;;
        esac
        case $word in
        "$bin"/*) [ -e "$word" ] || { echo "${word#"$bin"/} was not built"; return; } ;;
        esac
    done
}
# step NAME SHARE COMMAND...: runs the command for at most its share and the time left over. Writes a log, appends rows
# of JSON immediately, and adds a line to the summary. Does not end the script.
step() {
    local name=$1 share=$2 lack code
    shift 2
    planned=$((planned + share))
    if [ $plan = yes ]; then printf '%4ds  %-28s %ds\n' "$planned" "$name" "$share"; return 0; fi
    lack=$(missing "$@")
    if [ -n "$lack" ]; then say "$name" "skipped: $lack"; rc=1; return 1; fi
    local seconds=$((planned - (SECONDS - began)))
    if [ $seconds -lt 3 ] && [ $stage != build ]; then say "$name" "skipped: no time left"; rc=1; return 1; fi
    local limited=(timeout -k 5 "$seconds") start=$SECONDS
    ! declare -F "$1" >/dev/null || limited=() # timeout runs programs only
    [ $stage != build ] || limited=()
    echo "=== $name: $*" >>"$out/logs.txt"
    "${limited[@]}" "$@" 2>&1 | tee "$logs/$name.log" | tee -a "$out/logs.txt" |
        grep --line-buffered '^{' | tee -a "$summary" >>"$rows"
    code=${PIPESTATUS[0]}
    case $code in
    0) say "$name" "ok ($((SECONDS - start)) s)" ;;
    77) say "$name" "$(grep -h -m1 -o 'skipped: .*' "$logs/$name.log" || echo 'skipped: it says 77')"; rc=1 ;;
    124 | 137) say "$name" "FAILED: not done in $seconds s"; tail -3 "$logs/$name.log"; failed=yes rc=1 ;;
    *) say "$name" "FAILED ($code)"; tail -5 "$logs/$name.log"; failed=yes rc=1 ;;
    esac
    return "$code"
}
# several NAME SHARE COMMAND...: a step that needs two GPUs.
several() {
    if [ $plan = no ] && [ "$gpus" -lt 2 ]; then say "$1" "skipped: fewer than two GPUs here"; return 0; fi
    step "$@"
}

# finding NAME SHARE TOOL COMMAND...: a step that needs a tool, whose failure does not fail the stage: tools that may be slow or report harmless
# findings.
finding() {
    if [ $plan = no ] && ! command -v "$3" >/dev/null; then say "$1" "skipped: $3 is not here"; return 0; fi
    if [ $plan = no ] && [ $((planned + $2 - (SECONDS - began))) -lt 3 ]; then
        planned=$((planned + $2))
        say "$1" "left out: no time left"
        return 0
    fi
    step "$1" "$2" bash -c 'name=$1 seconds=$2; shift 2; timeout -k 2 "$seconds" "$@"; code=$?
        [ $code = 0 ] || echo "finding: $name ended with $code: read its log"' - "$1" "$(($2 - 1))" "${@:4}"
    [ $plan = yes ] || grep -h '^finding: ' "$logs/$1.log" 2>/dev/null | tee -a "$summary"
}

# python NAME SHARE SCRIPT...: a step that needs python3 and the results of a GPU.
python() {
    local lack=
    [ $gpu = yes ] || lack="no GPU here"
    command -v python3 >/dev/null || lack="python3 is not here"
    if [ $plan = no ] && [ -n "$lack" ]; then say "$1" "skipped: $lack"; rc=1; return 1; fi
    step "$1" "$2" python3 -B "${@:3}"
}

# fp8_row: reports for which modes of scales cuBLASLt has FP8 products on this card, as gpu_ops printed it.
fp8_row() {
    local line
    [ $plan = no ] || return 0
    line=$(grep -h -m1 -o 'FP8 weights: .*' "$logs"/{gaps,ops-graphs}.log 2>/dev/null | head -1)
    [ -z "$line" ] || say fp8-products "${line#FP8 weights: }"
}

# predictions SHARE: compares the measurements so far with predictions.
predictions() {
    local before=$rc
    python predictions "$1" bench/gpu_model/beside.py "$rows"
    if [ $? = 77 ]; then # a card without constants
        rc=$before
        return 0
    fi
    [ $plan = yes ] || grep -v '^{' "$logs/predictions.log" 2>/dev/null | tee -a "$summary"
}

# sums_probe SHARE: reports which arithmetic the products of tensor cores have; no result fails the stage.
sums_probe() {
    finding mma-sums "$1" "$bin/gpu_probe" "$bin/gpu_probe" sums tests/simt/mma_vectors.txt
    [ $plan = yes ] || grep -h '^sums of ' "$logs/mma-sums.log" 2>/dev/null | tee -a "$summary"
}

models=yes # or the reason why they are left out; set after configuring

# Configures the parts of the tree with few dependencies (bench/gpu.cmake), for this GPU only; sm_90 as sm_90a.
configure() {
    local generator=() arch=90a-real limited=(timeout 60)
    command -v ninja >/dev/null && generator=(-G Ninja)
    if [ $gpu = yes ]; then
        arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
        case $arch in 90) arch=90a-real ;; [0-9]*) arch=$arch-real ;; *) arch=native ;; esac
        if [ $arch != native ] && ! nvcc --list-gpu-code | grep -x "sm_${arch%%[a-]*}" >/dev/null; then
            echo "this nvcc makes no code for sm_${arch%%[a-]*}: the driver compiles its PTX for sm_90"
            arch=90-virtual
        fi
    fi
    [ $stage != build ] || limited=()
    "${limited[@]}" cmake "${generator[@]}" -S . -B "$build" -DWEFT_GPU_ONLY=ON -DWEFT_CUDA=ON -DWEFT_SIMT_MODES=plain \
        "-DCMAKE_CUDA_ARCHITECTURES=${ARCH:-$arch}" || return
    # if the configuration skipped the plugin, prints the reason: nothing can be built
    cmake --build "$build" --target help >"$build/targets" && grep -qw weft_cuda "$build/targets"
}

model_tests="test_golden test_model test_simt_exact test_simt_ahead test_tinystories"
build_all() { # shares in seconds
    local shares=(30 110 35)
    [ $stage != first ] || shares=(15 60 20)
    step configure ${shares[0]} configure || { [ $plan = yes ] || cat "$logs/configure.log"; return 1; }
    [ $plan = yes ] || grep -qw bench_step $build/targets || models="skipped: pkg-config finds no jansson here"
    local targets=(weft_cuda gpu_ops) jobs on=(-k) # build the rest even if something fails to compile
    jobs=$(nproc)
    [ ! -e $build/build.ninja ] || on=(-k 0)
    [ $stage = bench ] || targets+=(gpu_kernels gpu_device gpu_probe gpu_sums conformance gpu_probe_simt)
    step build ${shares[1]} cmake --build "$build" -j "$jobs" --target "${targets[@]}" -- "${on[@]}"
    targets=(bench_step)
    # shellcheck disable=SC2206 # words
    [ $stage = bench ] || targets+=($model_tests)
    if [ "$models" != yes ]; then say build-models "$models"; return 0; fi
    step build-models ${shares[2]} cmake --build "$build" -j "$jobs" --target "${targets[@]}" -- "${on[@]}" || true
}

stage_test() {
    local name tool
    step probe-emulated 10 "$bin/gpu_probe_simt" # every intrinsic wrapper, compared with the emulator word by word
    step probe-gpu 20 "$bin/gpu_probe"
    python probe-equal 5 bench/gpu_words.py "$logs/probe-emulated.log" "$logs/probe-gpu.log"
    sums_probe 5
    step device 15 "$bin/gpu_device"
    step conformance 60 "$bin/conformance" cuda "$bin/libweft_cuda.so"
    step kernels 40 "$bin/gpu_kernels" # exact mode must be equal bit for bit
    for name in $model_tests; do # complete models in exact mode: golden tokens, equal bits, steps in flight
        if [ "$models" != yes ]; then say "$name" "$models"; rc=1; continue; fi
        step "$name" 12 env WEFT_TEST_DEVICE=cuda WEFT_TEST_DEVICE_LIBRARY="$bin/libweft_cuda.so" "$bin/$name"
    done
    [ "$models" != yes ] || several ranks 10 env WEFT_TEST_RANKS=2 WEFT_TEST_DEVICE=cuda \
        WEFT_TEST_DEVICE_LIBRARY="$bin/libweft_cuda.so" "$bin/test_golden" # each model over two GPUs
    step kernels-blocking 20 env CUDA_LAUNCH_BLOCKING=1 "$bin/gpu_kernels" small
    step kernels-repeat 30 bash -c "for i in 1 2 3 4 5; do '$bin/gpu_kernels' small | grep -v Running || exit 1; done \
        | sort | uniq -c | awk '\$1 % 5 { print; bad = 1 } END { exit bad }'" "$bin/gpu_kernels"
    for tool in memcheck racecheck synccheck initcheck; do
        if [ $plan = no ] && ! command -v compute-sanitizer >/dev/null; then
            say "sanitizer-$tool" "skipped: compute-sanitizer is not here"
            continue
        fi
        step "sanitizer-$tool" 30 compute-sanitizer --tool $tool --error-exitcode 7 "$bin/gpu_kernels" small
    done
}

ops="prep embed embed_bert rms_norm layer_norm gemm qkv_post attn swiglu activate gather pool sample all_reduce all_gather
    route gemm_experts combine"
# ops_conform [--fast]: runs each op in a process of its own, so that a fault of one does not affect the others. An op
# that fails runs again at once under memcheck, with launches that block. Fails if an op fails.
ops_conform() {
    local op bad=0 code
    for op in $ops; do
        timeout -k 2 8 "$bin/conformance" cuda "$bin/libweft_cuda.so" "$op" "$@" && continue
        code=$?
        bad=1
        echo "FAILED $op $*: exit status $code"
        command -v compute-sanitizer >/dev/null || continue
        CUDA_LAUNCH_BLOCKING=1 timeout -k 2 20 compute-sanitizer --tool memcheck \
            "$bin/conformance" cuda "$bin/libweft_cuda.so" "$op" few "$@"
    done
    return $bad
}
# models_conform NAME SHARE VARIABLE=VALUE...: the golden models and the tiny stories on the card.
models_conform() {
    local name=$1 share=$2 program
    shift 2
    for program in test_golden test_tinystories; do
        if [ "$models" != yes ]; then say "$program-$name" "$models"; rc=1; continue; fi
        step "$program-$name" "$share" env WEFT_TEST_DEVICE=cuda WEFT_TEST_DEVICE_LIBRARY="$bin/libweft_cuda.so" \
            "$@" "$bin/$program"
    done
}
# True if build/gpu has programs of an earlier build that run on this card.
build_runs() {
    [ $gpu = yes ] && [ -x "$bin/bench_step" ] && [ -x "$bin/test_golden" ] && timeout 20 "$bin/gpu_probe" >/dev/null 2>&1
}
clocks_log() { # until it is killed
    while sleep 1; do
        nvidia-smi --query-gpu=clocks.sm,power.draw,temperature.gpu --format=csv,noheader
    done
}
stage_first() {
    local tool clocks counters=smsp__inst_executed.sum,dram__bytes.sum,sm__inst_executed_pipe_tensor.sum
    counters=$counters,l1tex__data_bank_conflicts_pipe_lsu.sum
    if [ $plan = no ]; then
        clocks_log >"$logs/clocks.log" 2>/dev/null &
        clocks=$!
    fi
    step probe-emulated 4 "$bin/gpu_probe_simt"
    step probe-gpu 8 "$bin/gpu_probe"
    python probe-equal 3 bench/gpu_words.py "$logs/probe-emulated.log" "$logs/probe-gpu.log"
    sums_probe 4
    step conformance 34 ops_conform
    step conformance-fast 34 ops_conform --fast
    models_conform exact 12 WEFT_TEST_SERIAL=
    models_conform fast 12 WEFT_TEST_FAST=1
    models_conform serial 6 WEFT_TEST_SERIAL=1
    whole step-qwen3-8b-fast 34 qwen3-8b --no-exact
    whole step-qwen3-8b-exact 40 qwen3-8b
    whole step-qwen3-30b-a3b-fast 44 qwen3-30b-a3b --no-exact
    step ops-graphs 14 "$bin/gpu_ops" fast graphs
    # defaults that only a card can judge, measured both ways
    step gaps 4 "$bin/gpu_ops" fast gaps
    step gaps-carveouts 4 "$bin/gpu_ops" fast gaps --ways carveouts
    step load-one-reader 6 "$bin/gpu_ops" fast gaps --ways one-reader
    whole step-qwen3-8b-sectors 14 qwen3-8b --no-exact --cases 1 --ways sectors
    whole step-qwen3-8b-carveouts 14 qwen3-8b --no-exact --cases 1 --ways carveouts
    whole step-qwen3-8b-fp8 15 qwen3-8b fp8 --no-exact --cases 3
    whole step-qwen3-8b-fp8-round-apart 15 qwen3-8b fp8 --no-exact --cases 3 --ways round-apart
    if [ $plan = no ] && ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
        say torch "skipped: no torch with a GPU here"
        planned=$((planned + 13))
    else
        step torch 13 python3 bench/gpu_torch.py
    fi
    fp8_row
    # the rows are left out: times under a profiler measure the profiler
    finding counters 19 ncu bash -c "set -o pipefail; ncu --clock-control none --metrics $counters --launch-count 40 \
        '$bin/gpu_ops' fast small | grep -v '^{'" "$bin/gpu_ops"
    step kernels 25 "$bin/gpu_kernels"
    step device 10 "$bin/gpu_device"
    predictions 3
    for tool in memcheck racecheck synccheck initcheck; do
        finding "sanitizer-$tool" 6 compute-sanitizer compute-sanitizer --tool $tool --error-exitcode 7 "$bin/conformance" cuda \
            "$bin/libweft_cuda.so" gemm few
    done
    [ $plan = no ] || return 0
    kill $clocks
    wait $clocks 2>/dev/null
    cat "$logs/clocks.log" >>"$out/logs.txt"
}

# Two GPUs: first a start, because that may hang; then sums of ranks and complete steps, each also in other ways.
stage_ranks() {
    if [ "$models" != yes ]; then say golden "$models"; rc=1; else
        several start 60 env NCCL_DEBUG=INFO WEFT_TEST_RANKS=2 WEFT_TEST_DEVICE=cuda WEFT_TEST_FAST=1 \
            WEFT_TEST_DEVICE_LIBRARY="$bin/libweft_cuda.so" "$bin/test_golden"
        several golden-exact 60 env WEFT_TEST_RANKS=2 WEFT_TEST_DEVICE=cuda \
            WEFT_TEST_DEVICE_LIBRARY="$bin/libweft_cuda.so" "$bin/test_golden"
    fi
    several sums-fast 20 "$bin/gpu_sums" fast
    several sums-fast-one-communicator 20 "$bin/gpu_sums" fast --ways one-communicator
    several sums-fast-no-windows 20 "$bin/gpu_sums" fast --ways no-windows
    [ $plan = yes ] || grep -h '^sums of ranks: ' "$logs"/sums-fast*.log 2>/dev/null | sort -u | tee -a "$summary"
    several sums-exact 20 "$bin/gpu_sums" exact
    # complete steps of two ranks, with the defaults and with each of their other ways
    several_whole tp2-fast 40 --no-exact
    several_whole tp2-fast-no-windows 34 --no-exact --ways no-windows
    several_whole tp2-fast-no-meets 34 --no-exact --ways no-meets
    several_whole tp2-fast-one-communicator 34 --no-exact --ways one-communicator
}
# several_whole NAME SHARE ARGUMENT...: steps of the shape of Qwen3-8B over two GPUs, of decodes and of a prompt.
several_whole() {
    if [ $plan = no ] && [ "$gpus" -lt 2 ]; then say "$1" "skipped: fewer than two GPUs here"; return 0; fi
    whole "$1" "$2" qwen3-8b --ranks 2 --cases 5 "${@:3}"
}

# rate KEY: prints the best rate in the rows of gpu_ops so far; the large swiglu replaces a copy.
rate() {
    case $1 in
    copy) grep -h 'stands for the copy' "$rows" | grep -o '"GBps":[0-9.]*' ;;
    math) grep -h '"op":"gemm"' "$rows" | grep -o '"TFLOPs":[0-9.]*' ;;
    esac 2>/dev/null | cut -d: -f2 | sort -g | tail -1
}
# whole NAME SHARE SHAPE [ARGUMENT...]: measures complete steps of a dummy model with weights filled on the device.
whole() {
    local name=$1 share=$2 shape=$3 copy math
    shift 3
    if [ "$models" != yes ]; then say "$name" "$models"; rc=1; return 1; fi
    copy=$(rate copy) math=$(rate math)
    step "$name" "$share" "$bin/bench_step" --device cuda --library "$bin/libweft_cuda.so" \
        --shape "$shape" --copy "${copy:-0}" --math "${math:-0}" "$@"
}
stage_bench() {
    step ops-fast 75 "$bin/gpu_ops" fast
    step ops-exact 50 "$bin/gpu_ops" exact
    whole step-qwen3-8b-fast 65 qwen3-8b --no-exact
    whole step-qwen3-8b-exact 55 qwen3-8b
    whole step-xlm-r-large-fast 20 xlm-r-large --no-exact
    whole step-qwen2.5-0.5b-fast 20 qwen2.5-0.5b --no-exact
    whole step-xlm-r-large-exact 20 xlm-r-large
    whole step-qwen2.5-0.5b-exact 15 qwen2.5-0.5b
    # the same without overlap of kernels: shows its gain when launches are the largest cost
    whole step-qwen2.5-0.5b-fast-serial 15 qwen2.5-0.5b --no-exact --no-overlap-kernels
    whole step-qwen2.5-0.5b-exact-serial 15 qwen2.5-0.5b --no-overlap-kernels
    [ "$models" != yes ] || several copies 15 bash -c "bad=0 pids=; for i in 0 1; do CUDA_VISIBLE_DEVICES=\$i \
        '$bin/bench_step' --device cuda --library '$bin/libweft_cuda.so' --shape qwen2.5-0.5b & pids=\"\$pids \$!\"; done
        for p in \$pids; do wait \$p || bad=1; done; exit \$bad" "$bin/bench_step" # in parallel
    if [ $plan = no ] && ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
        say torch "skipped: no torch with a GPU here"
    else
        step torch 25 python3 bench/gpu_torch.py
    fi
    predictions 5
}

# Checks that the sum of the shares fits the limit of a stage.
plan_end() {
    [ $plan = yes ] || return 0
    echo "      stage $1: $planned s of $limit s"
    [ $planned -le "$limit" ] || { echo "gpu.sh: stage $1 does not fit" >&2; rc=1; }
}
if [ $plan = yes ] && [ $stage = first ]; then
    build_all
    stage_first
    plan_end first
    exit $rc
elif [ $plan = yes ] && [ $stage = ranks ]; then
    build_all
    stage_ranks
    plan_end ranks
    exit $rc
elif [ $plan = yes ]; then
    [ $stage = bench ] || { build_all; stage_test; plan_end test; }
    planned=0
    [ $stage = test ] || { [ $stage = all ] || build_all; stage_bench; plan_end bench; }
    exit $rc
fi
for name in nvcc cmake g++; do
    command -v $name >/dev/null || { echo "gpu.sh: $name is not here: nothing can be built" >&2; exit 1; }
done
command -v ninja make >/dev/null || { echo "gpu.sh: neither ninja nor make is here: nothing can be built" >&2; exit 1; }
rm -rf "$logs" "$out/logs.txt" "$rows" && mkdir -p "$out" "$logs" || exit 1
trap 'say "$stage" "STOPPED from outside"; exit 1' TERM INT
card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
{ date -u +%Y-%m-%dT%H:%MZ; echo "commit $commit"; git status --porcelain 2>/dev/null | head -5
  nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv,noheader 2>/dev/null || echo "no nvidia-smi here"
  nvcc --version 2>&1 | tail -1; } | tee "$summary"
[ $gpu = yes ] || echo "no GPU here: everything is built, what needs one is skipped" | tee -a "$summary"
if [[ $stage = first || $stage = ranks ]] && build_runs; then
    say build "the programs of an earlier build run on this card"
else
    build_all || exit 1
fi
[ $stage != build ] || exit $rc
[ $stage != first ] || stage_first
[ $stage != ranks ] || stage_ranks
[ $stage = bench ] || [ $stage = first ] || [ $stage = ranks ] || stage_test
[ $stage != all ] || { began=$SECONDS planned=0; } # the build counts only for `--stage bench`
[ $stage = test ] || [ $stage = first ] || [ $stage = ranks ] || stage_bench
name=$(date -u +%Y-%m-%d)-$(echo "${card:-no-gpu}" | tr 'A-Z ' 'a-z-')-$commit.txt
[ $gpu = no ] || echo "--- $summary belongs into bench/results/$name"
[ $gpu = yes ] || [ $failed = yes ] || exit 77
exit $rc
