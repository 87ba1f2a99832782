# SPDX-License-Identifier: Apache-2.0
# Stages of a script, sourced by .ci/run, tools/ci_stages.sh and tools/soak.sh.
#
#   stage NAME COMMAND...   runs it and says how long it took; a failure is kept, the rest goes on
#   stages_end              0 where none failed, else names those that did, each with the lines of its
#                           output that tell what failed (the whole is under build/stages/)
#
# A script that runs stages in part defines its own stage_wanted and stage_ended. STAGE_SECONDS: how
# long a stage may take; the command must then be a program, not a function.
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
    # the rest of the output; a process that outlives its stage may hold the pipe for ever
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
