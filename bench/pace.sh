#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gaps between tokens and tokens per second, with and without chunks sized according to the measured time
# of steps (decision 0013), in interleaved runs on a model with random weights.
#
#   bench/pace.sh [pairs [seconds [clients [tokens of a prompt [tokens of an answer]]]]]
#
# Defaults: 3 pairs, 30 s, 16 clients, prompts of 90 tokens, answers of 128. WEFT_BUILD: build folder; LAYERS:
# layers of the model, whose other sizes are Qwen2.5-0.5B's (24); DTYPE: type of the weights (int8).
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${WEFT_BUILD:-build/release}/bin
pairs=${1:-3} seconds=${2:-30} clients=${3:-16} words=${4:-90} answer=${5:-128}
folder=$(mktemp -d)
server=
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 - "$folder" "${LAYERS:-24}" <<'P'
import json, sys
shape = json.load(open("models/weft-demo-chat/config.json"))
shape.update(hidden_size=896, intermediate_size=4864, num_hidden_layers=int(sys.argv[2]),
             num_attention_heads=14, num_key_value_heads=2)
json.dump(shape, open(sys.argv[1] + "/config.json", "w"))
# Each token is a word, so that each is streamed as a separate chunk.
words = {f"w{i}": i for i in range(shape["vocab_size"])}
json.dump({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"},
           "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}},
          open(sys.argv[1] + "/tokenizer.json", "w"))
P

run() { # stretch
    local port
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    "$bin/weft" serve --port "$port" --api-key bench --step-stretch "$1" \
        "chat=$folder,load-format=dummy,enable-prefix-caching=off,dtype=${DTYPE:-int8}" >"$folder/log" 2>&1 &
    server=$!
    until curl -sf "http://127.0.0.1:$port/ready" >/dev/null; do
        kill -0 "$server" 2>/dev/null || { cat "$folder/log"; exit 1; }
        sleep 0.2
    done
    "$bin/weft" bench "http://127.0.0.1:$port" --api-key bench --model chat \
        --duration "$seconds" --concurrency "$clients" --input-len "$words" \
        --output-len "$answer" --json >"$folder/out"
    kill -TERM "$server"
    wait "$server"
    python3 - "$folder/out" "$1" <<'P'
import json, sys
row = json.load(open(sys.argv[1]))
half, most = row["median_itl_ms"], row["p99_itl_ms"]
print(f"stretch {sys.argv[2]:>3}: between tokens p50 {half:.0f} ms, p99 {most:.0f} ms "
      f"({most / half:.1f} times); {row['output_throughput']:.1f} tokens/s; first token p50 "
      f"{row['median_ttft_ms']:.0f} ms", flush=True)
P
}
for _ in $(seq "$pairs"); do
    run 0
    run 2.5
done
