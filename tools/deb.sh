#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian package build/deb/weft_VERSION_ARCHITECTURE.deb from the release build, and prints its path.
# The plugin is part of it if `make cuda` built it; its library cuBLASLt is NVIDIA's and no dependency of the package.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in cpack dpkg-shlibdeps; do
    command -v $program >/dev/null || {
        echo "deb.sh: $program is missing: install the Debian packages cmake and dpkg-dev" >&2
        exit 1
    }
done
tools/build.sh weft
if grep -q "^H2O_LIBDIR:.*=$PWD/build/deps/" build/release/CMakeCache.txt; then
    echo "deb.sh: this distribution has no libh2o, on which the package would depend: make it on Debian 12" >&2
    exit 1
fi
version=$(sed -nE 's/^project\(weft VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
work=$PWD/build/release/debian
rm -rf "$work" build/deb
mkdir -p "$work/debian"

# The libraries that the program is linked to, with the versions that have its symbols.
printf 'Source: weft\n\nPackage: weft\nArchitecture: any\n' >"$work/debian/control"
WEFT_DEB_DEPENDS=$(cd "$work" && dpkg-shlibdeps -O "../bin/weft" 2>"$work/log" | sed 's/^shlibs:Depends=//') || {
    cat "$work/log" >&2
    exit 1
}
export WEFT_DEB_DEPENDS

# The maintainer: DEBFULLNAME and DEBEMAIL, as for Debian's own tools, else the author of the commit.
author=$(git log -1 --format='%an <%ae>' 2>/dev/null || echo "weft <root@$(hostname)>")
WEFT_DEB_MAINTAINER=${DEBEMAIL:+${DEBFULLNAME:-weft} <$DEBEMAIL>}
export WEFT_DEB_MAINTAINER=${WEFT_DEB_MAINTAINER:-$author}

# The time of the commit: two packages of one commit are equal.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
{
    echo "weft ($version-1) unstable; urgency=medium"
    printf '\n  * See /usr/share/doc/weft/CHANGELOG.md.\n\n'
    echo " -- $WEFT_DEB_MAINTAINER  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$work/changelog.Debian.gz"

tools/configure.sh >"$work/log" && cpack --config build/release/CPackConfig.cmake >>"$work/log" || {
    cat "$work/log" >&2
    exit 1
}
rm -rf build/deb/_CPack_Packages
ls build/deb/weft_*.deb
