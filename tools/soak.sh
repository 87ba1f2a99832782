#!/usr/bin/env bash
# Hours, before a piece of work is called done: whole suites under each sanitizer, ten minutes of
# libFuzzer on each parser, differential tests against the reference libraries, more seeds.
# FUZZ_SECONDS (600) and SIM_SEEDS (20000) can be set for a shorter run.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=""
stage() {
    local name=$1
    shift
    local from=$SECONDS
    echo "== $name"
    "$@" || failed="$failed [$name]"
    echo "== $name: $((SECONDS - from)) s"
}
venv() {
    [ -x build/soak-venv/bin/python ] || {
        python3 -m venv build/soak-venv &&
            build/soak-venv/bin/pip install -q jinja2 tokenizers==0.21.4
    }
}
export LSAN_OPTIONS=suppressions=$PWD/tests/e2e/lsan.supp:print_suppressions=0
stage "make test" make test
for preset in dev tsan; do
    stage "suites: $preset" bash -c "cmake --preset $preset >/dev/null && cmake --build --preset $preset && ctest --preset $preset -j 2"
done
stage "metrics page under promtool" bash -c 'WEFT_PROMTOOL=$(tools/promtool.sh) tests/e2e/run.sh test_metrics'
stage "load, long" env WEFT_E2E_SECONDS=60 tests/e2e/run.sh test_load test_flood test_golden \
    test_generator test_together
stage "fuzzers" tools/fuzz.sh run "${FUZZ_SECONDS:-600}"
stage "reference libraries" venv
if [ -d ../shared/assets/chat/templates ]; then
    stage "templates against jinja2" build/soak-venv/bin/python -W ignore tools/template_diff.py \
        --program build/release/bin/chat_batch --templates ../shared/assets/chat/templates
else
    echo "== templates against jinja2: skipped: no assets"
fi
stage "tokenizers against the reference" tools/soak_tokenizers.sh
if [ -x build/release/bin/sim ]; then
    stage "simulation" build/release/bin/sim "${SIM_SEEDS:-20000}" 2000
fi
stage "planted faults in the scheduler" python3 tests/sim/mutate.py
stage "planted faults in http, runtime, cli and cpu kernels" tests/mutants.py
stage "planted faults in CUDA sources" tests/simt/mutants.sh
[ -z "$failed" ] && echo "soak: all stages passed" || { echo "soak: failed:$failed"; exit 1; }
