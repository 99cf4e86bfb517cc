# make demo | test | check | format | wheel-demo | clean. The environment is .venv; a torch that the system's Python
# already has is used as it is, otherwise the pinned one is installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check format wheel-demo clean

demo: $(STAMP)
	$(BIN)/unspur demo

test: $(STAMP)
	$(BIN)/python -m pytest

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel-demo: $(STAMP)
	PYTHON=$(PYTHON) sh scripts/wheel_demo.sh

$(STAMP): pyproject.toml constraints.txt
	@if $(PYTHON) -c 'import torch' 2>/dev/null; \
		then $(PYTHON) -m venv --system-site-packages $(VENV); \
		else $(PYTHON) -m venv $(VENV); fi
	@if $(BIN)/python -c 'import torch' 2>/dev/null; \
		then $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'; \
		else $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'; fi
	@touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
