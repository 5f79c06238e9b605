# Everything a newcomer needs is `make run` and `make test`; `make` alone lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# Debian's own interpreter: readable by every user and quick to start
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=
FORCE ?=
VENV := .venv
BIN := $(VENV)/bin
VECTORS ?= tests/conformance/vectors
PYTEST ?=
BENCH ?=

# Packages of Debian 12: what the build needs, what `make run` starts, and what the tests start beside it
APT_BUILD := gcc libc6-dev musl-tools python3-dev python3-venv libcap-dev
APT_RUN := $(APT_BUILD) runc busybox-static
APT_TEST := $(APT_RUN) crun containerd docker.io podman conmon uidmap iproute2 util-linux \
	containernetworking-plugins curl git strace musl

APT_FUZZ := $(APT_BUILD) clang-14 libclang-rt-14-dev

# What `make fuzz` and `make sanitize` are about
READERS := $(filter-out %/launcher.c,$(wildcard native/*.c hooks/*.c))
FUZZ := $(filter-out replay,$(basename $(notdir $(wildcard native/fuzz/*.c)))) cache
SECONDS := 30
SANITIZED := $(patsubst %,tests/unit/native/test_%.py,grammar scan needles place report hooks ldcache)

PLACE := $(PYTHON) -I -S -B packaging/install.py
PLACE_OPTIONS = --prefix "$(PREFIX)" --sysconfdir "$(SYSCONFDIR)" --destdir "$(DESTDIR)" $(if $(FORCE),--force)

# Directories, too: their time tells that a file was removed
SOURCES := $(shell find shim hooks native -not -path '*/__pycache__*') packaging/hot.py meson.build pyproject.toml
PIP := $(BIN)/python3 -m pip --disable-pip-version-check -q

help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

run: need-run $(VENV)/installed ## build, then run bundles/hello: a device, a mount, a variable and a hook through real runc
	@$(BIN)/python3 bundles/run.py hello

test: need-test $(VENV)/tools $(VENV)/installed ## run all tests, linters included (PYTEST='-k name' for some of them)
	@$(BIN)/pytest $(PYTEST)

install: need-build build/image ## install to PREFIX (/usr/local), below DESTDIR if given; users run it with PYTHON (/usr/bin/python3)
	@$(PLACE) install $(PLACE_OPTIONS)

uninstall: ## remove what `make install` put there, unless an engine is configured to start it (FORCE=1)
	@$(PLACE) uninstall $(PLACE_OPTIONS)

dist: need-build $(VENV)/builder ## source archive of the last commit and the wheel made from it, in dist/
	@rm -f dist/*.whl dist/*.tar.gz
	test -z "$$(git status --porcelain)" || echo "changes that are not committed are left out"
	export PATH="$(abspath $(BIN)):$$PATH"
	$(BIN)/python3 -c 'import mesonpy; mesonpy.build_sdist("dist")' >/dev/null
	$(PIP) wheel --no-build-isolation --no-deps -w dist dist/*.tar.gz
	ls dist/*

deb: need-build build/image ## Debian package in dist/
	@$(PYTHON) -S -B packaging/deb.py build/image dist

lock: $(VENV)/builder ## renew the exact versions and hashes of the run-time dependencies in packaging/lock.txt
	@$(PIP) install --group lock
	$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.10 --generate-hashes --no-annotate --no-header \
		pyproject.toml -o packaging/lock.txt

dev: $(VENV)/tools $(VENV)/installed ## install the working tree anew into .venv, in seconds

lint: $(VENV)/tools $(VENV)/installed ## ruff and mypy alone
	@$(BIN)/pytest -q tests/test_linters.py

format: $(VENV)/tools ## let ruff arrange imports and lines
	@$(BIN)/ruff check -q --select I --fix . && $(BIN)/ruff format -q .

conformance: $(VENV)/installed ## compare the library with the reference's answers (VECTORS=DIR)
	@cd tests && ../$(BIN)/python3 -m conformance "$(abspath $(VECTORS))"

bench: need-test $(VENV)/installed ## measure: ratios to a program that returns at once (T) and to `python3 -I -S -c pass` (P); BENCH=hooks for one group
	@cd tests && ../$(BIN)/python3 -m bench $(BENCH)

fuzz: need-fuzz $(VENV)/installed ## fuzz the readers from their corpus, SECONDS=30 for each target (FUZZ='grammar cache' for some of them)
	@build="clang-14 -std=gnu11 -g -O1 -fno-sanitize-recover=all -DSHIM_VERSION=\"fuzz\" -I$(CURDIR)/native"
	mkdir -p build/fuzz/core
	native() {
		mkdir -p build/fuzz/$$1.found
		$$build -fsanitize=fuzzer,address,undefined -o build/fuzz/$$1 native/fuzz/$$1.c build/fuzz/core/*.o &&
			build/fuzz/$$1 -max_total_time=$(SECONDS) -rss_limit_mb=4096 -artifact_prefix=build/fuzz/ build/fuzz/$$1.found \
				native/fuzz/corpus/$$1
	}
	python() {
		(cd tests && ../$(BIN)/python3 -m fuzz.$$1 --seconds $(SECONDS) --crashes ../build/fuzz fuzz/corpus/$$1)
	}
	test "$(FUZZ)" = cache ||
		(cd build/fuzz/core && $$build -fsanitize=fuzzer-no-link,address,undefined -c $(addprefix $(CURDIR)/,$(READERS)))
	for target in $(FUZZ); do
		echo "fuzzing $$target for $(SECONDS) s"
		kind=native; test ! -e tests/fuzz/$$target.py || kind=python
		$$kind $$target >build/fuzz/$$target.log 2>&1 || { tail -n 40 build/fuzz/$$target.log; exit 1; }
		tail -n 1 build/fuzz/$$target.log
	done

# A venv of its own: our package with the sanitized core, beside the packages of $(VENV). Python gets the sanitizers'
# libraries loaded first for what calls the core; the launcher brings its own. A report ends the process, so descriptor 2 is
# not caught: the report would end with it.
sanitize: need-test $(VENV)/tools $(VENV)/installed ## run the tests of the C parts against a build with ASan and UBSan
	@rm -rf build/sanitize/venv
	export PATH="$(CURDIR)/$(BIN):$$PATH"
	test -d build/sanitize/native ||
		meson setup build/sanitize/native -Db_sanitize=address,undefined -Db_lundef=false --buildtype=debug >/dev/null
	meson compile -C build/sanitize/native >build/sanitize/log || { cat build/sanitize/log; exit 1; }
	$(PYTHON) -m venv --without-pip build/sanitize/venv
	python=build/sanitize/venv/bin/python3
	site="import sysconfig; print(sysconfig.get_path('purelib'))"
	from=$$($(BIN)/python3 -c "$$site") to=$$($$python -c "$$site")
	echo "$$from" >$$to/others.pth
	cp -r $$from/shim $$to/shim
	cp build/sanitize/native/native/_core*.so $$to/shim/hooks/
	cp build/sanitize/native/native/shim build/sanitize/venv/bin/
	export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=0
	export SANITIZER="$$(gcc -print-file-name=libasan.so)"
	$$python $(BIN)/pytest -q tests/unit/native/test_launcher.py
	LD_PRELOAD="$$SANITIZER $$(gcc -print-file-name=libubsan.so)" $$python $(BIN)/pytest -q --capture=sys $(SANITIZED)

clean: ## remove what was built, .venv included
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . \( -name __pycache__ -o -name .mypy_cache \) -type d -prune -exec rm -rf {} +

.PHONY: help run test install uninstall dist deb lock dev lint format conformance bench fuzz sanitize clean
.PHONY: need-build need-run need-test need-fuzz

# --- what stands behind the targets -------------------------------------------------------------------------------

# Root installs what is missing, after printing the line; anybody else is told and stopped.
define need
	@missing=$$(for p in $(1); do dpkg-query -Wf '$${db:Status-Status}' $$p 2>/dev/null | grep -qx installed || printf ' %s' $$p; done)
	if [ -n "$$missing" ]; then
		line="apt-get install -y --no-install-recommends$$missing"
		if [ "$$(id -u)" = 0 ]; then
			echo "$$line"
			export DEBIAN_FRONTEND=noninteractive
			apt-get update -qq >/dev/null
			$$line -qq >/dev/null
		else
			echo "missing packages; as root: $$line" >&2
			exit 1
		fi
	fi
endef

need-build:
	$(call need,$(APT_BUILD))

need-run:
	$(call need,$(APT_RUN))

need-test:
	$(call need,$(APT_TEST))

need-fuzz:
	$(call need,$(APT_FUZZ))

$(VENV)/builder: pyproject.toml
	@echo "preparing $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --group build
	touch $@

$(VENV)/tools: $(VENV)/builder
	@$(PIP) install --group test
	touch $@

# One wheel for everything: the tests' environment, the installation and the Debian package.
build/wheel: $(VENV)/builder $(SOURCES)
	@echo "building"
	rm -rf $@
	export PATH="$(abspath $(BIN)):$$PATH"
	$(PIP) wheel --no-build-isolation --no-deps -Cbuild-dir=build/meson -w $@.new .
	mv -T $@.new $@

build/image: build/wheel packaging/image.py packaging/manual.py packaging/logrotate packaging/lock.txt
	@echo "making the image of an installation"
	$(BIN)/python3 -B packaging/image.py build/wheel/*.whl $@

# The first time with dependencies; after that neither the index nor the resolver is asked. Files that were deleted
# from the tree go too, since pip removes the old version first.
$(VENV)/installed: build/wheel
	@echo "installing into $(VENV)"
	$(BIN)/python3 -c 'import click, rich, yaml, cffi, prctl, pyroute2' 2>/dev/null ||
		$(PIP) install --no-build-isolation --root-user-action=ignore build/wheel/*.whl
	$(PIP) install --force-reinstall --no-deps --root-user-action=ignore build/wheel/*.whl
	rm -rf tests/.mypy_cache  # mypy does not notice that an installed package has a module more
	touch $@
