# The two commands of the README are `make demo` and `make test`. Both build .venv when it is missing
# or out of date, from the constraints file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types unit format bench clean

demo: $(STAMP)
	$(BIN)/piaa smoke

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/pytest -q

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python benchmarks/one_pass.py
	$(BIN)/python benchmarks/resize.py
	$(BIN)/python benchmarks/pvcl.py
	$(BIN)/python benchmarks/fit_memory.py
	$(BIN)/python benchmarks/lite.py

$(STAMP): pyproject.toml constraints-cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints-cpu.txt --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
