# TrainBench. `make help` lists the targets; `make demo` and `make test` need nothing before them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# A package index instead of pip's own configuration, such as a mirror.
INDEX_URL ?=
# A folder or page with CPU-only wheels of torch; without it the package index decides.
WHEELS ?=
NODES ?= 4
# Of `make nightly`: tests/nightly.py names them. SEED=N repeats what fuzz, kills or soak did; of pages, PAGES=FOLDER keeps pictures and PDFs.
SUITE ?=
PAGES ?=
# Of the tests: two begin with those on nodes, which mostly wait, the others with those that compute.
WORKERS ?= 4

VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Off: tests start Python by the thousand, and each start would compile this checkout anew.
export PYTHONDONTWRITEBYTECODE :=
SHARED := $(wildcard ../shared)
ifneq ($(SHARED),)
export TRAINBENCH_SHARED ?= $(abspath $(SHARED))
endif

# Every pip below reads these from the environment: no address, which may hold a password, in argv.
ifneq ($(INDEX_URL),)
export PIP_INDEX_URL := $(INDEX_URL)
endif
ifneq ($(WHEELS),)
export PIP_FIND_LINKS := $(WHEELS)
endif

PIP := $(BIN)/python -m pip install --quiet
SETUP := python -m runner setup --yes
GPUS := .trainbench/inventory/gpu
GPU_NODES := .trainbench/gpu-nodes
PYTEST := python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SHELL_FILES := .ci/run tools/make-venv tools/system-packages tests/cluster/enter.sh tests/cluster/slurm.sh \
  roles/container_image/files/trainbench-sshd

.PHONY: help
help:  ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(VENV)/.run  ## Make the commands' own environment, .venv (0.4 GB; no torch, nothing else)
	@echo "Next: source $(BIN)/activate, then trainbench --help"

.PHONY: demo
demo:  ## Set up this machine, run matrix.yaml on it, show the table (no root, no GPU)
	@$(MAKE) --no-print-directory $(VENV)/.run
	@trainbench demo
	@echo "In a new terminal, first: source $(BIN)/activate"

.PHONY: gpu-smoke
gpu-smoke:  ## The same on this machine's NVIDIA GPUs, with the torch of python3 (or TORCH=/path/to/python3)
	@precision=$$(tools/gpu-inventory $(GPUS)); \
	$(MAKE) --no-print-directory $(VENV)/.run; \
	$(SETUP) -i $(GPUS); \
	sed "s/bf16/$$precision/" matrices/gpu/gpu-smoke.yaml >.trainbench/gpu-smoke.yaml; \
	python -m runner bench --matrix .trainbench/gpu-smoke.yaml -i $(GPUS)

.PHONY: gpu-nodes
gpu-nodes: NODES = 2
gpu-nodes:  ## The same on NODES=2 test nodes that share them out: several nodes on one machine (root)
	@precision=$$(NCCL_SOCKET_IFNAME=eth0 tools/gpu-inventory $(GPUS)-node $(NODES)); \
	tools/system-packages ip ssh sshd nsenter; \
	$(MAKE) --no-print-directory $(VENV)/.run; \
	trap 'python -m tests.cluster down --name gpu' EXIT; \
	python -m tests.cluster up --name gpu --dir $(GPU_NODES) --nodes $(NODES) --gpus \
	  --var-file $(GPUS)-node/group_vars/all/cluster.yml --var setup_privileged=false; \
	$(SETUP) -i $(GPU_NODES)/inventory; \
	sed "s/bf16/$$precision/" matrices/gpu/gpu-nodes.yaml >.trainbench/gpu-nodes.yaml; \
	python -m runner bench --matrix .trainbench/gpu-nodes.yaml -i $(GPU_NODES)/inventory

# Lint and the tests share the cores: lint's words come in one piece, when it has ended.
.PHONY: test
test:  ## Lint, unit, golden, role and trainer tests, then those on real test nodes
	@$(MAKE) --no-print-directory --jobs 2 $(VENV)/.dev packages
	@mkdir -p build
	@{ if nice $(MAKE) --no-print-directory lint >build/lint.txt 2>&1; then echo "lint: passed"; \
	   else cat build/lint.txt; echo "lint: failed"; exit 1; fi; } & \
	tests=0; \
	{ $(MAKE) --no-print-directory setup && $(PYTEST) tests; } || tests=$$?; \
	wait $$! || { echo "lint failed, see above or build/lint.txt"; exit 1; }; \
	exit $$tests

.PHONY: packages
packages: $(VENV)/bin/pip
	@tools/system-packages

.PHONY: lint
lint: $(VENV)/.dev  ## Lines of each package, ruff, mypy strict, import order, ansible-lint (production), shellcheck
	tools/budget
	ruff check .
	ruff format --check .
	mypy
	lint-imports --no-cache --no-logo
	shellcheck $(SHELL_FILES)
	ansible-lint --offline --strict -q

.PHONY: unit
unit: $(VENV)/.dev setup  ## Tests that need no root: unit, golden (whole commands), roles, trainer
	$(PYTEST) -m 'not cluster' tests

.PHONY: nodes
nodes: $(VENV)/.dev setup  ## Tests on real test nodes (needs root on Linux)
	tools/system-packages
	$(PYTEST) -m cluster tests

PROGRAMS_pages := chromium pdftotext
PROGRAMS_setup := tinyproxy

.PHONY: nightly
ifeq ($(SUITE),)
nightly: $(VENV)/.dev  ## SUITE=...: run a suite outside `make test`; without it: how each one ended last (root)
	@python -m tests.nightly
else
nightly: $(VENV)/$(if $(filter pages,$(SUITE)),.pages,.dev) setup
	tools/system-packages
	$(if $(PROGRAMS_$(SUITE)),tools/system-packages $(PROGRAMS_$(SUITE)))
	rm -f build/nightly/$(SUITE).xml
	$(if $(PAGES),TRAINBENCH_PAGES=$(abspath $(PAGES))) python -m pytest -q --nightly $(SUITE) \
	  --junitxml build/nightly/$(SUITE).xml tests || failed=$$?; \
	python -m tests.nightly $(SUITE); \
	exit $${failed:-0}
endif

.PHONY: setup
setup: $(VENV)/.run  ## Set up this machine as the node of inventory/local
	$(SETUP)

.PHONY: cluster
cluster: $(VENV)/.dev  ## Bring up NODES=4 real test nodes on this machine (root)
	tools/system-packages
	python -m tests.cluster up --nodes $(NODES) --var cluster_root=$(CURDIR)/.trainbench \
	  --var cluster_devices_per_node=2 --var 'cluster_systems=[torch_gpt]' \
	  --var setup_privileged=false \
	  --var 'cluster_env={GLOO_SOCKET_IFNAME: eth0}'

.PHONY: cluster-down
cluster-down: $(VENV)/.dev  ## Take this checkout's test nodes down, without a trace (ALL=1: the machine's)
	python -m tests.cluster down $(if $(ALL),--all,--mine)

.PHONY: slurm-cluster
slurm-cluster: $(VENV)/.dev  ## Bring up Slurm: a login node and NODES=4 compute nodes on this machine (root)
	tools/system-packages
	python -m tests.cluster up --slurm --name slurm --nodes $(NODES) \
	  --var 'cluster_systems=[torch_gpt]'

.PHONY: slurm-cluster-down
slurm-cluster-down: $(VENV)/.dev  ## Take the Slurm nodes down, without a trace
	python -m tests.cluster down --name slurm

.PHONY: site
site: $(VENV)/.docs  ## Write the documents as a site, build/site/index.html, read and searched from disk
	NO_MKDOCS_2_WARNING=1 python -m mkdocs build --quiet --strict
	python -m pytest -q tests/tools/test_site.py
	@echo "Open $(CURDIR)/build/site/index.html"

.PHONY: release
release: $(VENV)/.release lint  ## Check, build wheel and sdist in build/dist, check them, tag HEAD v<version> (push it yourself)
	git diff --quiet HEAD || { echo "commit first: a tag names what is committed"; exit 1; }
	head -3 CHANGELOG.md | grep -qx "## $$(python -c 'import runner; print(runner.__version__)')"
	rm -rf build/dist
	python -m hatchling build -d $(CURDIR)/build/dist
	python -m twine check --strict build/dist/*
	python -m pytest -q tests/tools/test_wheel.py
	$(if $(CI),,git tag "v$$(python -c 'import runner; print(runner.__version__)')")

.PHONY: pictures
pictures: $(VENV)/.dev setup  ## Take the tutorial's pictures anew, from runs on this machine (Chromium; minutes)
	python -m tools.site.pictures

.PHONY: overhead
overhead: $(VENV)/.dev  ## Measure what bench adds to a cell, beside ssh by hand (root)
	tools/system-packages
	python -m benchmarks.overhead

.PHONY: slurm-overhead
slurm-overhead: $(VENV)/.dev  ## Measure what a run costs on Slurm beyond a script of sbatch and srun (root)
	tools/system-packages
	python -m benchmarks.slurm_overhead

.PHONY: scale
scale: $(VENV)/.dev  ## Measure what grows with the nodes of a run, up to 32, on both engines (root)
	tools/system-packages
	python -m benchmarks.scale

.PHONY: setting-up
setting-up: $(VENV)/.dev setup  ## Measure a setup.yml that has nothing to do, on 1 to 8 nodes (root)
	tools/system-packages
	python -m benchmarks.setup

.PHONY: collecting
collecting: $(VENV)/.dev  ## Measure how fast a campaign of 1,000 runs is collected (1 GB of /tmp)
	python -m benchmarks.collect

.PHONY: coverage
coverage: $(VENV)/.dev  ## Measure how often intervals and differences of speeds are right: simulated runs (minutes)
	python -m benchmarks.coverage

.PHONY: tuning
tuning: $(VENV)/.dev  ## Replay tune on tables of measured layouts (LAYOUTS="FILE.csv...", else TRAINBENCH_SHARED's; NOISE=3)
	OPENBLAS_NUM_THREADS=1 python -m benchmarks.tuning $(if $(NOISE),--noise $(NOISE)) \
	  $(or $(LAYOUTS),$(wildcard $(TRAINBENCH_SHARED)/layouts/*.csv))

.PHONY: clean
clean:  ## Remove what make made here: environments, staged data, caches (never runs/)
	rm -rf $(VENV) .trainbench build .mypy_cache .pytest_cache .ruff_cache .hypothesis .ansible

$(VENV)/bin/pip: tools/make-venv
	tools/make-venv $(PYTHON) $(VENV)
	touch $@

$(VENV)/.run: pyproject.toml $(VENV)/bin/pip
	$(PIP) -e .
	touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/bin/pip
	$(PIP) -e '.[test]'
	touch $(VENV)/.run $@

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) -e '.[docs]'
	touch $@

$(VENV)/.release: $(VENV)/.dev
	$(PIP) -e '.[release]'
	touch $@

$(VENV)/.pages: $(VENV)/.dev
	$(PIP) -e '.[pages]'
	touch $@
