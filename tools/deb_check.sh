#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the package that tools/deb.sh made into a minimal root of Debian 12, serves the demo models with its
# configuration as its user, removes and purges it, and compares the files before and after. Runs lintian on the
# package if it is installed. If no root can be made here, prints the reason and exits 0.
# usage: tools/deb_check.sh [PACKAGE]   (default: build/deb/weft_*.deb)
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/debian_root.sh
package=${1:-$(compgen -G 'build/deb/weft_*.deb' || true)}
[ -e "$package" ] || { echo "deb_check.sh: there is no package: tools/deb.sh makes it" >&2; exit 2; }
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error "$package"
    echo "lintian: no error"
else
    echo "lintian is missing: not checked"
fi

root_begin bookworm
root_make
cp "$package" "$root/tmp/weft.deb"
step "a root of Debian 12"
quiet() { # commands for bash in the root
    inside bash -euc "$1" >"$folder/log" 2>&1 || {
        tail -n 30 "$folder/log"
        exit 1
    }
}
files() {
    find "$root" -xdev \( -path "$root/tmp" -o -path "$root/run" -o -path "$root/var/lib/apt" -o -path "$root/var/cache" -o -path "$root/var/log" \
        -o -path "$root/var/lib/dpkg" -o -path "$root/proc" -o -path "$root/dev" \) -prune -o -printf '%P\n' | sort
}
# The libraries that the package depends on come first: what the package itself adds is then known. One of them
# brings systemd-sysusers, so the user is created as on a complete system.
quiet 'apt-get update -qq
export DEBIAN_FRONTEND=noninteractive
libraries=$(dpkg-deb -f /tmp/weft.deb Depends | sed "s/([^)]*)//g; s/,//g")
apt-get install -y --no-install-recommends curl ca-certificates systemd $libraries'
files >"$folder/before"
quiet 'DEBIAN_FRONTEND=noninteractive apt-get install -y /tmp/weft.deb'
step "the package is installed"

inside bash -euc '
weft --version
getent passwd weft
[ "$(stat -c "%U %a" /etc/weft/api-keys)" = "weft 600" ]
systemd-analyze verify --man=no /lib/systemd/system/weft.service
install -d -o weft -g weft /var/lib/weft
(cd /var/lib/weft && exec setpriv --reuid=weft --regid=weft --init-groups --no-new-privs --inh-caps=-all \
    weft serve --config /etc/weft/config.json) >/tmp/out 2>&1 &
server=$!
until grep -q "^curl" /tmp/out; do
    if ! kill -0 $server 2>/dev/null; then
        cat /tmp/out
        exit 1
    fi
    sleep 0.2
done
url=http://127.0.0.1:8000
key=$(grep -v "^#" /etc/weft/api-keys)
'"$asks"'
kill $server
wait $server
echo "stopped with exit code 0"
'
step "it serves"

quiet 'apt-get remove -y weft && [ ! -e /usr/bin/weft ] && [ -e /etc/weft/config.json ] && [ -e /etc/weft/api-keys ]'
quiet 'apt-get purge -y weft && [ ! -e /etc/weft ] && [ ! -e /var/lib/weft ]'
files >"$folder/after"
# The user stays, as Debian's policy has it, and tools keep copies of its files.
left=$(diff "$folder/before" "$folder/after" | grep -vE '^[0-9,acd]+$|^[<>] etc/(passwd|group|shadow|gshadow)-?$|^[<>] etc/\.pwd\.lock$' || true)
[ -z "$left" ] || { echo "after purge these files differ:"; echo "$left"; exit 1; }
step "removed and purged, no file is left"
