# SPDX-License-Identifier: Apache-2.0
# A thin layer over the CMake presets. `make` prints the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
BUILD := build/release
WEFT := $(BUILD)/bin/weft
PORT ?= 8000
PREFIX ?= /usr/local
OFFLINE ?=
T ?=
DIFF ?=
DESTDIR ?=

.PHONY: help serve install deb test t soak dev bench cuda check fmt clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

serve: ## build, download two small models once (OFFLINE=1: the built-in ones) and serve them on 127.0.0.1:8000 (PORT=8001)
	@tools/deps.sh build
	@tools/build.sh weft
	@$(WEFT) serve --help >/dev/null
	@if [ -e /dev/nvidia0 ] && command -v nvcc >/dev/null; then $(MAKE) -s cuda; fi
	@models=$$(OFFLINE=$(OFFLINE) python3 tools/first_models.py --weft $(WEFT)); exec $(WEFT) serve --port $(PORT) $$models

# Values reach the shell as variables: they may have blanks and quotes.
install: export PREFIX := $(PREFIX)
install: export DESTDIR := $(DESTDIR)
install: ## program, plugin, built-in models and pages, under /usr/local (PREFIX=...)
	@tools/deps.sh build
	@tools/build.sh weft
	@prefix=$$(realpath -ms -- "$${PREFIX/#\~\//$$HOME/}"); cmake --install $(BUILD) --prefix "$$prefix" >/dev/null; \
	echo "installed: $$DESTDIR$$prefix/bin/weft (try: weft serve weft-demo-chat)"

deb: ## build/deb/weft_*.deb, a package for Debian 12 with a systemd service
	@tools/deps.sh build deb
	@tools/deb.sh

test: ## the fast tests, which need no GPU; the last line counts them
	@tools/deps.sh build test
	@tools/test.sh

t: export T := $(T)
t: ## some tests: T=plan those whose names contain it, DIFF=1 those that link a file that differs from HEAD
	@tools/deps.sh build test
	@tools/test_some.py $(if $(DIFF),--diff,--match="$$T")

soak: ## hours: fuzzers, sanitizers over whole suites, differential tests
	@tools/deps.sh build test fuzz roots
	@tools/soak.sh

dev: ## debug build with ASan and UBSan; compile_commands.json for editors
	@tools/deps.sh build test
	@cmake --preset dev >/dev/null && cmake --build --preset dev
	@ln -sf build/dev/compile_commands.json compile_commands.json

bench: ## the benchmarks, each compared with its lower bound
	@tools/deps.sh build test
	@tools/configure.sh >/dev/null && cmake --build --preset release
	@tools/bench.sh

cuda: ## the CUDA plugin (needs nvcc)
	@tools/configure.sh -DWEFT_CUDA=ON >/dev/null && tools/build.sh weft_cuda

check: ## exactly what .ci/run runs
	@.ci/run

fmt: ## clang-format (one version) over C and CUDA
	@tools/format.sh

clean: ## remove build/
	@rm -rf build
