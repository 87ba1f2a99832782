#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `make test`: the release build, the tests with the CTest label `fast`, and the end-to-end tests. Prints
# skipped tests with their reasons, then one line of counts. Each program counts as one test of CTest,
# each end-to-end case as one test. More than five skipped tests fail the run; WEFT_SKIPS_MAX allows more
# (no network, no python3).
set -uo pipefail
cd "$(dirname "$0")/.."
tests/e2e/run.sh --prepare & # pip, while the compilers run
tools/configure.sh -DWEFT_TESTS=ON >/dev/null && tools/build.sh fast_tests e2e_programs || exit 1
wait

log=build/release/test.log
# four at a time: some tests wait for time-outs rather than compute
ctest --preset release --output-on-failure -j 4 -L fast 2>&1 | tee "$log"
passed=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.* +Passed ' "$log")
skipped=$(grep -cE '\*\*\*Skipped' "$log")
failed=$(grep -cE '\*\*\*(Failed|Timeout|Not Run|Exception)' "$log")

e2e_log=build/release/e2e.log
if [ -x tests/e2e/run.sh ]; then
    WEFT_BIN=$PWD/build/release/bin/weft tests/e2e/run.sh 2>&1 | tee "$e2e_log"
    e2e_code=${PIPESTATUS[0]}
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$e2e_log" | tail -n 1)
    if [ -n "$line" ]; then
        passed=$((passed + $(sed -E 's/^([0-9]+) passed.*/\1/' <<<"$line")))
        failed=$((failed + $(sed -E 's/.* ([0-9]+) failed.*/\1/' <<<"$line")))
        more=$(sed -nE 's/.* ([0-9]+) skipped.*/\1/p' <<<"$line")
        skipped=$((skipped + ${more:-0}))
    fi
    if [ "$e2e_code" -ne 0 ] && ! grep -qE ' [1-9][0-9]* failed' <<<"$line"; then
        failed=$((failed + 1))
    fi
fi
reason_of() { # prints the reason that a skipped test of CTest gave
    awk -v name="$1" '$0 ~ "Testing: " name "$" { on = 1 } on && /^skipped/ { print; exit }' \
        build/release/Testing/Temporary/LastTest.log
}
sed -nE 's/.*Test +#[0-9]+: ([^ ]+) .*\*\*\*Skipped.*/\1/p' "$log" | while read -r name; do
    echo "skipped: $name: $(reason_of "$name" | sed 's/^skipped: //')"
done
grep -E '^skipped: ' "$e2e_log" 2>/dev/null
echo "$passed passed, $failed failed, $skipped skipped" | tee build/release/counts.txt
if [ "$skipped" -gt "${WEFT_SKIPS_MAX:-5}" ]; then
    echo "failed: $skipped tests are skipped, at most ${WEFT_SKIPS_MAX:-5} may be (WEFT_SKIPS_MAX)" >&2
    exit 1
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
