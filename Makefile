# Everything a newcomer needs, from a clean clone: `make demo` to see it, `make test` to trust it.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TYPED  := src tools $(foreach folder,benchmarks examples,$(if $(wildcard $(folder)/*.py),$(folder)))
CODE   := $(TYPED) tests

.DEFAULT_GOAL := help
.PHONY: help setup java jars demo test test-long test-quick faults check format bench docs page clean

help: ## list the targets
	@echo "Skyband: continuous top-k queries over sliding windows."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with everything in it (done by the other targets when needed)

# Not installed by set-up: where there is none, this says how to get one, and stops what would need it.
java: $(READY)
	@$(BIN)/python -m skyband.java >/dev/null

jars: java ## fetch what Spark needs for Kafka, once (its tests do it themselves)
	@$(BIN)/skyband jars

demo: java ## watch three questions about a stream of trades, answered live on Spark
	@$(BIN)/skyband demo

test: java check ## the checks and every kind of test; CI runs it first
	$(BIN)/pytest -n 2 -m "not long"

# The properties are tested by both: here with more examples.
test-long: java ## longer random searches and more faults; CI runs it after make test
	SKYBAND_LONG=1 $(BIN)/pytest -n 2 -m "long or hypothesis"

test-quick: $(READY) ## a developer's inner loop: lint, and the tests that start nothing
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/pytest -n 2 -m "not slow and not long"

MINUTES ?= 30
faults: java ## inject faults for long (MINUTES=30), check every answer, draw the memory
	mkdir -p build/faults
	SKYBAND_FAULTS_MINUTES=$(MINUTES) SKYBAND_FAULTS_FOLDER=build/faults $(BIN)/pytest -m faults
	$(BIN)/python -m benchmarks.faults build/faults

check: $(READY) ## lint, format, types, import contracts, installed packages, wording; changes nothing
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports
	$(BIN)/python tools/audit.py
	$(BIN)/python tools/check_words.py

format: $(READY) ## put the code into the form that check wants
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(READY) ## measure all algorithms, write tables and plots
	$(BIN)/python -m benchmarks

docs: $(READY) ## check the pages (links, their Python), then build them as a site in site/
	@$(BIN)/python tools/check_docs.py
	@rm -rf site
	@$(BIN)/python tools/build_site.py site
	@echo "built site/: open site/index.html"

page: ## build the browser page from front/, after its types and tests (needs Node 20; users do not)
	cd front && npm ci --silent && npm run --silent types && npm run --silent test && npm run --silent build

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist site front/node_modules spark-warehouse .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Made anew only when what is installed has changed.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "$(PYTHON) was not found. Skyband needs Python 3.11 or newer: install it, or name yours with 'make PYTHON=/path/to/python3'." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is $$($(PYTHON) -V 2>&1). Skyband needs Python 3.11 or newer: install it, or name yours with 'make PYTHON=/path/to/python3'." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) comes without the venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	$(BIN)/uv pip install --python $(BIN)/python --constraints constraints.txt --build-constraints constraints.txt --editable '.[dev]'
	@touch $@
