#!/usr/bin/env bash
# Differential test of the tokenizers against the reference library: every folder of the assets, and
# 48 small tokenizers of every kind that tests/runtime/tokenizer_kinds.py writes.
set -euo pipefail
cd "$(dirname "$0")/.."
python=build/soak-venv/bin/python
probe=build/release/bin/tokenizer_probe
kinds=build/soak-kinds
text=README.md
[ -f ../shared/assets/text/tinyshakespeare.txt ] && text=../shared/assets/text/tinyshakespeare.txt
"$python" tests/runtime/tokenizer_kinds.py "$text" "$kinds"
folders="$kinds/*"
[ -d ../shared/assets/tokenizer/hf ] &&
    folders="$folders ../shared/assets/decoder/tinystories-656k ../shared/assets/tokenizer/hf/phi-2 \
        ../shared/assets/tokenizer/hf/roberta-base ../shared/assets/tokenizer/hf/t5-small"
failed=0
for folder in $folders; do
    "$python" tools/tokenizer_diff.py "$probe" "$folder" || failed=1
done
exit $failed
