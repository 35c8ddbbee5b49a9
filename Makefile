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

PYTHON_SOURCES := omniflow scheduler workers tests benchmarks examples
RUST_SOURCES   := Cargo.toml Cargo.lock $(shell find core-rs -name '*.rs' -o -name Cargo.toml -o -name pyproject.toml)
PROTOS         := $(wildcard proto/omniflow/v1/*.proto)

.PHONY: help setup demo test lint lint-python lint-rust test-rust test-python bench bench-control bench-idle bench-llm bench-peers soak proto constraints clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.installed ## set up everything in .venv (what plain `make` does)

demo: setup ## read a picture, answer a question about it, speak the answer: on real weights, in real processes
	$(BIN)/omniflow demo

test: lint test-rust test-python ## everything that must be green: linters, types, Rust tests, Python tests


lint-python: setup
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

lint-rust: .toolchain
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

test-rust: .toolchain
	cargo test --workspace --exclude omniflow-python

test-python: setup
	$(BIN)/pytest

bench: bench-control bench-idle bench-llm ## every benchmark; one JSON object a row on stdout, tables on stderr

bench-control: setup ## the control plane against its peers
	$(PYTHON) benchmarks/control_plane.py

bench-idle: setup ## what a cluster costs that does nothing
	$(PYTHON) benchmarks/idle_cluster.py

bench-llm: setup ## the llm role, through the system and its engine alone, against Hugging Face generate
	$(PYTHON) benchmarks/llm_system.py
	$(PYTHON) benchmarks/llm_engine.py

bench-peers: setup ## set up the peers' environments under .peers/ (large, slow; benchmarks skip what is missing)
	benchmarks/peers/setup.sh

soak: setup ## long tests
	$(BIN)/pytest -m soak --timeout 3600 -o addopts="-ra --strict-markers"

proto: setup ## regenerate the protobuf code from proto/
	$(PYTHON) proto/generate.py

constraints: $(UV) ## resolve constraints.txt anew
	{ echo '# The versions that every environment of this project uses; made by `make constraints`.'; \
	  $(UV) pip compile -q --no-emit-index-url --no-header --no-annotate --all-extras pyproject.toml | grep -v '^-e'; } > constraints.new
	mv constraints.new constraints.txt

clean: ## remove what was built (not the cache of converted weights)
	rm -rf $(VENV) .uv target out .omniflow core-rs/omniflow_core/_native*.so .mypy_cache .ruff_cache .pytest_cache

# --- how it is set up ----------------------------------------------------------------------------------------------

.PHONY: .toolchain
.toolchain:
	@command -v cargo >/dev/null || { echo "omniflow: no Rust toolchain (cargo) on PATH: install Rust 1.88 or later (https://rustup.rs), then run make again" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "omniflow: no C compiler (cc) on PATH: install one (Debian: apt-get install gcc), then run make again" >&2; exit 1; }

.uv/bin/uv:
	@command -v python3 >/dev/null || { echo "omniflow: no python3 on PATH: install Python 3.11 or later, then run make again" >&2; exit 1; }
	python3 -m venv .uv
	.uv/bin/pip install -q uv

$(VENV)/bin/python: | $(UV)
	$(UV) venv -q --allow-existing --python '>=3.11' $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt $(RUST_SOURCES) | .toolchain $(VENV)/bin/python
	$(UV) pip install -q --python $(PYTHON) -c constraints.txt -e '.[demo,dev]' -e core-rs --reinstall-package omniflow-core
	@touch $@
