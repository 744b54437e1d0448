# All that a fresh machine needs is make and a Python; `make help` lists what there is.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
PYTEST_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
SOURCES := setup.py tfagents_x tests tools $(wildcard benchmarks examples)

# A stamp is written when its step is through, so an interrupted install starts again,
# and a changed pyproject.toml installs again. `dev` contains `all`: one pip call for both.
VENV_STAMP := $(VENV)/.stamp-venv
ALL_STAMP := $(VENV)/.stamp-all
DEV_STAMP := $(VENV)/.stamp-dev

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Files are shared out among the cores; more than four processes with TensorFlow each cost too
# much memory. PARALLEL= runs one after the other.
PARALLEL ?= -n auto --maxprocesses 4 --dist loadfile

.NOTPARALLEL:
.PHONY: help train test test-slow lint format bench venv build-file clean

help:  ## list the targets
	@echo "usage: make TARGET [PYTHON=python3.11] [VENV=.venv] [ARGS=...] [PYTEST_ARGS=...]"
	@echo
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  \1|\2/p' $(MAKEFILE_LIST) \
	  | awk -F'|' '{ printf "%-14s%s\n", $$1, $$2 }'

train: $(ALL_STAMP)  ## train IMPALA on CartPole; ARGS="--seed 1 --steps 10000" are added
	$(BIN)/tfagents-x train --agent impala --env CartPole-v1 $(ARGS)

test: $(DEV_STAMP)  ## run the quick test suite; PYTEST_ARGS="tests/ops -k vtrace" narrows it
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(PYTEST_ARGS)

test-slow: $(DEV_STAMP)  ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

lint: $(DEV_STAMP)  ## check format, style and types
	$(BIN)/python -m ruff format --check $(SOURCES)
	$(BIN)/python -m ruff check $(SOURCES)
	$(BIN)/python -m mypy

format: $(DEV_STAMP)  ## format the code, and mend what ruff can
	$(BIN)/python -m ruff format $(SOURCES)
	$(BIN)/python -m ruff check --fix $(SOURCES)

bench: $(ALL_STAMP)  ## measure the learners
	$(BIN)/python -m benchmarks.learners $(ARGS)

venv: $(DEV_STAMP)  ## make the virtual environment, with everything in it

build-file:  ## write BUILD (Bazel) anew from the tree
	$(PYTHON) tools/build_file.py

clean:  ## remove the virtual environment, caches and build output; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV_STAMP):
	@$(PYTHON) --version >/dev/null 2>&1 || { \
	  echo "error: cannot run $(PYTHON); name a Python 3.9 to 3.13: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) tools/check_python.py
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(ALL_STAMP): pyproject.toml | $(VENV_STAMP)
	@echo "Installing into $(VENV): TensorFlow and what belongs to it, about 2 GB."
	$(PIP) install -e '.[all]'
	@touch $@

$(DEV_STAMP): pyproject.toml | $(VENV_STAMP)
	@echo "Installing into $(VENV): TensorFlow, what belongs to it, test tools, about 2 GB."
	$(PIP) install -e '.[all,dev]'
	@touch $(ALL_STAMP) $@
