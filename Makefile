# Everything happens in .venv, made with the first Python >= 3.11 that is found; `make PYTHON=...` names another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
WORKERS ?= 2
MINUTES ?= 10
TRIES ?= 20
DEMO_EXTRAS := report,video
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable

.PHONY: help demo test lint bench fuzz chaos long-use system-packages clean

help:
	@echo "make demo             render a scene and separate it"
	@echo "make test             run the tests"
	@echo "make lint             ruff and mypy"
	@echo "make bench            the measurements that the documents quote"
	@echo "make fuzz             changed files of every kind that is read, for MINUTES (10)"
	@echo "make chaos            killed workers and drivers, full disks, signals: TRIES (20) of each"
	@echo "make long-use         10,000 calls and batches: nothing may grow"
	@echo "make system-packages  chromium, for the tests of the report page"
	@echo "make clean            remove what the others made"

demo: $(VENV)/demo.stamp
	$(BIN)/rankwolf demo --output demo-output --force

test: $(VENV)/dev.stamp
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks quick

fuzz: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks fuzz --minutes $(MINUTES)

chaos: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks chaos --tries $(TRIES)

long-use: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks long_use

system-packages:
	@if command -v chromium >/dev/null; then echo "chromium is there."; \
	elif apt-get update -qq && apt-get install -y -qq chromium; then echo "chromium was installed."; \
	else echo "chromium could not be installed: the tests that need it will skip, and say so."; fi

clean:
	rm -rf $(VENV) demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis dist

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Rankwolf needs Python 3.11 or newer. Install it, or name it: make PYTHON=..."; exit 2; }
	$(PYTHON) -m venv $(VENV)

# Reinstalled only when these change: the package itself is installed in editable mode.
$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) ".[$(DEMO_EXTRAS)]"
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) ".[dev]"
	@touch $@ $(VENV)/demo.stamp
