# The two commands of the README are `make demo` and `make test`. Both build .venv when it is missing
# or out of date, from the constraints file. `make demo PHOTOS=folder` learns from your own photographs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types unit format bench bench-real fuzz deps-oldest deps-newest clean

demo: $(STAMP)
	$(BIN)/piaa demo $(if $(PHOTOS),"$(PHOTOS)") --out outputs/demo --force

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

# About 5 minutes on two idle cores, and 2 more the first time, to encode 4,000 images.
bench-real: $(STAMP)
	@test -n "$(ROOT)" || { echo "Give the folder of a VOC devkit: make bench-real ROOT=..."; exit 2; }
	$(BIN)/python benchmarks/real.py --root "$(ROOT)"

# Damaged and hostile files through every loader, some minutes of one core. See docs/threat-model.md.
fuzz: $(STAMP)
	$(BIN)/python benchmarks/fuzz.py

# The tests with the oldest versions that pyproject.toml admits, and with the newest there are. Each builds an
# environment of its own, which takes minutes. Test tools are not held back: what needs those that pin piaa's
# own dependencies (transformers) or a browser is left out of the oldest run.
deps-oldest:
	$(PYTHON) -m venv build/oldest
	$(PYTHON) scripts/oldest_versions.py > build/oldest/constraints.txt
	build/oldest/bin/python -m pip install --quiet --constraint build/oldest/constraints.txt \
		--editable '.[report,scale,serve]' pytest hypothesis scikit-learn httpx
	build/oldest/bin/python -m pytest -q tests --ignore=tests/parity --ignore=tests/report \
		--ignore=tests/serve --ignore=tests/test_browsing.py --ignore=tests/scale/test_stores.py \
		--ignore=tests/encoders/test_tokenizer.py --ignore=tests/encoders/lite/test_minilm.py

deps-newest:
	$(PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]'
	build/newest/bin/python -m pytest -q

$(STAMP): pyproject.toml constraints-cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints-cpu.txt --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
