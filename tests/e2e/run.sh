#!/usr/bin/env bash
# End-to-end tests: the official client libraries against `weft serve`. WEFT_BIN names the program
# (default: build/release/bin/weft). Makes a Python environment in the build folder. The last line
# is 'N passed, N failed, N skipped'. Arguments: names of test files or functions to run.
set -uo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
export WEFT_BIN=${WEFT_BIN:-$root/build/release/bin/weft}
if [ ! -x "$WEFT_BIN" ]; then
    echo "$WEFT_BIN is missing: build it first, or set WEFT_BIN"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
venv=${WEFT_E2E_VENV:-$(dirname "$(dirname "$WEFT_BIN")")/e2e-venv}
stamp=$venv/.$(sha256sum requirements.txt | cut -c1-16)
if [ ! -e "$stamp" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv" &&
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt &&
        touch "$stamp"
fi
python=python3
if [ -e "$stamp" ]; then
    python=$venv/bin/python
else
    echo "the client libraries could not be installed: tests that need them are skipped"
fi
exec "$python" -B run.py "$@"
