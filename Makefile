PYTHON  ?= python3
WORKERS ?= 2
SECONDS ?= 60
SEED    ?= 0

VENV := .venv
PY   := $(VENV)/bin/python

export PIP_NO_INPUT := 1
# Tests run in parallel on small matrices, where threads of the linear algebra library only get in each other's way.
export OPENBLAS_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo serve test quick fuzz lint browser docs pages release bench bench-quick clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 14

demo: $(VENV)/.demo-ready ## Install the package into .venv and run the demonstration
	$(PY) examples/demo.py

serve: $(VENV)/.serve-ready ## Install the page into .venv and open it in the browser
	$(VENV)/bin/eindiff serve

test: lint browser ## Lint, type-check and run all tests and doctests
	$(PY) -m pytest -n $(WORKERS)

quick: $(VENV)/.test-ready ## Run the fast tests
	$(PY) -m pytest -n $(WORKERS) --quick

fuzz: $(VENV)/.test-ready ## Check random programs for SECONDS from SEED (KIND=..., PROGRAM=... repeat one)
	@PYTHONPATH=tests:tests/helpers $(PY) -m fuzz --seconds $(SECONDS) --seed $(SEED) \
	  $(if $(KIND),--kind $(KIND)) $(if $(PROGRAM),--program $(PROGRAM))

lint: $(VENV)/.test-ready ## Run ruff, the rules of imports, and mypy
	$(PY) -m ruff check .
	$(VENV)/bin/lint-imports
	$(PY) -m mypy

# The tests of the page need a browser, and fail without one. It comes from the system's packages where they can be
# installed.
browser:
	@if command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium; } \
	    || echo "Chromium could not be installed: without it the tests of the page fail (apt-get install chromium)."; \
	else echo "The tests of the page need Chromium, and fail without it: sudo apt-get install chromium"; fi

docs: $(VENV)/.docs-ready ## Build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "build/site/index.html; for the search: $(PY) -m http.server -d build/site"

pages: $(VENV)/.test-ready ## Write what the code on pages prints below it, the notebooks, and the list of public names
	$(PY) docs/generate/blocks.py
	$(PY) docs/generate/notebooks.py
	$(PY) tests/docs/public_api.py

# PYTHONS="python3.11 python3.12" tries the wheel with several interpreters.
release: $(VENV)/.release-ready ## Build wheel and source archive into dist, install and try them in empty environments
	$(PY) tools/release.py --lowest $(PYTHONS)

bench: $(VENV)/.bench-ready ## Run all benchmarks against all peers (hours)
	$(PY) -m benchmarks --out benchmarks/results
	$(PY) -m benchmarks solvers --out benchmarks/results
	$(PY) -m benchmarks.structures --out benchmarks/results
	$(PY) -m benchmarks.structure_peers --out benchmarks/results
	$(PY) -m benchmarks.drop_in jax --scale 5 --slower 1.1 --direct --out benchmarks/results
	$(PY) -m benchmarks.drop_in torch --out benchmarks/results
	$(PY) -m benchmarks.relations --out benchmarks/results
	$(PY) -m benchmarks.linear_algebra --out benchmarks/results
	$(PY) -m benchmarks.convolutions --out benchmarks/results
	$(PY) -m benchmarks.operators --out benchmarks/results
	$(PY) -m benchmarks.loops --out benchmarks/results
	$(PY) -m benchmarks.functions --out benchmarks/results
	$(PY) -m benchmarks.shards --rows 20000000 --out benchmarks/results

bench-quick: $(VENV)/.bench-ready ## Run the small sizes of the benchmarks (minutes)
	$(PY) -m benchmarks --quick --out build/benchmarks
	$(PY) -m benchmarks solvers --quick --out build/benchmarks

clean: ## Remove the environment, build outputs and caches
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo-ready: $(VENV)/.created pyproject.toml
	$(PY) -m pip install -q -e .
	@touch $@

$(VENV)/.serve-ready: $(VENV)/.created pyproject.toml
	$(PY) -m pip install -q -e '.[serve]'
	@touch $@ $(VENV)/.demo-ready

# torch goes in first, on its own and pinned, so that resolving the rest can never choose another build of it.
$(VENV)/.test-ready: $(VENV)/.created pyproject.toml constraints.txt
	$(PY) -m pip install -q -c constraints.txt torch
	$(PY) -m pip install -q -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.demo-ready $(VENV)/.serve-ready

$(VENV)/.docs-ready: $(VENV)/.created pyproject.toml
	$(PY) -m pip install -q -e '.[docs]'
	@touch $@ $(VENV)/.demo-ready

$(VENV)/.release-ready: $(VENV)/.created pyproject.toml
	$(PY) -m pip install -q -e '.[release]'
	@touch $@

$(VENV)/.bench-ready: $(VENV)/.test-ready
	$(PY) -m pip install -q -c constraints.txt -e '.[bench]'
	@touch $@
