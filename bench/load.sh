#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Load test of a complete server: starts `weft serve` with the demo models, or with the given folder, and
# runs `weft bench` with closed loops of growing size, one loop over all APIs, and the recorded traces
# if WEFT_ASSETS contains them. WEFT_BUILD names the build folder (build/release), SECONDS_EACH the length
# of each part (5). Uses loopback only and ends with the server's exit status.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${WEFT_BUILD:-build/release}/bin
each=${SECONDS_EACH:-5}
traces=${WEFT_ASSETS:-none}/trace
chat=${1:-models/weft-demo-chat}
log=$(mktemp)
trap 'kill "$server" 2>/dev/null || true; rm -f "$log"' EXIT

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$bin/weft" serve --port "$port" --api-key bench --max-queued-requests 1024 "chat=$chat" \
    embed=models/weft-demo-embed rerank=models/weft-demo-rerank >"$log" 2>&1 &
server=$!
until curl -sf "http://127.0.0.1:$port/ready" >/dev/null; do
    kill -0 "$server" 2>/dev/null || { cat "$log"; exit 1; }
    sleep 0.1
done
part() {
    echo "== $*"
    "$bin/weft" bench "http://127.0.0.1:$port" --api-key bench --duration "$each" "$@"
}
for clients in 1 8 32 256; do
    part --send chat:chat --concurrency "$clients" --output-len 64
done
part --send embeddings:embed --concurrency 8
part --send rerank:rerank --concurrency 8
part --send chat:chat --send messages:chat --send embeddings:embed --send rerank:rerank \
    --concurrency 32 --check
if [ -d "$traces" ]; then
    part --send chat:chat --trace "$traces/AzureLLMInferenceTrace_conv.csv" --rate-scale 10 \
        --concurrency 512 --input-max 256 --output-max 64
    part --send chat:chat --trace "$traces/mooncake_conversation_trace.jsonl" --rate-scale 10 \
        --concurrency 512 --input-max 256 --output-max 64
fi
kill -TERM "$server"
wait "$server"
