# The two commands of the README are `make demo` and `make test`. Both build .venv when it is missing
# or out of date, from the constraints file. `make demo PHOTOS=folder` learns from your own photographs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types unit format bench bench-check bench-baseline bench-real fuzz deps-oldest deps-newest mutation dist check-install clean

demo: $(STAMP)
	$(BIN)/piaa demo $(if $(PHOTOS),"$(PHOTOS)") --out outputs/demo --force

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# Two at a time, each with one thread; files whole, since some share what they built, and in the order of
# tests/conftest.py: by itself the plug-in begins with those of the most tests, and ends with the longest.
unit: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One table of ratios, about 5 minutes on two idle cores; docs/performance.md says how to read it. Each script in
# benchmarks/ prints more by itself.
bench: $(STAMP)
	$(BIN)/python benchmarks/all.py

# Fails if a ratio is more than 15 % below benchmarks/baseline.json; bench-baseline writes that file.
bench-check: $(STAMP)
	$(BIN)/python benchmarks/all.py --check

bench-baseline: $(STAMP)
	$(BIN)/python benchmarks/all.py --json benchmarks/baseline.json

# About 5 minutes on two idle cores, and 2 more the first time, to encode 4,000 images.
bench-real: $(STAMP)
	@test -n "$(ROOT)" || { echo "Give the folder of a VOC devkit: make bench-real ROOT=..."; exit 2; }
	$(BIN)/python benchmarks/real.py --root "$(ROOT)"

# Damaged and hostile files through every loader, some minutes of one core. See docs/threat-model.md.
fuzz: $(STAMP)
	$(BIN)/python benchmarks/fuzz.py

# The tests with the oldest versions that pyproject.toml admits, and with the newest there are. Each builds an
# environment of its own, which takes minutes. torch is the one of constraints-cpu.txt in both: of other versions
# this index has builds with CUDA alone, of gigabytes. `make deps-newest TORCH=torch==2.15.0` tries another one.
# Test tools are not held back: what needs those that pin piaa's own dependencies (transformers), a browser or
# the newest typer (the pages of the commands) is left out of the oldest run, and so is one test of a rival, in
# which a sign is that of a rounding error and older builds of LAPACK round the other way.
TORCH ?= $(shell grep '^torch==' constraints-cpu.txt)

deps-oldest:
	$(PYTHON) -m venv --clear build/oldest
	$(PYTHON) scripts/oldest_versions.py > build/oldest/constraints.txt
	build/oldest/bin/python -m pip install --quiet --constraint build/oldest/constraints.txt \
		--editable '.[report,scale,serve]' pytest pytest-xdist hypothesis scikit-learn httpx
	OMP_NUM_THREADS=1 build/oldest/bin/python -m pytest -q -n 2 --dist loadfile tests --ignore=tests/parity --ignore=tests/report \
		--ignore=tests/serve --ignore=tests/test_browsing.py --ignore=tests/scale/test_stores.py \
		--ignore=tests/encoders/test_tokenizer.py --ignore=tests/encoders/lite/test_minilm.py \
		--ignore=tests/cli/test_documented.py --ignore=tests/test_contributing.py -k 'not transformers' \
		--deselect tests/baselines/test_sparc.py::test_sentences_equal_the_plain_form

deps-newest:
	$(PYTHON) -m venv --clear build/newest
	echo '$(TORCH)' > build/newest/torch.txt
	build/newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager \
		--constraint build/newest/torch.txt --editable '.[dev]'
	OMP_NUM_THREADS=1 build/newest/bin/python -m pytest -q -n 2 --dist loadfile

# Which small wrong changes of the core no test would notice: an hour of one core. See docs/quality.md.
mutation: $(STAMP)
	$(BIN)/python scripts/mutate.py

# Wheel and sdist, built twice and compared; then the wheel in clean environments, with each extra.
SETUPTOOLS := setuptools==84.2.1

dist:
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet '$(SETUPTOOLS)'
	build/tools/bin/python scripts/build_dist.py dist

check-install: dist
	$(PYTHON) scripts/check_install.py $(EXTRAS)

$(STAMP): pyproject.toml constraints-cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints-cpu.txt --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
