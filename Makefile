# Everything starts from a fresh clone with Python 3.11+, make and a package index: `make demo`, `make test`.
# Set-up goes into .venv and is done again only when pyproject.toml changes.

PYTHON ?= python3
OUT ?= out
WORKERS ?= auto
PYTEST_ARGS ?=
BENCH_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
VENV_STAMP := $(VENV)/.stamp-venv
DEMO_STAMP := $(VENV)/.stamp-demo
DEV_STAMP := $(VENV)/.stamp-dev
DOCS_STAMP := $(VENV)/.stamp-docs

# Small matrices: threads inside numpy only get in the way of the processes around it.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo docs figures test lint setup bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_STAMP) ## loan applicants, their promises, and which of them survive retraining; writes out/report.html
	$(BIN)/holdfast demo --out $(OUT)

docs: $(DOCS_STAMP) ## the documentation as a site; open out/site/index.html
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -d $(OUT)/site-doctrees docs $(OUT)/site
	@echo "open $(OUT)/site/index.html"

figures: demo $(DEV_STAMP) ## every picture in the documents, drawn again
	$(BIN)/python docs/figures/first.py
	$(BIN)/python bench/delta_picture.py
	$(BIN)/python docs/figures/methods.py
	$(BIN)/python docs/figures/mathematics.py
	$(BIN)/python docs/figures/report.py

test: lint ## every check and every test
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

lint: $(DEV_STAMP) ## style, types and the layering, without the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: $(DEV_STAMP) ## .venv with the package and everything the tests need

bench: $(DEV_STAMP) ## how fast certify is
	$(BIN)/python bench/certify.py $(BENCH_ARGS)

clean: ## remove .venv, caches and what the demo wrote
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV_STAMP):
	@command -v $(PYTHON) > /dev/null || { \
	  echo "expected a Python 3.11 or newer named $(PYTHON), found none; name yours: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "expected Python 3.11 or newer, got $$($(PYTHON) --version); name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	@touch $@

$(DEMO_STAMP): pyproject.toml | $(VENV_STAMP)
	$(PIP) install --editable . --group demo
	@touch $@

$(DEV_STAMP): pyproject.toml | $(VENV_STAMP)
	$(PIP) install --editable . --group dev
	@touch $@

$(DOCS_STAMP): pyproject.toml | $(VENV_STAMP)
	$(PIP) install --editable . --group docs
	@touch $@
