# One target per habit; continuous integration calls the same ones. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODEL ?= smollm2-135m
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv from the machine if it is there, else one of our own under .tools/. Exported: an environment that uv
# made has no pip, so tests and commands that fetch a wheel take this one.
OWN_UV := $(CURDIR)/.tools/uv/bin/uv
export UV := $(shell command -v uv 2>/dev/null || echo $(OWN_UV))
STAMPS := .tools/stamps
RUST_SOURCES := $(shell find rust -type f \( -name '*.rs' -o -name 'Cargo.toml' -o -name '*.bin' \)) Cargo.toml Cargo.lock
# spectrie-codegen turns on features of crates that others use too: tested together, these would be compiled for both.
TEST_CRATES := --workspace --exclude spectrie-py --exclude spectrie-codegen
# Fails where a filter matches no test; pytest does so itself.
FILTERED := $(PYTHON) tools/filtered_tests.py
# Processes that tests run in. One thread of torch in each: two of them on two cores wait for each other.
PROCESSES ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
# uv trusts the machine's certificates, as pip, git and cargo do: a company's proxy has one of its own.
export UV_SYSTEM_CERTS ?= 1
export CARGO_TERM_COLOR ?= auto
# An extension module takes Python's symbols from the interpreter that loads it. Without this, cargo links
# libpython, which a machine without Python's development package does not have.
export PYO3_BUILD_EXTENSION_MODULE := 1

.PHONY: help
help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# ---- set-up ----------------------------------------------------------------------------------

$(STAMPS)/prerequisites: tools/prerequisites.sh
	@PYTHON=$(PYTHON) tools/prerequisites.sh
	@mkdir -p $(STAMPS) && touch $@

$(OWN_UV): $(STAMPS)/prerequisites tools/uv.txt
	@echo "==> installing uv into .tools/uv"
	$(PYTHON) -m venv .tools/uv
	.tools/uv/bin/python -m pip install --quiet --require-hashes -r tools/uv.txt
	@touch $@

$(STAMPS)/packages: $(STAMPS)/prerequisites requirements.lock | $(UV)
	@echo "==> Python packages (torch is about 3 GB the first time)"
	@[ -x $(BIN)/python ] || $(UV) venv --python $(PYTHON) $(VENV)
	$(UV) pip sync --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock
	@rm -f $(STAMPS)/editable && touch $@

# The module is built in the open, so that progress shows; the editable install then finds it ready. maturin builds it,
# as that install does: cargo alone would use other Python settings, and all that needs Python would be compiled twice.
$(STAMPS)/core: $(STAMPS)/packages $(RUST_SOURCES)
	@echo "==> Rust core (five to nine minutes on two cores the first time)"
	@env -u CONDA_PREFIX VIRTUAL_ENV=$(CURDIR)/$(VENV) PATH="$(dir $(UV)):$$PATH" $(BIN)/maturin develop --uv --release --locked --skip-install
	@touch $@

$(STAMPS)/editable: $(STAMPS)/packages $(STAMPS)/core pyproject.toml kernels/pyproject.toml
	@echo "==> editable install of spectrie and spectrie-kernels"
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . -e kernels
	@touch $@

.PHONY: setup
setup: $(STAMPS)/editable  ## build the core and prepare .venv

.PHONY: model
model: setup  ## fetch and convert the real model (98 MB)
	@$(BIN)/spectrie models fetch $(MODEL)

.PHONY: bigrams
bigrams: model  ## compute the model's bigrams (3 minutes, once)
	@$(BIN)/spectrie models bigrams $(MODEL)

# Text of the benches must stay unseen: a head is measured on it.
UNSEEN := $(wildcard bench/draft/traces/*.jsonl.xz bench/draft/tuning/traces/*/*.jsonl.xz bench/draft/recording/prompts/*.json)
# The head that ships learned from HEAD_PROMPTS=3000 in HEAD_EPOCHS=4: half an hour on two cores with bfloat16, else three times as long.
HEAD_PROMPTS ?= 1600
HEAD_EPOCHS ?= 3
.PHONY: head
head: model  ## train a head of the model (an hour on two cores), continued when stopped; tools/ship_head.py ships it
	@$(BIN)/spectrie train-head $(MODEL) --output heads/$(MODEL) --self-generate --prompts $(HEAD_PROMPTS) --epochs $(HEAD_EPOCHS) \
	  $$(ls $(VENV)/lib/python3*/site-packages/networkx/algorithms/[a-c]*.py | sed 's/^/--data /') \
	  --commit "$$(git rev-parse HEAD 2>/dev/null || echo unknown)" --license "Apache-2.0 (the model's answers), BSD-3-Clause (networkx)" $(addprefix --unseen ,$(UNSEEN))

# ---- habits ----------------------------------------------------------------------------------

.PHONY: demo
demo: model  ## build everything, fetch the model, stream answers with speculation off and on, and with a head if one ships
	$(BIN)/spectrie demo $(MODEL)

.PHONY: test
test: model  ## run every test but those of test-system: Rust, loom, Python, kernels, real processes, the real model
	cargo test --release --locked --quiet $(TEST_CRATES)
	$(FILTERED) cargo test --release --locked $(TEST_CRATES) --test router --config profile.release.package.spectrie-router.opt-level=0
	cargo test --release --locked --quiet -p spectrie-codegen
	@$(MAKE) --no-print-directory test-loom
	$(PYTEST) -m "not deep and not gpu" --ignore tests/system/chaos --ignore tests/system/fleet --ignore tests/system/attacks \
	  --ignore tests/packaging/root --ignore tests/compat tests
	@$(MAKE) --no-print-directory test-kernels

# `required` makes a missing redis-server an error, as .ci/run has it: there nobody reads that a part was NOT RUN.
REDIS ?= optional
# Apart from `test`: three workers of the real model, killed and stopped, leave no core for other tests.
.PHONY: test-system
test-system: model  ## attack a router and strike servers under load: workers killed and cut off, Redis killed and spoilt where it can be had (7 minutes)
	$(BIN)/python -m pytest -q -m "not deep and not gpu" tests/system/attacks
	$(BIN)/python -m pytest -q -s -m "not deep and not gpu" tests/system/chaos
	@if tools/redis.sh; then $(BIN)/python -m pytest -q -m "not deep and not gpu" tests/system/fleet; \
	  else echo "NOT RUN: tests/system/fleet needs redis-server, which could not be installed"; [ "$(REDIS)" != required ]; fi

# Apart from `test`, which needs no root. It compiles what `test` has compiled, so nothing after it.
.PHONY: test-root
test-root: setup  ## install the wheel in a bare Debian, in a folder, and run models there without torch (root, debootstrap; 2 minutes)
	@if $(BIN)/python -m tools.image.kept; then $(BIN)/python -m pytest -q -m "not deep and not gpu" tests/packaging/root; \
	  else echo "NOT RUN: tests/packaging/root"; fi

# Not part of `test`: it needs Go and a network, and the newest of a package is another one each week.
.PHONY: compat
compat: setup  ## talk to a server with the newest openai package, grpcurl, ghz and the examples (Go; 5 minutes the first time)
	tools/compat.sh
	$(BIN)/python -m pytest -q -s tests/compat tests/examples

# Not part of `test`: it builds Kubernetes, needs root, and keeps half a gigabyte in ~/.cache/spectrie/kube.
.PHONY: kube-e2e
kube-e2e: bigrams  ## run the chart on a real API server and act out its pods (Go, root; 20 minutes the first time, then 6)
	tools/kube/build.sh
	$(BIN)/python -m tools.kube

# A minute, nearly all of it compiling: a build of its own, since loom has other atomics. Unoptimised, which
# compiles sooner and checks debug assertions.
.PHONY: test-loom
test-loom:  ## run what threads share in every order of their steps (loom, stable Rust)
	RUSTFLAGS="--cfg loom" $(FILTERED) cargo test --locked -p spectrie-trie --lib --target-dir target/loom -- interleavings
	RUSTFLAGS="--cfg loom" $(FILTERED) cargo test --locked -p spectrie-cpu --lib --target-dir target/loom -- interleavings

.PHONY: test-miri
test-miri:  ## run a quick part of the Miri tests (5 minutes; NOT RUN without nightly Rust)
	@tools/nightly.sh short

.PHONY: nightly
nightly:  ## install the nightly Rust that test-miri and test-deep need, where rustup can
	@tools/nightly.sh install

.PHONY: test-bare
test-bare:  ## run `make demo` and a quick part of the tests on a bare Debian, in a folder (root; 15 minutes)
	tools/bare_debian.sh

# The part of the tests that a bare system could break: tools found, wheels fetched, processes started.
.PHONY: test-quick
test-quick: model
	cargo test --release --locked --quiet -p spectrie-text
	$(PYTEST) -m "not deep and not gpu" tests/model tests/cli tests/llm

# In a process of their own: the interpreter would run the kernels of every other test, ten times as slowly.
.PHONY: test-kernels
test-kernels: setup  ## run Triton kernels against their references (interpreter without a GPU)
	$(PYTEST) -m "not deep" kernels/tests

.PHONY: test-deep
test-deep: model  ## run the long tests: all marked `deep`, loom, Miri, ThreadSanitizer (nightly Rust)
	$(FILTERED) cargo test --release --locked $(TEST_CRATES) --tests -- --ignored
	@$(MAKE) --no-print-directory test-loom
	tools/nightly.sh
	@if $(BIN)/python -m tools.image images --check; then $(MAKE) --no-print-directory images; \
	  else echo "NOT RUN: tests/deploy/test_built_images.py"; fi
	@if command -v qemu-aarch64 >/dev/null; then $(MAKE) --no-print-directory release; \
	  else echo "NOT RUN: tests/packaging/test_aarch64.py needs the Debian package qemu-user"; fi
	@$(BIN)/python -m tools.image.kept || echo "NOT RUN: tests/packaging/root/test_release.py in a root"
	$(BIN)/python -m pytest -q -m "deep" --timeout 7200 tests
	$(BIN)/python -m pytest -q -m "deep" --timeout 7200 kernels/tests

.PHONY: lint lint-rust lint-python
lint: lint-rust lint-python  ## check formatting, lints, types, generated code; rewrites nothing
lint-rust: setup  ## the half of it that reads Rust, and licences
	cargo fmt --all --check
	@# With the Python settings that maturin found, or the module would count as changed.
	@# Targets that are not tested by default, as the router's, are not among all.
	export PYO3_CONFIG_FILE="$$(ls -t $(CURDIR)/target/maturin/pyo3-config-$$(rustc -vV | sed -n 's/^host: //p')-*.txt | head -1)"; \
	  cargo clippy --release --locked --workspace --all-targets -- -D warnings; \
	  cargo clippy --release --locked --workspace --test router -- -D warnings
	cargo run --release --locked --quiet -p spectrie-codegen -- --check
	$(BIN)/python tools/licenses.py --check
lint-python: setup  ## the half of it that reads Python, and messages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy python/spectrie kernels/spectrie_kernels tests bench tools proto examples
	$(BIN)/mypy -p kernels.tests
	MYPYPATH=python $(BIN)/stubtest spectrie._core --mypy-config-file pyproject.toml --allowlist tools/stubtest-allowlist.txt
	$(BIN)/python proto/generate.py --check

.PHONY: fmt
fmt: setup  ## format Rust and Python
	cargo fmt --all
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: generate
generate: $(STAMPS)/packages  ## regenerate all checked-in generated files: messages, stub, options, their docs
	cargo run --release --locked --quiet -p spectrie-codegen
	$(BIN)/python proto/generate.py

.PHONY: bench
bench: bigrams  ## measure CPU path, speculation and router, rivals beside ours (README, docs/benchmarks.md)
	$(BIN)/python -m bench

.PHONY: bench-router
bench-router: model  ## measure the router: time added, ceiling, memory, pauses, overload, floods; count what workers behind it compute (12 minutes)
	$(BIN)/python -m bench router caches serving

.PHONY: bench-cpu
bench-cpu: bigrams  ## measure the CPU path beside transformers (25 minutes); LLAMA=1 adds llama.cpp (compiles 12 more)
	$(BIN)/python -m bench cpu $(if $(LLAMA),--llama)

.PHONY: bench-draft
bench-draft: model  ## measure drafting beside other drafters: accepted tokens, times, memory (20 minutes)
	$(BIN)/python -m bench draft

.PHONY: bench-routing
bench-routing: bigrams  ## measure intent routing with a warm memory, one to four requests at a time
	$(BIN)/python -m bench routing

.PHONY: bench-questions
bench-questions: model  ## measure speculation over FILE: Spec-Bench's question.jsonl or ShareGPT, by category
	$(BIN)/python -m bench speculation --questions $(FILE)

.PHONY: bench-hostile
bench-hostile: model  ## measure what 197 tenants notice of three hostile ones (10 minutes)
	$(BIN)/python -m bench hostile

.PHONY: bench-against
bench-against: bigrams  ## measure this build and another in turn: BASE=CHECKOUT, built (15 minutes; QUICK=1 takes 3)
	$(BIN)/python -m bench against --base $(BASE) $(if $(QUICK),--quick)

.PHONY: bench-scale
bench-scale: model  ## measure draft memory at size; BASE=CHECKOUT beside it (30 minutes; QUICK=1 takes 3)
	$(BIN)/python -m bench scale $(if $(BASE),--base $(BASE)) $(if $(QUICK),--quick)

.PHONY: wheel
wheel: setup  ## build both wheels into dist/
	$(BIN)/maturin build --release --locked --strip --out dist
	$(UV) build --quiet --wheel --python $(BIN)/python --no-build-isolation --out-dir dist kernels

.PHONY: release
release: setup  ## build a release with link-time optimisation into release/: wheels of x86_64 and aarch64, sources, checksums, a local index
	$(BIN)/python -m tools.release release --uv $(UV)

.PHONY: images
images: wheel  ## make the images router and cpu as an OCI layout in images/ (root, debootstrap; 5 minutes)
	$(BIN)/python -m tools.image images

.PHONY: lock
lock: | $(UV)  ## pin the Python packages again, after pyproject.toml changed
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --no-emit-package spectrie-kernels pyproject.toml --extra worker --group dev --group peers -o requirements.lock

.PHONY: licenses
licenses: setup  ## rewrite THIRD_PARTY_LICENSES.md from the crates in Cargo.lock
	$(BIN)/python tools/licenses.py

.PHONY: clean
clean:  ## remove everything built here (not the model cache)
	rm -rf target dist release .release.* images .images.* .venv .tools python/spectrie/_core.abi3.so .pytest_cache .mypy_cache .ruff_cache
