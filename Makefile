# One virtual environment, .venv, serves every target. `make` alone lists them.
#   make train ARGS="seed=1 max_frames=500_000"     passes more key=value words
#   make test ARGS="tests/runs -k resume"           passes pytest arguments
#   make install EXTRAS=dev,wandb                   adds extras
#   make install CONSTRAINTS=constraints-lowest.txt takes other versions than the pinned ones
PYTHON ?= python3
EXTRAS ?= dev
CONSTRAINTS ?= constraints.txt
ARGS ?=
comma := ,
BIN := .venv/bin
READY := .venv/.ready-$(subst $(comma),-,$(EXTRAS))-$(basename $(notdir $(CONSTRAINTS)))

.PHONY: help install train test test-all check format docs bench clean

help:
	@echo "make install   create .venv with pinned versions"
	@echo "make train     train four easy tasks on the CPU, in a few minutes"
	@echo "make test      run the tests"
	@echo "make test-all  run the slow ones too"
	@echo "make check     lint, formatting, types, layers, spelling"
	@echo "make format    format and fix what can be fixed"
	@echo "make docs      build the docs site into site/, and check its links"
	@echo "make bench     measure physics, environment and training on the CPU"
	@echo "make clean     remove .venv and caches"

install: $(READY)

$(READY): pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[$(EXTRAS)]'
	@rm -f .venv/.ready-* && touch $@

train: install
	$(BIN)/polytask train preset=cpu_demo $(ARGS)

test: install
	$(BIN)/python -m pytest -q -m "not slow" -n auto --dist loadfile $(ARGS)

test-all: install
	$(BIN)/python -m pytest -q -n auto --dist loadfile $(ARGS)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_tables.py

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)

bench: install
	$(BIN)/polytask bench what=sim num_envs=64 $(ARGS)
	$(BIN)/polytask bench what=env num_envs=64 $(ARGS)
	$(BIN)/polytask bench what=train num_envs=64 $(ARGS)

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache build dist site
