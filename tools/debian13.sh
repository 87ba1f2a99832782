#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs README's commands in a minimal root file system of Debian 13, created by debootstrap with the mirror,
# proxies and pip settings of this machine. If it cannot be created (no root rights, debootstrap, mounts or
# Debian packages), prints the reason and exits 0. usage: tools/debian13.sh [serve | test] [SUITE]
#
#   serve   (default) make serve OFFLINE=1, then one request to each of chat, messages, embeddings, rerank
#   test    also make test
#   SUITE   Debian suite; default: trixie
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-serve}
. tools/debian_root.sh

tree_copy() { # tracked files and new files that git does not ignore
    git clone -q --depth 1 "file://$PWD" "$root/weft"
    git ls-files -z -co --exclude-standard |
        while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
        tar --null -T - -cf - | tar -C "$root/weft" -xf -
}

serve='
cd /weft
setsid make serve OFFLINE=1 PORT=0 >/tmp/out 2>&1 &
server=$!
until grep -q "^curl" /tmp/out; do
    if ! kill -0 $server 2>/dev/null; then
        cat /tmp/out
        exit 1
    fi
    sleep 0.2
done
url=$(sed -nE "s|.* serves at (http://[^ ]*)/$|\1|p" /tmp/out)
key=$(sed -nE "s/^API key: //p" /tmp/out)
'"$asks"'
kill -TERM -- -$server
wait $server || true
'

case $what in serve | test) ;; *) echo "usage: tools/debian13.sh [serve | test] [SUITE]" >&2; exit 2 ;; esac
root_begin "${2:-trixie}"
root_make
tree_copy
step "a root of Debian $suite"
inside bash -euc 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y git make' >"$folder/log" 2>&1 || {
    tail -n 20 "$folder/log"
    exit 1
}
step "apt-get install git make"
inside bash -euc "$serve"
step "make serve OFFLINE=1"
if [ "$what" = test ]; then
    inside bash -c 'cd /weft && make test'
    step "make test"
fi
