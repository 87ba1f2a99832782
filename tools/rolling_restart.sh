#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Restarts three replicas one after the other behind HAProxy, under load, with the proxy's retries off, and counts
# the lost requests: each must be answered with 200. Round after round until REQUESTS (10,000) are sent.
# usage: tools/rolling_restart.sh [WEFT]   (default: build/release/bin/weft)
set -euo pipefail
cd "$(dirname "$0")/.."
weft=$(realpath "${1:-build/release/bin/weft}")
requests=${REQUESTS:-10000}
command -v haproxy >/dev/null || { echo "skipped: haproxy is missing (apt-get install haproxy)"; exit 0; }
exec python3 -B - "$weft" "$requests" <<'END'
import http.client, json, os, pathlib, signal, socket, subprocess, sys, tempfile, threading, time

weft, wanted = sys.argv[1], int(sys.argv[2])
folder = pathlib.Path(tempfile.mkdtemp(prefix="rolling"))
CLIENTS, DELAY = 8, 4
body = json.dumps({"model": "weft-demo-chat", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16,
                   "temperature": 0}).encode()
stream = json.dumps({**json.loads(body), "stream": True}).encode()
head = {"authorization": "Bearer k", "content-type": "application/json"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


ports = [free_port() for _ in range(3)]
front = free_port()
servers = [None, None, None]


def start(i):
    log = open(folder / f"{i}.log", "ab")
    servers[i] = subprocess.Popen([weft, "serve", "models/weft-demo-chat", "--device", "cpu", "--threads", "1", "--port", str(ports[i]),
                                   "--api-key", "k", "--shutdown-delay", str(DELAY), "--log-level", "warning"], stdout=log, stderr=log)


def wait_ready(port):
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            c.request("GET", "/ready")
            if c.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"port {port} is not ready after 120 s")


(folder / "haproxy.cfg").write_text(f"""
defaults
    mode http
    timeout connect 5s
    timeout client 120s
    timeout server 120s
    retries 0
    option redispatch 0
frontend f
    bind 127.0.0.1:{front}
    default_backend b
backend b
    balance roundrobin
    option httpchk GET /ready
    default-server check inter 500ms fall 2 rise 1
""".replace("    option redispatch 0\n", "    no option redispatch\n")
    + "".join(f"    server s{i} 127.0.0.1:{port}\n" for i, port in enumerate(ports)))

lock, sent, lost, over = threading.Lock(), 0, [], threading.Event()


def client(number):
    global sent
    connection = None
    while not over.is_set():
        with lock:
            if sent >= wanted:
                return
            sent += 1
            n = sent
        try:
            # Half of the clients open a connection for each request, half keep theirs; every other answer is a stream.
            if connection is None or number % 2:
                connection = http.client.HTTPConnection("127.0.0.1", front, timeout=120)
            connection.request("POST", "/v1/chat/completions", stream if n % 2 else body, head)
            answer = connection.getresponse()
            text = answer.read()
            fine = answer.status == 200 and (text.rstrip().endswith(b"data: [DONE]") if n % 2 else b'"finish_reason":"' in text)
            if not fine:
                raise OSError(f"{answer.status} {text[-200:]}")
            if answer.will_close:
                connection = None
        except (OSError, http.client.HTTPException) as error:
            connection = None
            with lock:
                lost.append(f"request {n}: {type(error).__name__} {error}")


proxy, restarts, codes = None, 0, []
try:
    for i in range(3):
        start(i)
    for port in ports:
        wait_ready(port)
    proxy = subprocess.Popen(["haproxy", "-db", "-q", "-f", folder / "haproxy.cfg"])
    wait_ready(front)
    time.sleep(2)
    began = time.monotonic()
    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        for i in range(3):
            servers[i].send_signal(signal.SIGTERM)
            codes.append(servers[i].wait(120))
            start(i)
            wait_ready(ports[i])
            time.sleep(1.5)  # the proxy sees it
            restarts += 1
    seconds = time.monotonic() - began
finally:
    over.set()
    for process in [*servers, proxy]:
        if process:
            process.kill()
            process.wait()
print("\n".join(lost[:20]))
print(f"{sent} requests over {seconds:.0f} s, {restarts} restarts with exit codes {sorted(set(codes))}: {len(lost)} lost")
sys.exit(1 if lost or set(codes) != {0} or restarts < 3 else 0)
END
