#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# End-to-end tests: the official client libraries with `weft serve`. WEFT_BIN names the program
# (default: build/release/bin/weft). Makes its Python environments in the build folder: one with the newest major
# version of each client, one with the major version before, and for --frameworks one with agent frameworks.
# WEFT_E2E_VENV, WEFT_E2E_VENV_OLDER and WEFT_E2E_VENV_FRAMEWORKS name others; WEFT_E2E_VENV_OLDER=none leaves the
# older clients out. The last line is 'N passed, N failed, N skipped'.
#
#   run.sh [names of test files or functions]     the fast level, a part of `make test`
#   run.sh --full [names]                         the full level: without names only the tests that are longer there or
#                                                 run only there, then the client files with the older clients (with
#                                                 names if WEFT_E2E_VENV_OLDER is set); a stage of .ci/run
#   run.sh --soak [names]                         the level of `make soak`, in the same way, without the older clients
#   run.sh --prepare                              makes the environment of the fast level, for a later run
#   run.sh --frameworks [names]                   tests/e2e/frameworks
#   run.sh --browser [names]                      tests/e2e/browser; needs the Debian package chromium (tools/deps.sh browser)
set -uo pipefail
for name in WEFT_BIN WEFT_E2E_VENV WEFT_E2E_VENV_OLDER WEFT_E2E_VENV_FRAMEWORKS WEFT_E2E_VENV_BROWSER; do
    [ -z "${!name:-}" ] || [ "${!name}" = none ] || export "$name=$(realpath -ms "${!name}")" # of where the caller is
done
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
export WEFT_BIN=${WEFT_BIN:-$root/build/release/bin/weft}
if [ ! -x "$WEFT_BIN" ] && [ "${1:-}" != --prepare ]; then
    echo "$WEFT_BIN is missing: build it first, or set WEFT_BIN"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
build=$(dirname "$(dirname "$WEFT_BIN")")

made() { # folder, requirements: whether the environment is there with just these
    local stamp
    stamp=$1/.$(sha256sum "$2" | cut -c1-16)
    [ ! -e "$stamp" ] || return 0
    mkdir -p "$(dirname "$1")"
    ( # one run makes it while the others wait
        flock 9
        [ ! -e "$stamp" ] || exit 0
        rm -rf "$1"
        python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check -r "$2" &&
            touch "$stamp"
    ) 9>"$1.lock"
}

if [ "${1:-}" = --frameworks ]; then
    venv=${WEFT_E2E_VENV_FRAMEWORKS:-$build/e2e-venv-frameworks}
    made "$venv" requirements-frameworks.txt || exit 1
    exec "$venv/bin/python" -B run.py "$@"
fi
if [ "${1:-}" = --browser ]; then
    venv=${WEFT_E2E_VENV_BROWSER:-$build/e2e-venv-browser}
    made "$venv" requirements-browser.txt || exit 1
    exec "$venv/bin/python" -B run.py "$@"
fi

python=python3
venv=${WEFT_E2E_VENV:-$build/e2e-venv}
if made "$venv" requirements.txt; then
    python=$venv/bin/python
else
    echo "the client libraries could not be installed: tests that need them are skipped"
fi
[ "${1:-}" != --prepare ] || exit 0
older=${WEFT_E2E_VENV_OLDER:-none}
[ "$*" != --full ] || older=${WEFT_E2E_VENV_OLDER:-$build/e2e-venv-older}
if [ "$older" != none ]; then
    if made "$older" requirements-older.txt; then
        export WEFT_OLDER_PYTHON=$older/bin/python
    else
        echo "the older client libraries could not be installed: nothing runs with them"
    fi
fi
exec "$python" -B run.py "$@"
