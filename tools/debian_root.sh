# SPDX-License-Identifier: Apache-2.0
# Functions for scripts that run commands in a minimal root file system of Debian, created by debootstrap with
# the mirror, proxies and pip settings of this machine; sourced by debian13.sh and deb_check.sh.
#
#   root_begin SUITE     sets $folder and $root, and removes the root when the script ends; if no root can be
#                        made here (no root rights, debootstrap, mounts), prints the reason and exits 0
#   root_make            creates it; the next time from the output of debootstrap that it kept
#   inside COMMAND...    runs a command in it, with its own /dev, /proc and process tree
#   step NAME            prints the name of a completed step and its time
#   $asks                shell code: one request to each of chat, messages, embeddings and rerank of the server at
#                        $url with the key $key; if an answer is wrong, prints it and /tmp/out, and exits 1

skip() {
    echo "skipped: $*"
    exit 0
}

# Runs a command in the root, with its own /dev, /proc and process tree. Of the environment only the
# variables for network access are kept.
inside() {
    local kept
    mapfile -t kept < <(env | grep -iE '^([a-z]+_proxy|pip_[a-z_]+|ssl_cert_(file|dir))=' || true)
    # shellcheck disable=SC2016
    unshare --mount --pid --fork bash -euc '
        root=$1
        shift
        mount --make-rprivate /
        mount -t proc proc "$root/proc"
        mount -t tmpfs -o mode=755 tmpfs "$root/dev"
        mkdir "$root/dev/pts" "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
        for name in null zero full random urandom tty; do
            touch "$root/dev/$name"
            mount --bind "/dev/$name" "$root/dev/$name"
        done
        ln -s pts/ptmx "$root/dev/ptmx"
        ln -s /proc/self/fd "$root/dev/fd"
        ln -s /proc/self/fd/0 "$root/dev/stdin"
        ln -s /proc/self/fd/1 "$root/dev/stdout"
        ln -s /proc/self/fd/2 "$root/dev/stderr"
        exec chroot "$root" "$@"' - "$root" env -i "${kept[@]}" HOME=/root LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

root_make() {
    local mirror
    if [ -e "$base" ]; then
        mkdir -p "$root"
        tar -C "$root" -xf "$base"
    else
        # the label is missing where apt's lists were never fetched
        mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
            sed -nE 's/^(Debian|\$\(LABEL\)) //p' | head -n 1)
        [ -n "$mirror" ] || skip "apt names no mirror of Debian"
        debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$folder/log" 2>&1 || {
            tail -n 3 "$folder/log"
            skip "debootstrap failed"
        }
        tar -C "$root" -cf "$base.part" .
        mv "$base.part" "$base"
    fi
    echo "force-unsafe-io" >"$root/etc/dpkg/dpkg.cfg.d/speed" # same setting as in container images
    apt-config dump | grep -iE '^Acquire::[a-z:.-]*proxy' >"$root/etc/apt/apt.conf.d/90machine" || true
    cp -rL /etc/apt/auth.conf.d "$root/etc/apt/" 2>/dev/null || true
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    cp -L /etc/pip.conf "$root/etc/" 2>/dev/null || true
    if [ -e /etc/ssl/certs/ca-certificates.crt ]; then # includes certificate authorities that only this machine has
        mkdir -p "$root/usr/local/share/ca-certificates" "$root/etc/ssl/certs"
        cp -rL /usr/local/share/ca-certificates "$root/usr/local/share/" 2>/dev/null || true
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    fi
}

root_begin() { # suite
    suite=$1
    folder=$PWD/build/debian13
    root=$folder/$suite
    base=$folder/$suite.tar # output of debootstrap, for the next run
    [ "$(id -u)" -eq 0 ] || skip "only root can make a root"
    for program in debootstrap unshare chroot apt-get; do
        command -v $program >/dev/null || skip "$program is missing (tools/deps.sh roots)"
    done
    unshare --mount --pid --fork bash -c 'mount --make-rprivate / && mount -t tmpfs tmpfs /mnt' 2>/dev/null ||
        skip "this machine allows no mounts"
    mkdir -p "$folder"
    rm -f "$folder/null"
    mknod "$folder/null" c 1 3 2>/dev/null || skip "this machine allows no device files"
    rm -rf --one-file-system "$root"
    trap 'rm -rf --one-file-system "$root"' EXIT
    since=$SECONDS
}

step() {
    echo "$1: $((SECONDS - since)) s"
    since=$SECONDS
}

# shellcheck disable=SC2034
asks='
ask() { # path, body, text that the answer must contain
    if ! answer=$(curl -sS --fail-with-body "$url$1" -H "Authorization: Bearer $key" -H "Content-Type: application/json" -d "$2") ||
        [[ $answer != *"$3"* ]]; then
        echo "$1: $answer"
        cat /tmp/out
        exit 1
    fi
    echo "$1: answered"
}
chat="\"model\":\"weft-demo-chat\",\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]"
ask /v1/chat/completions "{$chat}" "\"completion_tokens\":"
ask /v1/messages "{$chat}" "\"output_tokens\":"
ask /v1/embeddings "{\"model\":\"weft-demo-embed\",\"input\":\"Hello\"}" "\"embedding\":["
ask /v1/rerank "{\"model\":\"weft-demo-rerank\",\"query\":\"a\",\"documents\":[\"a\",\"b\"]}" "\"relevance_score\":"
'
