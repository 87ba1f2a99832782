# Stages of a script, sourced by .ci/run, tools/ci_stages.sh and tools/soak.sh.
#
#   stage NAME COMMAND...   runs it and says how long it took; a failure is kept, the rest goes on
#   stages_end              0 where none failed, else names those that did
#
# A script that runs stages in part defines its own stage_wanted and stage_ended. STAGE_SECONDS: how
# long a stage may take; the command must then be a program, not a function.
stages_failed=""

stage_wanted() { # name
    true
}

stage_ended() { # name, exit status, seconds
    true
}

stage() {
    local name=$1 start=$SECONDS code=0 word=ok
    shift
    stage_wanted "$name" || return 0
    echo "== $name"
    if [ -n "${STAGE_SECONDS:-}" ]; then
        timeout --kill-after=30 "$STAGE_SECONDS" "$@" || code=$?
    else
        "$@" || code=$?
    fi
    if [ "$code" -ne 0 ]; then
        word="FAILED ($code)"
        [ "$code" -ne 124 ] || word="FAILED: not done within ${STAGE_SECONDS:-its} seconds"
        stages_failed="$stages_failed [$name]"
    fi
    echo "== $name: $word, $((SECONDS - start)) s"
    stage_ended "$name" "$code" "$((SECONDS - start))"
}

stages_end() {
    [ -n "$stages_failed" ] || return 0
    echo "failed:$stages_failed"
    return 1
}
