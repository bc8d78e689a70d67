PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Every install is pinned: without the pins pip would fetch another torch.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

# A worker that is done takes tests from those that are not: some tests take much longer than others.
WORKERS := -n auto --dist worksteal

.PHONY: help demo test coverage test-frameworks lint types docs bench fuzz faults ci clean

help:
	@echo "make demo   export a transformer, unflatten it, compare the two"
	@echo "make test   run the tests"
	@echo "make coverage  run the tests, and report what of the code they run"
	@echo "make test-frameworks  compare with spiking frameworks, which it installs"
	@echo "make lint   formatting, lint rules, layers, sizes"
	@echo "make types  type checks"
	@echo "make docs   build the documentation into site/"
	@echo "make bench  measure beside torch's unflatten"
	@echo "make fuzz   try new random programs for FUZZ_MINUTES (60)"
	@echo "make faults plant faults, and show that the properties find them"
	@echo "make ci     everything that CI runs"

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[cli,dev,docs,integration,nir,testing]'
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/python docs/examples/transformer.py

test: $(VENV)/.installed
	$(BIN)/pytest $(WORKERS) --quiet

# The same tests, in a third more time, and what they leave out (tests/coverage.md says why).
coverage: $(VENV)/.installed
	$(BIN)/pytest $(WORKERS) --quiet --cov --cov-report=json:coverage.json
	$(BIN)/python tools/check_coverage.py coverage.json

# Without their dependencies: they ask for another nir, for torchvision, for drivers.
test-frameworks: $(VENV)/.installed
	$(PIP) --editable '.[frameworks]'
	$(PIP) --no-deps norse sinabs spikingjelly
	$(BIN)/pytest $(WORKERS) --quiet tests/integration/frameworks

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py unflatten nir_bridge tests tools docs

types: $(VENV)/.installed
	$(BIN)/mypy

docs: $(VENV)/.installed
	$(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.installed
	$(BIN)/python -m tests.benchmarks
	$(BIN)/python -m tests.benchmarks.view

fuzz: $(VENV)/.installed
	$(BIN)/python tools/fuzz.py

faults: $(VENV)/.installed
	$(BIN)/python tools/plant_faults.py --jobs 2

ci: lint types docs coverage

clean:
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .hypothesis
