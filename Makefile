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
MATRIX ?=
PINS ?=

# Where roots of distributions lie, which are made once from MIRROR, by default the archive of this machine's apt
ROOTS ?= /var/tmp/shim-roots
# Where the programs of a Kubernetes node lie, for `make test-kubernetes`
KUBERNETES ?= /var/tmp/shim-kubernetes

# The oldest Python that is supported, for `make test-python`; "" where there is none with headers
OLDEST := $(shell for python in python3.10 $$HOME/.pyenv/versions/3.10.*/bin/python3.10; do \
	$$python -c 'import ensurepip, os, sys, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h"); \
	print(sys.executable)' 2>/dev/null && break; done)
OTHER ?= $(OLDEST)
OTHER_VENV := build/$(notdir $(OTHER))
# What depends on the Python: not the tests of the C parts and of real engines
OTHER_TESTS := tests/conformance $(filter-out %/native %/__pycache__,$(wildcard tests/unit/*))

# For `make fuzz`: seconds for each target, and which targets
SECONDS := 30
NIGHTLY_SECONDS := 300
FUZZ ?=

PLACE := $(PYTHON) -I -S -B packaging/install.py
PLACE_OPTIONS = --prefix "$(PREFIX)" --sysconfdir "$(SYSCONFDIR)" --destdir "$(DESTDIR)" $(if $(FORCE),--force)

# Directories, too: their time tells that a file was removed
SOURCES := $(shell find shim hooks native -not -path '*/__pycache__*' -not -name _core.abi3.so) packaging/hot.py docs/findings.md meson.build meson_options.txt pyproject.toml
PIP := $(BIN)/python3 -m pip --disable-pip-version-check -q

help: ## list the targets
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

run: need-run $(VENV)/installed ## build, then run bundles/hello: a device, a mount, a variable and a hook through real runc
	@$(BIN)/python3 bundles/run.py hello

# All tests on PYTHON, then some on the oldest Python where there is one
test: test-all $(if $(PYTEST),,$(if $(OTHER),test-python,no-other-python)) ## run all tests, linters included (PYTEST='-k name' for some of them)

# Without root there is no network in the namespace of the tests, so what asks for it is made before
test-all: need-test $(VENV)/tools $(VENV)/installed $(if $(filter-out 0,$(shell id -u)),build/image)
	@tests/rootless.sh $(BIN)/pytest $(PYTEST)

no-other-python:
	@echo "note: there is no Python 3.10 here, so nothing was tested on it"

test-python: need-build $(OTHER_VENV)/installed ## run the tests that need no engine on another Python, 3.10 when it is found (OTHER=python3.13)
	@echo "on $(OTHER):"
	$(OTHER_VENV)/bin/pytest -q -m 'not engine and not other_user' $(PYTEST) $(OTHER_TESTS)

install: need-build build/image ## install to PREFIX (/usr/local), below DESTDIR if given; users run it with PYTHON (/usr/bin/python3)
	@$(PLACE) install $(PLACE_OPTIONS)

uninstall: ## remove what `make install` put there, unless an engine is configured to start it (FORCE=1)
	@$(PLACE) uninstall $(PLACE_OPTIONS)

dist: need-build sdist ## source archive of the last commit and this machine's wheel made from it, in dist/
	@export PATH="$(abspath $(BIN)):$$PATH" SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)
	$(PIP) wheel --no-build-isolation --no-deps -w dist dist/cdi_shim-*.tar.gz
	ls dist/*

release: dist build/image $(VENV)/installed ## all files of a release in dist/: archives, bill of materials, conformance archive with our results, checksums
	@export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)
	$(BIN)/python3 packaging/release.py build/image $(BIN)/python3 dist

wheel: need-wheel sdist ## source archive and a wheel for every Python and distribution with glibc 2.31 or later, in dist/
	@$(PIP) install --group wheel
	export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)
	$(BIN)/python3 -B packaging/wheel.py dist/cdi_shim-*.tar.gz dist --roots "$(ROOTS)"

test-arm64: need-arm64 $(VENV)/tools $(VENV)/installed ## cross-build for arm64, and run it by qemu in a root of Debian 13 below ROOTS: a create, and what needs no daemon
	@cd tests && ROOTS="$(ROOTS)" ../$(BIN)/python3 -m matrix.arm64 $(PYTEST)

test-kubernetes: need-test $(VENV)/tools $(VENV)/installed ## pods with devices on a real Kubernetes of one node, which is built once in KUBERNETES (five minutes)
	@test -x "$(KUBERNETES)/bin/kubectl" || tests/kubernetes/build.sh "$(KUBERNETES)"
	cd tests && ../$(BIN)/python3 -B -m kubernetes.node "$(KUBERNETES)" ../$(BIN)/shim \
		../$(BIN)/pytest --noconftest -p no:cacheprovider $(PYTEST) kubernetes/cases.py

test-matrix: need-test wheel $(VENV)/tools $(VENV)/installed ## run what needs no daemon in roots of Debian 11 to sid, on Pythons 3.10 to 3.14 and with musl alone, below ROOTS; prints a table (MATRIX='--row trixie' for a row)
	@cd tests && ROOTS="$(ROOTS)" ../$(BIN)/python3 -m matrix ../dist/*.whl $(MATRIX)

deb: need-deb sdist build/image ## Debian package of the last commit in dist/ (LAYOUT=private: with all libraries, LAYOUT=distribution: without those that Debian has)
	@test "$(LAYOUT)" != distribution || PYTHON="$(PYTHON)" packaging/need.sh distribution
	$(DEB) dist/cdi_shim-*.tar.gz dist build/dependencies-* $(LAYOUT)
	lintian --allow-root --fail-on error,warning dist/*.changes

rpm: LAYOUT = private
rpm: need-rpm sdist build/image ## RPM packages of the last commit in dist/ (LAYOUT=distribution: without the Python libraries)
	@export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)
	PATH=/usr/sbin:/usr/bin:/sbin:/bin packaging/rpm.sh dist/cdi_shim-*.tar.gz dist $(if $(filter distribution,$(LAYOUT)),,build/dependencies-*)
	ls dist/*.rpm

oci-image: need-build build/image ## image for nodes of Kubernetes, of Debian's packages, in dist/: an OCI layout and the same as a tar
	@export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)
	mkdir -p dist
	$(PYTHON) -S -B packaging/oci.py build/image build/oci dist

sizes: deb rpm wheel oci-image ## print the sizes of all that is shipped, which it builds in dist/ first
	@$(PYTHON) -I -S -B packaging/sizes.py build/image dist

# Without the extra `node`, which no host but a node of Kubernetes needs: its image has Debian's packages
lock: $(VENV)/builder ## renew the exact versions and hashes of the run-time dependencies in packaging/lock.txt
	@$(PIP) install --group lock
	$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.10 --generate-hashes --no-annotate --no-header \
		--extra privileges pyproject.toml -o packaging/lock.txt

dev: in-place $(VENV)/tools $(VENV)/installed ## build the C core in place (`import shim` works in the tree), and install the tree anew into .venv, in seconds

lint: $(VENV)/tools $(VENV)/installed ## ruff, mypy, clang-format and gcc's analyzer alone
	@$(BIN)/pytest -q tests/test_linters.py

format: $(VENV)/tools ## let ruff and clang-format arrange imports and lines
	@$(BIN)/ruff check -q --select I --fix . && $(BIN)/ruff format -q .
	find native hooks tests -name '*.[ch]' -exec $(BIN)/clang-format -i {} +

conformance: $(VENV)/installed ## compare the library with the reference's answers (VECTORS=DIR)
	@cd tests && ../$(BIN)/python3 -m conformance "$(abspath $(VECTORS))"

pins: need-test $(VENV)/tools $(VENV)/installed ## compare what this build does with what commit 6022cb0 did (PINS='bundles/*' for some cases)
	@cd tests && ../$(BIN)/python3 -m pins check $(foreach pattern,$(PINS),'$(pattern)')

# No pytest option of its own but -m: what a test needs to be nightly is the marker
nightly: pins need-test $(VENV)/tools $(VENV)/installed ## what is too long for `make test`: all pins, long fuzzing (NIGHTLY_SECONDS=300), tests marked nightly, the matrix
	@$(MAKE) fuzz SECONDS=$(NIGHTLY_SECONDS)
	$(BIN)/pytest -m nightly $(PYTEST) || test $$? = 5  # 5: there is no such test
	$(MAKE) test-kubernetes test-matrix test-arm64

bench: need-test $(VENV)/installed ## measure: ratios to a program that returns at once (T) and to `python3 -I -S -c pass` (P); BENCH=hooks for one group
	@cd tests && ../$(BIN)/python3 -m bench $(BENCH)

fuzz: need-fuzz $(VENV)/installed ## fuzz the readers from their corpus, SECONDS=30 for each target (FUZZ='grammar cache' for some of them)
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/fuzz/run.sh $(SECONDS) $(FUZZ)

sanitize: need-sanitize $(VENV)/tools $(VENV)/installed ## run the tests of the C parts against a build with ASan and UBSan
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/sanitize.sh

clean: ## remove what was built, .venv included
	@rm -rf $(VENV) build dist shim/hooks/_core.abi3.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . \( -name __pycache__ -o -name .mypy_cache \) -type d -prune -exec rm -rf {} +

.PHONY: help run test install uninstall oci-image dist wheel test-kubernetes test-matrix test-arm64 release deb rpm sizes lock dev lint format conformance pins nightly bench fuzz sanitize clean

# --- what stands behind the targets -------------------------------------------------------------------------------

# Tests for programs, headers and libraries; on Debian root gets what is missing, anybody else is told
.PHONY: in-place sdist test-all test-python no-other-python
.NOTPARALLEL:
need-%:
	@PYTHON="$(PYTHON)" packaging/need.sh $*

$(VENV)/builder: pyproject.toml
	@echo "preparing $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --group build
	touch $@

$(VENV)/tools: $(VENV)/builder
	@$(PIP) install --group test
	touch $@

sdist: $(VENV)/builder
	@rm -f dist/*.whl dist/*.tar.gz
	test -z "$$(git status --porcelain)" || echo "changes that are not committed are left out"
	export PATH="$(abspath $(BIN)):$$PATH" SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct)
	$(BIN)/python3 -c 'import mesonpy; mesonpy.build_sdist("dist")' >/dev/null

# A link to what the wheel is built from: made once, and before the build looks at the times of directories
in-place: $(VENV)/builder
	@core=../../build/meson/native/_core.abi3.so
	test "$$(readlink shim/hooks/_core.abi3.so)" = "$$core" || ln -sfn "$$core" shim/hooks/_core.abi3.so

# Meson refuses an option of meson_options.txt that was added since it made the directory
fresh = if ! grep -qs '"placement"' $(1)/meson-info/intro-buildoptions.json; then rm -rf $(1); fi

# One wheel for everything: the tests' environment, the installation and the Debian package.
build/wheel: $(VENV)/builder $(SOURCES)
	@echo "building"
	$(call fresh,build/meson)
	rm -rf $@
	export PATH="$(abspath $(BIN)):$$PATH"
	$(PIP) wheel --no-build-isolation --no-deps -Cbuild-dir=build/meson -w $@.new .
	mv -T $@.new $@

# dpkg-buildpackage and rpmbuild build with the distribution's own Python and Meson. The layout is by default that of
# debian/layouts for the suite of this machine
LAYOUT ?= $(shell packaging/deb.sh layout)
DEB = PATH=/usr/sbin:/usr/bin:/sbin:/bin packaging/deb.sh

# For the tests: the package of the tree as it is
build/deb: build/image packaging/deb.sh packaging/deb.py packaging/meson_install.py meson_options.txt $(wildcard debian/*)
	@echo "making the Debian package"
	rm -rf $@ build/source && mkdir -p $@.new build/source
	version=$$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' shim/__init__.py)
	git ls-files -co --exclude-standard -z | tar -cz --null --no-recursion -T - --transform "s,^,cdi_shim-$$version/," \
		-f build/source/cdi_shim-$$version.tar.gz
	$(DEB) build/source/*.tar.gz $@.new build/dependencies-*
	mv -T $@.new $@

DOCUMENTS := $(addprefix docs/,configuration.md create.md deviations.md engines.md findings.md quickstart.md rules.md) $(wildcard packaging/rules.d/*.toml)

build/image: build/wheel $(DOCUMENTS) packaging/image.py packaging/manual.py packaging/sbom.py $(wildcard packaging/licenses/*) packaging/logrotate packaging/lock.txt
	@echo "making the image of an installation"
	$(BIN)/python3 -B packaging/image.py build/wheel/*.whl $@

# The first time with dependencies; after that neither the index nor the resolver is asked. Files that were deleted
# from the tree go too, since pip removes the old version first.
$(VENV)/installed: build/wheel
	@echo "installing into $(VENV)"
	$(BIN)/python3 -c 'import click, rich, yaml, cffi, prctl, pynvml, pyroute2' 2>/dev/null ||
		$(PIP) install --no-build-isolation --root-user-action=ignore "$$(echo build/wheel/*.whl)[privileges]"
	$(PIP) install --force-reinstall --no-deps --root-user-action=ignore build/wheel/*.whl
	rm -rf tests/.mypy_cache  # mypy does not notice that an installed package has a module more
	touch $@

# --- the same on another Python -----------------------------------------------------------------------------------

$(OTHER_VENV)/tools: pyproject.toml
	@test -n "$(OTHER)" || { echo "there is no Python 3.10 with its headers here: name another by OTHER=" >&2; exit 1; }
	echo "preparing $(OTHER_VENV)"
	$(OTHER) -m venv $(OTHER_VENV)
	$(OTHER_VENV)/bin/pip --disable-pip-version-check -q install --upgrade 'pip>=25.1'
	$(OTHER_VENV)/bin/pip -q install --group build --group run-tests
	touch $@

$(OTHER_VENV)/installed: $(OTHER_VENV)/tools $(SOURCES)
	@export PATH="$(abspath $(OTHER_VENV)/bin):$$PATH"
	$(call fresh,$(OTHER_VENV)/meson)
	rm -rf $(OTHER_VENV)/wheel
	pip -q wheel --no-build-isolation --no-deps -Cbuild-dir=$(OTHER_VENV)/meson -w $(OTHER_VENV)/wheel .
	pip -q install --no-build-isolation --root-user-action=ignore "$$(echo $(OTHER_VENV)/wheel/*.whl)[privileges]"
	pip -q install --force-reinstall --no-deps --root-user-action=ignore $(OTHER_VENV)/wheel/*.whl
	touch $@
