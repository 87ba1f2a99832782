#!/usr/bin/env bash
# A library that is not there ends configuring with one sentence that names its Debian package; a
# test library that is not there leaves the tests out. pkg-config is wrapped so that it hides one.
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

# configure HIDDEN WANTED_CODE WORDS [OPTION]
configure() {
    local output code words
    rm -rf "$work/build"
    output=$(HIDDEN=$1 PKG_CONFIG=$work/pkg-config cmake -S "$source" -B "$work/build" -G Ninja \
        -DWEFT_BENCH=OFF ${4:+"$4"} 2>&1)
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
configure libcurl 1 "$(sentence libcurl libcurl4-openssl-dev)"
configure cmocka 0 "the tests are left out: the Debian package libcmocka-dev is missing"
configure cmocka 1 "the Debian package libcmocka-dev is missing: tools/deps.sh test" -DWEFT_TESTS=ON
configure libh2o-evloop 0 "weft serve is left out: the Debian package libh2o-evloop-dev"
configure yajl 0 "Configuring done" # weft does not use it
exit $failed
