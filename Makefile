# The first python3 of the supported versions; PYTHON=... chooses another.
PYTHON ?= $(firstword $(foreach v,3.11 3.12 3.13 3,$(shell command -v python$(v) 2>/dev/null && echo)))
RUN := .venv/bin/python

ifeq ($(PYTHON),)
$(error posenc needs Python 3.11 or later: install it, or name it with make PYTHON=...)
endif

# An environment of another PYTHON, or one that no longer works, is made anew.
ifneq ($(shell cat .venv/.python 2>/dev/null && $(RUN) -c "print('works')" 2>/dev/null),$(PYTHON) works)
.PHONY: .venv/.installed .venv/.developed
endif

.PHONY: demo check test lint types layers docs bench format clean

## demo: install posenc into .venv and do the main job (the first command of the README)
demo: .venv/.installed
	$(RUN) -m posenc_cli generate --scheme rope --len 4096

## check: everything that must hold before a change lands
check: lint types layers docs test

## test: the test suite, with branch coverage
test: .venv/.developed
	$(RUN) -m coverage erase
	$(RUN) -m coverage run -m pytest -n auto
	$(RUN) -m coverage combine -q
	$(RUN) -m coverage report

## lint: ruff, rules and format
lint: .venv/.developed
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

## types: mypy --strict
types: .venv/.developed
	$(RUN) -m mypy

## layers: imports go downward only
layers: .venv/.developed
	.venv/bin/lint-imports

## docs: the generated parts of the README are up to date
docs: .venv/.developed
	$(RUN) tools/readme.py --check

## bench: ratios against floors and peers, side by side; the README quotes the saved result
bench: .venv/.developed
	$(RUN) -m benchmarks
	$(RUN) tools/readme.py

## format: rewrite what lint and docs would complain about, where that is mechanical
format: .venv/.developed
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .
	$(RUN) tools/readme.py

clean:
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.*

.venv/.installed: pyproject.toml tools/environment.py
	PYTHON="$(PYTHON)" "$(PYTHON)" tools/environment.py .venv -e .
	@touch $@

# TORCH=2.13.0 installs that version of torch too, so that its tests run. An exact version: the
# newest would bring gigabytes of CUDA along.
.venv/.developed: pyproject.toml tools/environment.py
	PYTHON="$(PYTHON)" "$(PYTHON)" tools/environment.py .venv -e ".[dev]" $(if $(TORCH),torch==$(TORCH))
	@touch $@ .venv/.installed
