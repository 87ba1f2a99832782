#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A missing library ends configuring with one sentence that names its Debian package; a missing test
# library leaves the tests out. pkg-config is wrapped to hide a library.
# usage: test_configure.sh SOURCE_DIR
set -uo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/pkg-config" <<'END'
#!/usr/bin/env bash
case " $* " in *"$HIDDEN"*) exit 1 ;; esac
exec pkg-config "$@"
END
chmod +x "$work/pkg-config"
failed=0

cmake_run() { # HIDDEN OPTIONS
    HIDDEN=$1 PKG_CONFIG=$work/pkg-config cmake -S "$source" -B "$work/build" -G Ninja -DWEFT_BENCH=OFF "${@:2}" 2>&1
}

# All begin with one cache, which knows the compilers and no library.
cmake_run nothing >"$work/first" || { cat "$work/first" && exit 1; }
sed -i '/^__pkg_config_checked_/d; /_FOUND:INTERNAL=/d' "$work/build/CMakeCache.txt"
cp "$work/build/CMakeCache.txt" "$work/cache"

# configure HIDDEN WANTED_CODE WORDS [OPTION]
configure() {
    local output code words
    cp "$work/cache" "$work/build/CMakeCache.txt"
    output=$(cmake_run "$1" ${4:+"$4"})
    code=$?
    words=$(tr -s ' \n' ' ' <<<"$output")
    if [ "$code" -ne "$2" ] || [[ $words != *"$3"* ]]; then
        echo "without $1 ${4:-}: exit $code, not '$3' in: $words"
        failed=1
    fi
}

sentence() { echo "the library $1 is missing: install the Debian package $2, or run tools/deps.sh"; }

configure jansson 1 "$(sentence jansson libjansson-dev)"
configure libpcre2-8 1 "$(sentence libpcre2-8 libpcre2-dev)"
configure libutf8proc 1 "$(sentence libutf8proc libutf8proc-dev)"
configure libedit 1 "$(sentence libedit libedit-dev)"
configure libcurl 0 "weft bench URL, weft chat --url and downloads of models are left out: the Debian package libcurl4-openssl-dev"
configure cmocka 0 "the tests are left out: the Debian package libcmocka-dev is missing"
configure cmocka 1 "the Debian package libcmocka-dev is missing: tools/deps.sh test" -DWEFT_TESTS=ON
configure libh2o-evloop 0 "weft serve is left out: the Debian package libh2o-evloop-dev"
configure " " 1 "pkg-config is missing: install the Debian package pkg-config" # a blank hides all libraries: pkg-config always fails
# The configuration of bench/gpu.sh works without these libraries.
configure cmocka 0 "no cmocka here: bench/cmocka stands in" -DWEFT_GPU_ONLY=ON
configure jansson 0 "no jansson here: the models are left out" -DWEFT_GPU_ONLY=ON
configure " " 0 "no cmocka here: bench/cmocka stands in" -DWEFT_GPU_ONLY=ON
configure yajl 0 "Configuring done" # a library that weft does not use

# The plugin for all GPUs, and spills.py, pass to nvcc the architectures that its version supports: 100 and 120 from 12.8.
cat >"$work/archs.cmake" <<'END'
include(${SOURCE}/kernels/cuda/architectures.cmake)
cuda_architectures(${VERSION} archs)
message("${archs}")
END
cat >"$work/nvcc" <<'END'
#!/usr/bin/env bash
[ "$1" != --version ] || { echo "Cuda compilation tools, release $RELEASE, V$RELEASE.99"; exit; }
echo "$@" >&2
exit 1
END
chmod +x "$work/nvcc"
# archs RELEASE CMAKE_LIST NEWEST
archs() {
    local list codes
    list=$(cmake -DSOURCE="$source" -DVERSION="$1.99" -P "$work/archs.cmake" 2>&1)
    codes=$(RELEASE=$1 PATH=$work:$PATH python3 -B "$source/kernels/cuda/spills.py" 2>&1 | grep -o 'code=sm_[0-9a-z]*' | tail -n 1)
    if [ "$list" != "$2" ] || [ "$codes" != "code=sm_$3" ]; then
        echo "nvcc $1 is asked for $list, and by spills.py for $codes last"
        failed=1
    fi
}
archs 12.4 "80-real;86-real;89-real;90a-real;90-virtual" 90a
archs 12.8 "80-real;86-real;89-real;90a-real;100-real;120-real;90-virtual" 120
archs 13.0 "80-real;86-real;89-real;90a-real;100-real;120-real;90-virtual" 120
exit $failed
