# make train   virtual environment, install, train the quick start, verify its ledger
# make test    format check, lint, types, import directions, all tests that are not slow
# make slow    the slow tests
# make lock    pin the versions that resolve today for this interpreter
# Needs only Python 3.11 or newer, its venv module, pip and make; a C++ compiler makes it faster.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.PHONY: train test slow kernels lock clean

# The first interpreter that is new enough; give another with make PYTHON=...
PYTHON ?= $(shell for each in python3 python3.12 python3.11 python; do \
	"$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo "$$each"; break; }; done)
VENV ?= .venv
CONFIG ?= configs/quickstart.yaml
RUNS ?= runs
JOBS ?= 2

BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
LOCK := $(wildcard requirements/lock-py$(VERSION).txt)
PIP := -m pip --quiet --quiet --disable-pip-version-check --no-input install
READY := $(VENV)/.ready-py$(VERSION)

train: kernels
	@name=$$(basename $(CONFIG) .yaml); run=$(RUNS)/$$name; n=1; \
	while [ -e "$$run" ]; do n=$$((n + 1)); run=$(RUNS)/$$name-$$n; done; \
	$(BIN)/python -m rlkjax.train --config $(CONFIG) --run-dir "$$run"; \
	$(BIN)/python -m rlkjax.verify "$$run"; \
	echo "report: $$run/report.html"

test: kernels
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layout.py
	$(BIN)/python -m pytest -q -n $(JOBS)

slow: kernels
	$(BIN)/python -m pytest -q -m slow

$(READY): pyproject.toml $(LOCK)
	@if [ -z "$(PYTHON)" ]; then echo "need Python 3.11 or newer: make PYTHON=/path/to/python" >&2; exit 3; fi
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifneq ($(LOCK),)
	@echo "installing the tested versions of $(LOCK) (some minutes the first time)"
	@$(BIN)/python $(PIP) -r $(LOCK)
	@$(BIN)/python $(PIP) --no-deps --editable .
else
	@echo "no tested versions for Python $(VERSION): installing what resolves today"
	@$(BIN)/python $(PIP) --editable '.[dev,tb]'
endif
	@touch $@

# Without a C++ compiler exact programs have the same bits, and take longer.
kernels: $(READY)
	@$(BIN)/python -m rlkjax.kernels || echo "going on without kernels" >&2

lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python $(PIP) '.[dev,tb]'
	{ echo "# Tested set for Python $(VERSION) on CPU: core, dev and tb. Made by \`make lock\`; do not edit."; \
	build/lock/bin/python -m pip freeze --exclude rlkjax; } > requirements/lock-py$(VERSION).txt
	rm -rf build/lock

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis rlkjax/exact/kernels/*.so
