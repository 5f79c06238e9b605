# Everything a newcomer needs is `make run` and `make test`; `make` alone lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# Debian's own interpreter: readable by every user and quick to start
PYTHON ?= /usr/bin/python3
VENV := .venv
BIN := $(VENV)/bin
VECTORS ?= tests/conformance/vectors
PYTEST ?=

# Packages of Debian 12: what the build and `make run` need, and what the tests start beside it
APT_RUN := gcc libc6-dev python3-dev python3-venv libcap-dev runc busybox-static
APT_TEST := $(APT_RUN) crun containerd docker.io podman conmon uidmap iproute2 util-linux \
	curl strace

SOURCES := $(shell find shim hooks -type f -not -path '*/__pycache__/*') meson.build pyproject.toml

help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

run: need-run $(VENV)/installed ## build, then run bundles/hello: a device, a mount, a variable and a hook through real runc
	@$(BIN)/python3 bundles/run.py hello

test: need-test $(VENV)/installed ## run all tests, linters included (PYTEST='-k name' for some of them)
	@$(BIN)/pytest $(PYTEST)

dev: $(VENV)/installed ## install the working tree anew into .venv, in seconds

lint: $(VENV)/installed ## ruff and mypy alone
	@$(BIN)/pytest -q tests/test_linters.py

format: $(VENV)/tools ## let ruff arrange imports and lines
	@$(BIN)/ruff check -q --select I --fix . && $(BIN)/ruff format -q .

conformance: $(VENV)/installed ## compare the library with the reference's answers (VECTORS=DIR)
	@cd tests && ../$(BIN)/python3 -m conformance "$(abspath $(VECTORS))"

bench: need-test $(VENV)/installed ## measure: ratios to a program that returns at once (T) and to `python3 -I -S -c pass` (P)
	@cd tests && ../$(BIN)/python3 -m bench

clean: ## remove what was built, .venv included
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help run test dev lint format conformance bench clean need-run need-test

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

need-run:
	$(call need,$(APT_RUN))

need-test:
	$(call need,$(APT_TEST))

$(VENV)/tools: pyproject.toml
	@echo "preparing $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python3 -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python3 -m pip install -q --disable-pip-version-check --group build --group test
	touch $@

# The first time with dependencies; after that neither the index nor the resolver is asked. Files that were deleted
# from the tree go too, since pip removes the old version first.
$(VENV)/installed: $(VENV)/tools $(SOURCES)
	@echo "building and installing into $(VENV)"
	flags="--no-build-isolation --force-reinstall --no-deps"
	$(BIN)/python3 -c 'import click, rich, yaml, cffi, prctl, pyroute2' 2>/dev/null || flags="--no-build-isolation"
	PATH="$$PWD/$(BIN):$$PATH" $(BIN)/python3 -m pip install -q --disable-pip-version-check $$flags -Cbuild-dir=build . --root-user-action=ignore
	touch $@
