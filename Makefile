# Everything happens in .venv, made with the first Python >= 3.11 that is found; `make PYTHON=...` names another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
WORKERS ?= 2
MINUTES ?= 10
TRIES ?= 20
MATRIX ?= 3.11 3.12 3.13 3.14
TESTS ?= tests
DEMO_EXTRAS := report,sklearn,video
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable

.PHONY: help demo test test-fast test-portable coverage lint docs docs-quick dist test-sdist test-matrix test-lowest bench fuzz chaos long-use
.PHONY: test-on-one system-packages clean

help:
	@echo "make demo             render a scene and separate it"
	@echo "make test             run the tests"
	@echo "make test-fast        those of the core, below a minute"
	@echo "make test-portable    the core's tests without what only POSIX has"
	@echo "make lint             ruff and mypy"
	@echo "make docs             the site, in docs/_build/html: gallery, links, doctests, every code block"
	@echo "make docs-quick       the same without running the gallery"
	@echo "make dist             wheel and sdist, checked, in dist/"
	@echo "make test-sdist       the tests of the sdist, in a fresh environment"
	@echo "make test-matrix      the tests of the wheel on every Python of MATRIX (3.11 to 3.14) that is found"
	@echo "make test-lowest      the tests with the lowest versions of the dependencies"
	@echo "make coverage         the tests, and which lines of the package they never run"
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

# The core without what only POSIX has (tests/portable): no fcntl, no resource, no fork, nothing from /proc about memory.
CORE := tests/ground $(addprefix tests/files/test_,kinds.py tables.py schema.py) $(addprefix tests/test_,platform.py input.py \
	oracles.py forms.py saved_results.py parts.py checkpoint_contents.py decompose_command.py people_commands.py)

FAST := $(addprefix tests/test_,forms.py hybrid.py oracles.py kernels.py stopping.py theory.py)

test-fast: $(VENV)/dev.stamp
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(FAST)

test-portable: $(VENV)/dev.stamp
	PYTHONPATH=tests/portable OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(CORE)

# Twice, because the lines of a compiled function are not followed: all tests, then those of the kernels without compiling.
UNCOMPILED := $(addprefix tests/test_,kernels.py rows.py selection.py complex.py video_mask.py video_consensus.py)
COVERED := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --cov

coverage: $(VENV)/dev.stamp
	$(COVERED) --cov-report=
	NUMBA_DISABLE_JIT=1 $(COVERED) --cov-append --cov-report=term-missing:skip-covered $(UNCOMPILED)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

SITE := docs/_build/html
SPHINX := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --nitpicky --quiet --doctree-dir docs/_build/doctrees

docs: $(VENV)/docs.stamp
	$(SPHINX) --builder html docs $(SITE)
	$(SPHINX) --builder doctest docs docs/_build/doctest
	$(BIN)/python docs/check_site.py $(SITE)
	$(BIN)/python docs/blocks.py

docs-quick: $(VENV)/docs.stamp
	$(SPHINX) --define plot_gallery=0 --builder html docs $(SITE)
	$(BIN)/python docs/check_site.py $(SITE)

dist: $(VENV)/release.stamp
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*

# In each environment below: the tests that TESTS names, with WORKERS at a time; nothing of src/ is seen but what was installed.
RUN_TESTS = OPENBLAS_NUM_THREADS=1 $(1)/bin/python -m pytest -n $(WORKERS) $(TESTS)
SDIST := $(VENV)/sdist

test-sdist: dist
	rm -rf $(SDIST) && mkdir -p $(SDIST)
	tar -xzf dist/rankwolf-*.tar.gz -C $(SDIST) --strip-components 1
	$(PYTHON) -m venv $(SDIST)/.venv
	cd $(SDIST) && .venv/bin/python -m pip install --quiet --constraint constraints.txt ".[test]"
	cd $(SDIST) && $(call RUN_TESTS,.venv)

test-matrix: dist
	@for version in $(MATRIX); do \
	  $(MAKE) --no-print-directory VERSION=$$version test-on-one || exit 1; \
	done

# A Python of one version: from the path, or where pyenv keeps them.
test-on-one:
	@python=$$(for p in python$(VERSION) $$(ls -d $$HOME/.pyenv/versions/$(VERSION).*/bin/python 2>/dev/null); do \
	  $$p -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(VERSION)")' 2>/dev/null && echo $$p && break; done); \
	if test -z "$$python"; then echo "Python $(VERSION): not found, not tested"; exit 0; fi; \
	echo "Python $(VERSION): $$($$python -V), $$python"; \
	$$python -m venv --clear $(VENV)/matrix/$(VERSION) && \
	$(VENV)/matrix/$(VERSION)/bin/python -m pip install --quiet --constraint constraints.txt \
	  "$$(ls dist/*.whl)[test]" && \
	$(call RUN_TESTS,$(VENV)/matrix/$(VERSION))

# Old libraries beside newer ones of others deprecate much that is not ours.
test-lowest: dist
	python3.11 -m venv --clear $(VENV)/lowest 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)/lowest
	$(VENV)/lowest/bin/python -m pip install --quiet --constraint constraints-lowest.txt "$$(ls dist/*.whl)[test]"
	$(call RUN_TESTS,$(VENV)/lowest) -W default::DeprecationWarning -W default::pytest.PytestWarning

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
	rm -rf $(VENV) demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis dist \
	  docs/_build docs/api docs/gallery docs/sg_execution_times.rst

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

$(VENV)/docs.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) ".[dev,docs]"
	@touch $@ $(VENV)/dev.stamp $(VENV)/demo.stamp

$(VENV)/release.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "build>=1.2" "twine>=6"
	@touch $@
