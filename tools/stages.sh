# SPDX-License-Identifier: Apache-2.0
# Functions for stages of a script, sourced by .ci/run, tools/ci_stages.sh and tools/soak.sh.
#
#   stage NAME COMMAND...   runs the command and prints its time; notes a failure and returns 0
#   stages_end              returns 0 if no stage failed; otherwise prints the failed ones, each with the
#                           relevant lines of its output (the full output is in build/stages/)
#
# A script that runs only some stages defines its own stage_wanted and stage_ended. STAGE_SECONDS: limit for
# a stage; the command must then be a program, not a function.
stages_failed=()
mkdir -p build/stages

stage_log() { # name
    echo "build/stages/$(tr -c 'a-zA-Z0-9\n' '-' <<<"$1").log"
}

stage_wanted() { # name
    true
}

stage_ended() { # name, exit status, seconds
    true
}

stage() {
    local name=$1 start=$SECONDS code=0 word=ok log out tee
    shift
    stage_wanted "$name" || return 0
    echo "== $name"
    log=$(stage_log "$name")
    exec {out}> >(exec tee "$log")
    tee=$!
    if [ -n "${STAGE_SECONDS:-}" ]; then
        timeout --kill-after=30 "$STAGE_SECONDS" "$@" >&"$out" 2>&1 {out}>&- || code=$?
    else
        "$@" >&"$out" 2>&1 {out}>&- || code=$?
    fi
    exec {out}>&-
    # waits for the rest of the output, but not forever: a process that outlives its stage keeps the pipe open
    timeout 10 tail -s 0.1 --pid="$tee" -f /dev/null
    if [ "$code" -ne 0 ]; then
        word="FAILED ($code)"
        [ "$code" -ne 124 ] || word="FAILED: not done within ${STAGE_SECONDS:-its} seconds"
        stages_failed+=("$name")
    fi
    echo "== $name: $word, $((SECONDS - start)) s"
    stage_ended "$name" "$code" "$((SECONDS - start))"
}

stages_end() {
    [ "${#stages_failed[@]}" -gt 0 ] || return 0
    local name
    for name in "${stages_failed[@]}"; do
        echo "-- $name: of what it said:"
        grep -aE -A 12 'FAILED|\*\*\*(Failed|Timeout|Not Run|Exception)|[Ee]rror:|^failed' "$(stage_log "$name")" |
            tail -n 100
    done
    echo "failed:$(printf ' [%s]' "${stages_failed[@]}")"
    return 1
}
