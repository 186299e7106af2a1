# Start here in a clean clone: `make demo` runs a live demo, `make test` runs all tests.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TYPED  := src tools $(foreach folder,benchmarks examples,$(if $(wildcard $(folder)/*.py),$(folder)))
CODE   := $(TYPED) tests

# Some containers set this. Without bytecode every process compiles all modules that it imports, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup java jars kernels demo campaign test test-long test-bounds test-bounds-short test-release test-spark test-versions test-quick faults check format bench figures docs page clean

help: ## list the targets
	@echo "Skyband: continuous top-k queries over sliding windows."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with all dependencies (other targets do it when needed)

# Java is not installed by setup. If it is missing, this target prints how to install it and fails.
java: $(READY)
	@$(BIN)/python -m skyband.java >/dev/null

jars: java ## download Spark's Kafka connector, once (the Kafka tests do it themselves)
	@$(BIN)/skyband jars

demo: $(READY) ## show three queries over a stream of trades, live; on Spark if there is Java
	@$(BIN)/skyband demo

kernels: $(READY) ## compile the kernels in parallel, once per machine (uses compile what is missing)
	@$(BIN)/python -m skyband.precompile

# Three processes for two cores: many tests wait for Spark, a server or a browser.
WORKERS ?= 3
CLASSES := $(VENV)/spark-classes.jsa
test: java ## run all checks and tests; CI runs it first
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check kernels $(CLASSES)
	$(BIN)/pytest -n $(WORKERS) -m "not long and not release"

# Hypothesis tests run in both targets, here with more examples. After MINUTES, if given, no further test starts.
MINUTES ?=
test-long: java $(CLASSES) ## run longer random searches and more fault tests; CI runs it after make test
	SKYBAND_LONG=1 $(if $(MINUTES),SKYBAND_TEST_MINUTES=$(MINUTES)) $(BIN)/pytest -n $(WORKERS) -m "(long or hypothesis) and not release"

# Minutes each, and some of them need several gigabytes of disk.
test-release: java ## run the tests of a cluster, of Spark Connect, of the packages and of deploy/; not run by CI
	$(BIN)/pytest -m release

# Tests with another version of Spark, in an environment of its own. Its older PySpark leaves sockets open.
VERSION ?= 4.0.5
TESTS ?= tests/spark
MARK ?= not long and not release
OTHER := build/spark-$(VERSION)
test-spark: java ## run the Spark tests with another version of Spark (VERSION=4.0.5, TESTS=tests/spark)
	@test -x $(OTHER)/bin/python || $(PYTHON) -m venv --without-pip $(OTHER)
	@grep -v '^pyspark==' constraints.txt > $(OTHER)/constraints.txt
	@$(BIN)/uv pip install --quiet --python $(OTHER)/bin/python --constraints $(OTHER)/constraints.txt \
	  --build-constraints constraints.txt --editable '.[dev]' pyspark==$(VERSION)
	$(OTHER)/bin/python -m pytest -n 2 -m "$(MARK)" -p no:cacheprovider -W ignore::ResourceWarning \
	  -W ignore::pytest.PytestUnraisableExceptionWarning $(TESTS)

# The last patch release of each supported minor version that `make test` does not run with.
test-versions: ## run a short set of tests with each supported minor version of Spark; CI runs it
	@for version in 4.0.5 4.1.4 4.2.1; do \
	  $(MAKE) --no-print-directory test-spark VERSION=$$version TESTS=tests/spark/test_versions.py MARK="not release" || exit 1; \
	done

# Java's archive of Spark's classes: each of the tests' Sparks starts with less work.
$(CLASSES): $(READY) | java
	$(BIN)/python -m tests.class_archive || echo "Java's archive of classes was not written, so each Spark of the tests takes seconds longer to start." >&2

test-quick: $(READY) ## run lint, and the tests that start neither Spark nor a server
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/pytest -n 2 -m "not slow and not long and not release"

# Kernels are stored by a digest that covers this setting, so both kinds exist side by side.
BOUNDS := tests/conformance \
  $(foreach family,aggregate incomplete uncertain topk,tests/$(family)/test_monitor.py tests/$(family)/test_shard.py)
test-bounds: $(READY) ## run the suites of the kernels with bounds checks of all arrays (tens of minutes)
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -n 2 -m "not long and not release" $(BOUNDS)
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -n 2 tests/test_forged_snapshots.py

# Most of the time is compiling the kernels with checks, once for each version of a kernel. Each process has its own ones.
BOUNDS_SHORT := tests/conformance/test_answers.py tests/aggregate/test_engine.py tests/incomplete/test_monitor.py tests/uncertain/test_monitor.py
test-bounds-short: $(READY) ## run some suites of the kernels with bounds checks (minutes); CI runs it
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -n 2 --dist loadfile -m "not long and not release" $(BOUNDS_SHORT)

faults: MINUTES := $(or $(MINUTES),30)
faults: java ## run the fault tests for longer (MINUTES=30), check every answer, plot the memory
	mkdir -p build/faults
	SKYBAND_FAULTS_MINUTES=$(MINUTES) SKYBAND_FAULTS_FOLDER=build/faults $(BIN)/pytest -m faults
	$(BIN)/python -m benchmarks.faults build/faults

campaign: COUNT := $(or $(COUNT),1000)
campaign: SPARKS := 4.1.4 4.2.1
campaign: java ## inject COUNT faults (1000) into a run on a cluster, check every answer (an hour and more)
	mkdir -p build/campaign
	rm -f build/campaign/*
	@for version in $(SPARKS); do \
	  test -d build/pyspark-$$version || \
	    $(BIN)/uv pip install --quiet --target build/pyspark-$$version pyspark==$$version || exit 1; \
	done
	SKYBAND_FAULTS_COUNT=$(COUNT) SKYBAND_FAULTS_FOLDER=build/campaign $(if $(MINUTES),SKYBAND_FAULTS_MINUTES=$(MINUTES)) \
	  SKYBAND_FAULTS_SPARKS="$$(printf build/pyspark-%s: $(SPARKS))" \
	  $(BIN)/pytest -n 0 tests/faults/campaign/test_campaign.py
	$(BIN)/python -m benchmarks.faults build/campaign campaign

check: $(READY) ## check lint, format, types, import contracts, installed packages and wording
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports
	$(BIN)/python tools/audit.py
	$(BIN)/python tools/check_words.py

format: $(READY) ## format the code
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(READY) ## run all benchmarks, write tables and plots
	$(BIN)/python -m benchmarks

# SCALE=tiny takes a minute and writes into build/figures; SCALE=full has the papers' sizes and takes hours.
SCALE ?= small
figures: $(READY) ## measure the figures and tables of the papers (SCALE=small, full), write their page
	$(BIN)/python -m benchmarks figures --scale $(SCALE)

docs: $(READY) ## check the pages (links, Python blocks), then build the site in site/
	@$(BIN)/python tools/check_docs.py
	@rm -rf site
	@$(BIN)/python tools/build_site.py site
	@echo "built site/: open site/index.html"

page: ## check types, test and build the dashboard from front/ (needs Node 20; users do not need it)
	cd front && npm ci --silent && npm run --silent types && npm run --silent test && npm run --silent build

clean: ## remove .venv and all build outputs
	rm -rf $(VENV) build dist site front/node_modules spark-warehouse .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Runs again only if the dependencies have changed.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "$(PYTHON) was not found. Skyband needs Python 3.11 or newer: install it, or set its path with 'make PYTHON=/path/to/python3'." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is $$($(PYTHON) -V 2>&1). Skyband needs Python 3.11 or newer: install it, or set its path with 'make PYTHON=/path/to/python3'." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	$(BIN)/uv pip install --python $(BIN)/python --constraints constraints.txt --build-constraints constraints.txt --editable '.[dev]'
	@touch $@
