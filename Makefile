# Everything a person or CI runs here. Needs Python 3.11 or newer and, for demo, dev, test and bench, Go.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# The interpreter that builds .venv, for instance: make test PYTHON=python3.12
PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)
# Test processes at once, and of the tests that run whole systems.
TEST_PROCESSES ?= 3
HEAVY_TEST_PROCESSES ?= 2
# More arguments for pytest, for instance: make test PYTEST_ARGUMENTS='-k squid'
PYTEST_ARGUMENTS ?=
# Arguments of the benchmark, for instance: make bench BENCH_ARGUMENTS='--only leases'
BENCH_ARGUMENTS ?=
# Of `make torture`: seconds of killing, and replicas of the lease API.
DURATION ?= 300
APIS ?= 2

VENV := .venv
BIN := $(VENV)/bin
BUILT := $(VENV)/.built
# Runs some of the tests; the shell variable status is then 0 when they passed and 5 when none was chosen.
pytest = echo "==> tests: $(1)"; status=0; $(BIN)/python -m pytest --dist worksteal $(1) $(PYTEST_ARGUMENTS) || status=$$?
PIP_FLAGS := --quiet --no-input --disable-pip-version-check
PIP_TOOLS := build/pip-tools
LOWEST_PYTHON := python3.11

.DEFAULT_GOAL := help
.PHONY: help demo demo-kubernetes dev test conformance lint bench torture requirements clean squid control-plane node

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

demo: $(BUILT) ## Show the main job from kubectl apply to a page fetched through a leased proxy
	@$(BIN)/python -m app.dev.demo

demo-kubernetes: $(BUILT) ## Show proxies that are Pods, on a real node of this machine (as root, on Debian)
	@$(BIN)/python -m app.dev.demo_kubernetes

dev: $(BUILT) ## Run everything on this machine until Ctrl-C; state is kept in .dev
	@$(BIN)/egress-proxies dev

test: lint squid control-plane node ## Everything that CI runs
	@$(call pytest,-n $(TEST_PROCESSES) -m 'not heavy'); light=$$status; \
		$(call pytest,-n $(HEAVY_TEST_PROCESSES) -m heavy); heavy=$$status; \
		case "$$light $$heavy" in "0 0" | "0 5" | "5 0") ;; *) exit 1 ;; esac

conformance: squid control-plane node ## The contract of every provider, with what any fault at any step leads to
	@$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal tests/providers -k Conformance $(PYTEST_ARGUMENTS)

lint: $(BUILT) ## Style, types and the layers of the packages
	@echo "==> ruff, mypy, import-linter"
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { echo "format with: $(BIN)/ruff format" >&2; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(BUILT) squid control-plane ## Measure; results go to build/bench.json, the plot to build/bench.svg
	@$(BIN)/python -m bench $(BENCH_ARGUMENTS)

torture: $(BUILT) squid control-plane ## Kill everything at random under load and count leases; DURATION=300 APIS=2
	@$(BIN)/python -m bench.torture --seconds $(DURATION) --apis $(APIS)

squid: $(BUILT)
	@$(BIN)/python -m app.dev.squid

control-plane: $(BUILT)
	@echo "==> etcd, kube-apiserver, kube-controller-manager (built from Go modules once per machine)"
	@$(BIN)/python -m app.dev.binaries

node: control-plane ## Prepare a real Kubernetes node for tests (as root, on Debian): packages, kubelet, images
	@echo "==> a Kubernetes node on this machine"
	@$(BIN)/python -m app.dev.node_machine

$(BUILT): requirements.txt pyproject.toml
	@[ -n "$(PYTHON)" ] && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer is needed and '$(or $(PYTHON),python3)' is not: make ... PYTHON=python3.11" >&2; exit 1; }
	@echo "==> building the Python environment in $(VENV)"; \
		$(PYTHON) -m venv --clear $(VENV); \
		$(BIN)/python -m pip install $(PIP_FLAGS) --require-hashes --requirement requirements.txt; \
		$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation --editable .; \
		touch $@; \
		echo "    done in $$SECONDS s"

requirements: ## Pin the dependencies of pyproject.toml anew; newer ones with PIP_COMPILE_ARGUMENTS=--upgrade
	@$(LOWEST_PYTHON) -m venv --clear $(PIP_TOOLS)
	@$(PIP_TOOLS)/bin/python -m pip install $(PIP_FLAGS) pip-tools==7.6.2
	@PIP_FIND_LINKS= $(PIP_TOOLS)/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--extra dev --extra test --build-deps-for editable $(PIP_COMPILE_ARGUMENTS) \
		--output-file requirements.txt pyproject.toml
	@{ echo '# Made by `make requirements` from pyproject.toml, on the lowest Python it allows: do not edit.'; \
		cat requirements.txt; } > build/requirements.txt
	@mv build/requirements.txt requirements.txt

clean: ## Remove what make has made, the state of `make dev` included; stop that first
	rm -rf $(VENV) .dev build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
