#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Differential test of the tokenizers against the reference library: the patterns of published
# tokenizers, every code point through every normalizer and pre-tokenizer, every folder of
# WEFT_ASSETS, vocab.json with merges.txt, SentencePiece models, rank files, tekken.json, and 48 small tokenizers of every kind that tests/runtime/tokenizer_kinds.py writes.
set -euo pipefail
cd "$(dirname "$0")/.."
python=build/soak-venv/bin/python
probe=build/release/bin/tokenizer_probe
"$python" tools/pattern_diff.py "$probe" --texts 2000
"$python" tools/unicode_diff.py "$probe"
kinds=build/soak-kinds
text=README.md
assets=${WEFT_ASSETS:-none}
[ ! -f "$assets/text/tinyshakespeare.txt" ] || text=$assets/text/tinyshakespeare.txt
"$python" tests/runtime/tokenizer_kinds.py "$text" "$kinds"
folders="$kinds/*"
[ ! -d "$assets/tokenizer/hf" ] || # these take longest
    folders="$assets/tokenizer/hf/t5-small $assets/tokenizer/hf/roberta-base \
        $assets/tokenizer/hf/phi-2 $assets/decoder/tinystories-656k $folders"
# shellcheck disable=SC2086
printf '%s\n' $folders | xargs -P "$(nproc)" -n 1 "$python" tools/tokenizer_diff.py "$probe"
if [ -d "$assets/tokenizer/hf" ]; then # transformers needs another version of tokenizers
    venv=build/soak-transformers-venv
    [ -x $venv/bin/python ] || { python3 -m venv $venv && $venv/bin/pip install -q transformers==5.24.0; }
    $venv/bin/python tools/tokenizer_files_diff.py "$probe" \
        "$assets"/tokenizer/hf/{roberta-base,phi-2}/tokenizer.json
    $venv/bin/pip install -q sentencepiece==0.2.3 tiktoken==0.14.0 mistral-common==1.13.1 protobuf==7.36.2
    data=$($venv/bin/python -c 'import mistral_common; print(mistral_common.__path__[0])')/data
    $venv/bin/python tools/tokenizer_models_diff.py "$probe" "$data"/tokenizer.model.v1 \
        "$data"/mistral_instruct_tokenizer_*.model.v[37] "$data"/tekken_240911.json \
        "$assets/tokenizer/cl100k_base.tiktoken"
    $venv/bin/python tools/tokenizer_models_diff.py "$probe" --corpus "$text"
fi
