# `make demo` and `make test` need Python 3.11 or newer, make, and the package registry; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHARED ?= ../shared
# A company's own certificates are those of its machines.
export UV_SYSTEM_CERTS := 1

.PHONY: demo test lint types bench verify faults mutants diagrams examples clean

demo: $(VENV)/ready
	$(BIN)/loopmachine demo

test: $(VENV)/ready
	$(BIN)/pytest -q --numprocesses=auto --dist=loadfile --loop-cov --loop-cov-fail-under=100 \
		--cov --cov-report=term-missing:skip-covered \
		$(if $(wildcard $(SHARED)),--cov-fail-under=100,)

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	$(BIN)/mypy

bench: $(VENV)/ready
	$(BIN)/python -m tests.bench

verify: $(VENV)/ready
	$(BIN)/loopmachine verify

faults: $(VENV)/ready
	$(BIN)/python -m tests.faults

mutants: $(VENV)/ready
	rm -rf mutants
	$(BIN)/mutmut run
	$(BIN)/python -m tests.mutants

diagrams: $(VENV)/ready
	$(BIN)/loopmachine diagram --output diagrams/loop.dot --output diagrams/loop.svg

examples: $(VENV)/ready
	for one in examples/*.py; do echo "== $$one"; $(BIN)/python $$one || exit 1; done

$(VENV)/ready: pyproject.toml uv.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "loopmachine needs Python 3.11 or newer; name one with PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'
	env -u VIRTUAL_ENV UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --quiet --locked --inexact
	touch $@

clean:
	rm -rf $(VENV) dist .coverage .mypy_cache .ruff_cache .hypothesis .benchmarks mutants
