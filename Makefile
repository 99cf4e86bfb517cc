# make demo | test | check | docs | notebooks | quickstart | fuzz | crash | soak | format | reproduce-quick | pages | dist | release-check |
# wheel-demo | clean. The environment is .venv; a torch that the system's Python
# already has is used as it is, otherwise the pinned one is installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check

.PHONY: demo test check docs notebooks quickstart fuzz crash soak format reproduce-quick pages dist release-check wheel-demo clean

demo: $(DEMO)
	$(BIN)/unspur demo

# Files of tests run side by side, one process for each core, with one thread each.
WORKERS ?= auto

test: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/audit_dependencies.py

# docs/reliability.md says what these do. NUMBER inputs from SEED; SECONDS of the soak.
NUMBER ?= 20000
SEED ?= 0
SECONDS ?= 3600

fuzz: $(DEV)
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m fuzz --number $(NUMBER) --seed $(SEED)

crash: $(DEV)
	UNSPUR_FUZZ=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/fuzz
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m fuzz.crash --seed $(SEED)

soak: $(DEV)
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m fuzz.soak --seconds $(SECONDS) --seed $(SEED)

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A second thread makes these short trainings no faster.
reproduce-quick: $(DEMO)
	rm -rf runs/quick
	OMP_NUM_THREADS=1 $(BIN)/unspur reproduce all --quick --quiet --results runs/quick/results --pages runs/quick/pages --store runs/quick/store

pages: $(DEMO)
	$(BIN)/unspur reproduce all --no-run --quiet
	$(BIN)/python -m unspur.reproduce.prose

dist: $(DEV)
	sh scripts/dist.sh

# TAG is the tag of the release, as v0.2.0.
release-check: $(DEV)
	$(BIN)/python scripts/check_release.py $(TAG)

# The site, in build/site/index.html: links and anchors are checked, and the notebooks are executed first.
docs: notebooks
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# A notebook is executed again if it or the program has changed, each on one core; two at a time, or as many as
# `make -j` allows.
NOTEBOOKS := $(patsubst docs/notebooks/%.py,build/notebooks/%.ipynb,$(wildcard docs/notebooks/*.py))

notebooks: $(DOCS)
	@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2) $(NOTEBOOKS)

build/notebooks/%.ipynb: docs/notebooks/%.py scripts/docsite/run_notebook.py $(shell find src/unspur -name '*.py')
	OMP_NUM_THREADS=1 $(BIN)/python scripts/docsite/run_notebook.py $< build/notebooks

# Correct the outputs that docs/quickstart.md shows; a test says whether they are those of the program.
quickstart: $(DEV)
	$(BIN)/python scripts/docsite/console_blocks.py docs/quickstart.md

wheel-demo: $(DEV)
	PYTHON=$(PYTHON) sh scripts/wheel_demo.sh

$(DEMO): pyproject.toml constraints.txt
	@if $(PYTHON) -c 'import torch' 2>/dev/null; \
		then $(PYTHON) -m venv --system-site-packages $(VENV); \
		else $(PYTHON) -m venv $(VENV); fi
	@if $(BIN)/python -c 'import torch' 2>/dev/null; \
		then $(PIP) -e '.[report]'; else $(PIP) -c constraints.txt -e '.[report]'; fi
	@touch $@

# What is there by now has the right torch, which the constraints keep.
$(DEV): $(DEMO)
	@$(BIN)/python -c 'import torch; print("torch==" + torch.__version__.partition("+")[0])' > $(VENV)/torch.txt
	@$(PIP) -c $(VENV)/torch.txt -e '.[dev]'
	@touch $@

$(DOCS): $(DEV)
	@grep -v '^torch' constraints.txt | cat - $(VENV)/torch.txt > $(VENV)/docs.txt
	@$(PIP) -c $(VENV)/docs.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
