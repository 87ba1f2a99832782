#!/usr/bin/env bash
# The mutation table, for `make soak`: plants every fault of mutants.py in a copy of the sources and
# judges it in the modes that CI runs. Exits 1 where a fault that should be caught is missed, or where
# a planted text no longer stands in the sources. The table is left in build/simt-mutants.md.
# Arguments go on to it. MUTANT_MODES (plain,race) and MUTANT_JOBS (2) can be set.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "$(uname -m)" != x86_64 ]; then
    echo "mutants: skipped, the emulator is written for x86-64"
    exit 0
fi
mkdir -p build
exec python3 tests/simt/mutants.py --scratch build/simt-mutants --table build/simt-mutants.md \
    --modes "${MUTANT_MODES:-plain,race}" --jobs "${MUTANT_JOBS:-2}" "$@"
