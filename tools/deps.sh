#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the missing packages that are needed to build and test weft. If none is missing, prints nothing
# and uses no network. If the distribution has no libh2o (Debian 13), Debian 12's is unpacked into
# build/deps without root rights; if that fails as well, weft is built without its server. On systems
# without dpkg the script only names the packages, and the build reports missing ones.
# Groups: build (default), test, fuzz, cross (aarch64), browser, roots (debian13.sh), deb (deb.sh).
# usage: tools/deps.sh [build] [test] [fuzz] [cross] [browser] [roots] [deb]
set -euo pipefail
cd "$(dirname "$0")/.."

# a|b: alternative names of one package. clang-runtime: the sanitizer library for the installed clang version.
build="gcc g++ cmake ninja-build make pkg-config|pkgconf python3 libh2o-evloop-dev libssl-dev libjansson-dev
  libpcre2-dev libutf8proc-dev zlib1g-dev libedit-dev libcurl4-openssl-dev libzmq3-dev python3-venv curl"
test="libcmocka-dev git"
fuzz="clang clang-runtime"
cross="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
browser="chromium"
roots="debootstrap"
deb="dpkg-dev file"
h2o_packages="libh2o-evloop-dev libh2o-evloop0.13 libh2o-dev-common libwslay1" # of Debian 12

[ $# -gt 0 ] || set -- build
wanted=""
for group in "$@"; do
    case $group in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    fuzz) wanted="$wanted $fuzz" ;;
    cross) wanted="$wanted $cross" ;;
    browser) wanted="$wanted $browser" ;;
    roots) wanted="$wanted $roots" ;;
    deb) wanted="$wanted $deb" ;;
    *) echo "deps.sh: there is no group '$group' (build, test, fuzz, cross, browser, roots, deb)" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "deps.sh: not a Debian system, nothing is installed; what corresponds to these must be there:" $wanted >&2
    exit 0
fi

names_of() { # entry of the lists above: prints the names of its package
    local version
    if [ "$1" != clang-runtime ]; then
        echo "${1//|/ }"
        return
    fi
    version=$({ dpkg-query -W -f='${Depends}\n' clang || apt-cache depends clang; } 2>/dev/null |
        sed -nE 's/.*clang-([0-9]+).*/\1/p' | head -n 1)
    [ -z "$version" ] || echo "libclang-rt-$version-dev libclang-common-$version-dev"
}

offered() { # [package]: succeeds if apt can install it
    [ $# -gt 0 ] && apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

missing_find() { # entries: prints the package of each missing one, with the name that apt offers
    local word name names known
    # shellcheck disable=SC2046
    known=$(dpkg-query -W -f=' ${Package}=${db:Status-Status} ' \
        $(for word in "$@"; do names_of "$word"; done) 2>/dev/null || true)
    for word in "$@"; do
        names=$(names_of "$word")
        for name in $names; do
            [[ $known != *" $name=installed "* ]] || continue 2
        done
        for name in $names ${names%% *}; do
            ! offered "$name" || break
        done
        [ -z "$names" ] || echo "$name"
    done
}

h2o_there() {
    [ -d build/deps/usr ] || [ -z "$(missing_find libh2o-evloop-dev)" ] ||
        pkg-config --exists libh2o-evloop 2>/dev/null
}

# Unpacks Debian 12's libh2o into build/deps. apt uses a separate configuration for this: the mirrors of
# this machine, and only packages signed with Debian's keys.
h2o_copy() {
    local part=$PWD/build/deps.part keyring label uri reason="apt has no source with Debian's packages"
    keyring=$(compgen -G '/usr/share/keyrings/debian-archive-keyring.[gp]*' | head -n 1) ||
        reason="the package debian-archive-keyring is missing"
    rm -rf "$part"
    mkdir -p "$part/lists/partial" "$part/archives/partial" "$part/root"
    touch "$part/status"
    cat >"$part/apt.conf" <<END
#clear APT::Update;
Dir::State "$part";
Dir::State::status "$part/status";
Dir::Cache "$part";
Dir::Etc::sourcelist "$part/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
APT::Get::AllowUnauthenticated "false";
APT::Sandbox::User "root";
END
    # A source without fetched lists has no label yet: try it.
    while [ -n "$keyring" ] && read -r label uri; do
        case $label in Debian | "\$(LABEL)") ;; *) continue ;; esac
        echo "deb [signed-by=$keyring] $uri bookworm main" >"$part/sources.list"
        # shellcheck disable=SC2086
        if (cd "$part" && apt-get -c apt.conf update -qq && apt-get -c apt.conf download -qq $h2o_packages) \
            >"$part/log" 2>&1; then
            h2o_unpack "$part"
            return
        fi
        reason=$(sed -nE 's/^[EW]: *//p' "$part/log" | head -n 1)
    done < <(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null | uniq)
    rm -rf "$part"
    echo "deps.sh: the distribution has no libh2o, and Debian 12's cannot be had: $reason" >&2
}

h2o_unpack() { # folder that contains the packages
    local package
    for package in "$1"/*.deb; do
        dpkg-deb -x "$package" "$1/root"
    done
    # shellcheck disable=SC2016
    sed -i -e 's|^prefix=.*|prefix=${pcfiledir}/../../..|' -e 's|^libdir=/usr/|libdir=${prefix}/|' \
        "$1"/root/usr/lib/*/pkgconfig/libh2o-evloop.pc
    rm -rf build/deps
    mv "$1/root" build/deps
    rm -rf "$1"
    echo "the distribution has no libh2o: Debian 12's is unpacked into build/deps" >&2
}

h2o=""
if [[ $wanted == *libh2o-evloop-dev* ]] && ! h2o_there; then
    h2o=libh2o-evloop-dev
fi
wanted=${wanted/libh2o-evloop-dev/}
# shellcheck disable=SC2086
missing=$(missing_find $wanted)
[ -n "$missing$h2o" ] || exit 0

run=no
if [ "$(id -u)" -eq 0 ]; then
    run=""
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    run=sudo
fi
lists=$(apt-cache policy 2>/dev/null | grep -E '^ *-?[0-9]+ [a-z+]+:') || true # none in a fresh container
if [ -n "$missing" ] || offered $h2o || { [ -z "$lists" ] && [ "$run" != no ]; }; then
    if [ "$run" = no ]; then
        [ -z "$lists" ] || offered $h2o || h2o=""
        echo "deps.sh: these packages are missing and neither root nor sudo is at hand; as root run: apt-get install" \
            $missing $h2o >&2
        exit 1
    fi
    $run apt-get update -qq || true # the unreadable source may not be needed for these packages
    # shellcheck disable=SC2086
    missing=$(missing_find $wanted)
    if offered $h2o; then
        missing="$missing $h2o"
        h2o=""
    fi
    if [ -n "$missing" ]; then
        echo "installing:" $missing >&2
        # shellcheck disable=SC2086
        $run env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
            apt-get install -y -qq --no-install-recommends $missing >/dev/null
    fi
fi
[ -z "$h2o" ] || h2o_copy
