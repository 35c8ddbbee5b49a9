# Omni-Flow: everything a fresh machine needs, from Python >= 3.11, a Rust toolchain and make. `make help` explains.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON := $(BIN)/python
# uv installs ten times quicker than pip; where it is missing, we install it for this checkout alone.
UV     := $(shell command -v uv || echo .uv/bin/uv)
export UV_PYTHON_DOWNLOADS := never
export UV_LINK_MODE ?= hardlink

PYTHON_SOURCES := omniflow scheduler workers core-rs/omniflow_core proto tests benchmarks examples
# Of the extension module: tests and benches are no part of it.
RUST_SOURCES   := Cargo.toml Cargo.lock $(shell find core-rs \( -name tests -o -name benches -o -name codegen \) -prune -o \( -name '*.rs' -o -name Cargo.toml -o -name pyproject.toml \) -print)
# No doc tests (there are none) and no examples (lint-rust checks them); `benches` and `codegen` need crates that no test does.
RUST_TESTS     := --workspace --exclude omniflow-python --exclude omniflow-benches --exclude omniflow-codegen --tests
TEST_PROCESSES ?= 2
# Most of the Rust tests wait for sockets.
RUST_THREADS   ?= 4
# It takes make's -j2 for an order to itself, and complains that it cannot follow.
CARGO          := env -u MAKEFLAGS -u MFLAGS cargo
PROTOS         := $(wildcard proto/omniflow/v1/*.proto)

.PHONY: help setup demo test lint lint-python lint-rust build-rust-tests test-rust test-python bench bench-control bench-data bench-idle bench-llm bench-peers soak proto constraints clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.installed ## set up everything in .venv (what plain `make` does)

demo: setup ## read a picture, answer a question about it, speak the answer: on real weights, in real processes
	$(BIN)/omniflow demo

# Two lanes where each alone would leave a core idle: installing waits for the network and for one last compiler.
test: ## everything that must be green: linters, types, Rust tests, Python tests
	@echo "sets up .venv, and lints and builds the Rust tests meanwhile: each says what it did when it is done (minutes the first time)"
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) setup build-rust-tests
	@$(MAKE) --no-print-directory lint-python test-rust test-python

lint: lint-python lint-rust ## ruff, mypy --strict, import-linter, cargo fmt and clippy

lint-python: setup
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

lint-rust: .toolchain
	cargo fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

build-rust-tests: lint-rust
	$(CARGO) test $(RUST_TESTS) --no-run

test-rust: .toolchain
	RUST_TEST_THREADS=$(RUST_THREADS) $(CARGO) test $(RUST_TESTS)

test-python: setup
	$(BIN)/pytest -n $(TEST_PROCESSES) --dist loadfile

bench: bench-control bench-data bench-idle bench-llm ## every benchmark; one JSON object a row on stdout, tables on stderr

bench-control: setup ## the control plane against its peers
	$(PYTHON) benchmarks/control_plane.py
	$(PYTHON) benchmarks/streams.py
	$(PYTHON) benchmarks/held_interpreter.py
	$(PYTHON) benchmarks/waiting_jobs.py

bench-data: setup ## page keys, prefix indexes, page pools, tensors and weights against their peers
	$(PYTHON) benchmarks/data_prefix.py
	$(PYTHON) benchmarks/data_pages.py
	$(PYTHON) benchmarks/data_transfer.py
	$(PYTHON) benchmarks/data_tensors.py
	$(PYTHON) benchmarks/weights_memory.py

bench-idle: setup ## what a cluster costs that does nothing
	$(PYTHON) benchmarks/idle_cluster.py

bench-llm: setup ## the llm role, through the system and its engine alone, against Hugging Face generate
	$(PYTHON) benchmarks/llm_system.py
	$(PYTHON) benchmarks/llm_engine.py
	$(PYTHON) benchmarks/stored_prompts.py

bench-peers: setup ## set up the peers' environments under .peers/ (large, slow; benchmarks skip what is missing)
	benchmarks/peers/setup.sh

soak: setup ## long tests
	$(BIN)/pytest -m soak --timeout 3600 -o addopts="-ra --strict-markers"

proto: .toolchain ## regenerate the protobuf code of Rust and Python from proto/
	cargo run -q -p omniflow-codegen
	@$(MAKE) --no-print-directory setup
	$(PYTHON) proto/generate.py

constraints: $(UV) ## resolve constraints.txt anew
	{ echo '# The versions that every environment of this project uses; made by `make constraints`.'; \
	  $(UV) pip compile -q --no-emit-index-url --no-header --no-annotate --all-extras pyproject.toml | grep -v '^-e'; } > constraints.new
	mv constraints.new constraints.txt

clean: ## remove what was built (not converted weights in ~/.cache/omniflow, nor the peers in .peers)
	rm -rf $(VENV) .uv target out .omniflow core-rs/omniflow_core/_native*.so
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# --- how it is set up ----------------------------------------------------------------------------------------------

.PHONY: .toolchain
.toolchain:
	@command -v cargo >/dev/null || { echo "omniflow: no Rust toolchain (cargo) on PATH: install Rust 1.88 or later (https://rustup.rs), then run make again" >&2; exit 1; }
	@found=$$(cargo --version 2>&1) || { echo "omniflow: cargo does not run ($${found%%$$'\n'*}): run rustup default stable, then make again" >&2; exit 1; }; \
	[[ $$found =~ ([0-9]+)\.([0-9]+) ]] && (( BASH_REMATCH[1] > 1 || BASH_REMATCH[2] >= 88 )) || { echo "omniflow: $$found is too old: Rust 1.88 or later is needed (rustup update stable), then run make again" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "omniflow: no C compiler (cc) on PATH: install one (Debian: apt-get install gcc), then run make again" >&2; exit 1; }

# Sets $python to the first interpreter on PATH that is new enough.
define FIND_PYTHON
python=; for each in python3 python3.14 python3.13 python3.12 python3.11; do \
	if command -v $$each >/dev/null && $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$each; break; fi; done; \
[[ $$python ]] || { echo "omniflow: no Python 3.11 or later on PATH (found: $$(python3 --version 2>/dev/null || echo none)): install one, then run make again" >&2; exit 1; }
endef

.uv/bin/uv:
	@$(FIND_PYTHON); \
	$$python -c 'import ensurepip, venv' 2>/dev/null || { echo "omniflow: $$python has no venv module: install it (Debian: apt-get install python3-venv), or install uv, then run make again" >&2; exit 1; }; \
	$$python -m venv .uv
	.uv/bin/pip install -q uv

$(VENV)/bin/python: | $(UV)
	@$(UV) venv -q --allow-existing --python '>=3.11' $(VENV) 2>/dev/null || { $(FIND_PYTHON); $(UV) venv -q --allow-existing --python $$python $(VENV); }

$(VENV)/.installed: pyproject.toml constraints.txt $(RUST_SOURCES) | .toolchain $(VENV)/bin/python
	@echo "setting up .venv: builds the Rust core and installs what the demo and the tests need (two to ten minutes the first time)"
	env -u MAKEFLAGS -u MFLAGS $(UV) pip install -q --python $(PYTHON) -c constraints.txt -e '.[demo,dev]' -e core-rs --reinstall-package omniflow-core
	@touch $@
