#!/usr/bin/env bash
# Installs the Debian packages that building and testing weft needs and that are missing here. Says
# nothing and touches no network when all are there. On other systems it names them and leaves the
# rest to the build, which reports what is missing. Groups: build (default), test, fuzz, cross (aarch64),
# browser. usage: tools/deps.sh [build] [test] [fuzz] [cross] [browser]
set -euo pipefail

build="gcc g++ cmake ninja-build make pkg-config python3 libh2o-evloop-dev libssl-dev libjansson-dev
  libpcre2-dev libutf8proc-dev zlib1g-dev libedit-dev libcurl4-openssl-dev python3-venv curl"
test="libcmocka-dev git"
fuzz="clang-14 libclang-rt-14-dev"
cross="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
browser="chromium"

[ $# -gt 0 ] || set -- build
wanted=""
for group in "$@"; do
    case $group in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    fuzz) wanted="$wanted $fuzz" ;;
    cross) wanted="$wanted $cross" ;;
    browser) wanted="$wanted $browser" ;;
    *) echo "deps.sh: there is no group '$group' (build, test, fuzz, cross, browser)" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "deps.sh: not a Debian system, nothing is installed; what corresponds to these must be there:" $wanted >&2
    exit 0
fi

# shellcheck disable=SC2086
known=$(dpkg-query -W -f=' ${Package}=${db:Status-Status} ' $wanted 2>/dev/null || true)
missing=""
for package in $wanted; do
    [[ $known == *" $package=installed "* ]] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

run=""
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        run="sudo"
    else
        echo "deps.sh: these packages are missing and neither root nor sudo is at hand; as root run: apt-get install$missing" >&2
        exit 1
    fi
fi
echo "installing:$missing" >&2
$run apt-get update -qq
$run env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get install -y -qq --no-install-recommends $missing >/dev/null
