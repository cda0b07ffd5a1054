# Every target is one command; what it does is in the package it calls.
# On Windows use Git Bash, and PYTHON=python.
PYTHON ?= python3
VENV ?= .venv
ifeq ($(OS),Windows_NT)
PY = "$(VENV)/Scripts/python.exe"
else
PY = "$(VENV)/bin/python"
endif
PIP = $(PY) -m pip install --disable-pip-version-check -c constraints.txt

.PHONY: help lab test build grade feedback instructor new-lesson benchmarks lint

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

lab: $(VENV)/.installed  ## open JupyterLab on the lessons
	@$(PY) -m autograder.lab $(OPTIONS)

test: $(VENV)/.installed-test  ## run every test (OPTIONS="-k bars" for some)
	@$(PY) -m pytest -n auto --dist loadfile $(OPTIONS)

build: $(VENV)/.installed  ## make lessons/ and solutions/ from source/
	@$(PY) -m autograder build $(LESSON)

grade: $(VENV)/.installed  ## grade what lies in autograder/submitted: LESSON=lesson-06 [JOBS=4] [SANDBOX=off] [SEED=1] [SCHEDULER=tcp://...]
	$(if $(LESSON),,$(error which lesson? make grade LESSON=lesson-06))@$(PY) -m autograder grade $(LESSON) $(if $(JOBS),--jobs $(JOBS)) $(if $(SANDBOX),--sandbox $(SANDBOX)) $(if $(SEED),--seed $(SEED)) $(if $(SCHEDULER),--scheduler $(SCHEDULER))

feedback: $(VENV)/.installed  ## write the HTML that a learner may see: LESSON=lesson-06 [JOBS=4]
	$(if $(LESSON),,$(error which lesson? make feedback LESSON=lesson-06))@$(PY) -m autograder feedback $(LESSON) $(if $(JOBS),--jobs $(JOBS))

instructor: $(VENV)/.installed  ## open JupyterLab with formgrader on the course
	@$(PY) -m autograder.lab --instructor $(OPTIONS)

new-lesson: $(VENV)/.installed  ## lay the files of a new lesson: LESSON=lesson-07 TITLE="..."
	@$(PY) -m autograder new-lesson $(LESSON) $(if $(TITLE),--title "$(TITLE)")

lint: $(VENV)/.installed-test  ## check the code's style
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Memory Budget needs Python 3.11 or newer as '$(PYTHON)'; name another with: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Installing into $(VENV) (some minutes the first time: torch is large)"
	@$(PIP) -e . || { echo "The installation did not finish: see pip's message above, then run make again"; exit 1; }
	@touch $(VENV)/.installed

$(VENV)/.installed-test: $(VENV)/.installed
	@$(PIP) -e '.[test]' || { echo "The installation did not finish: see pip's message above, then run make again"; exit 1; }
	@touch $(VENV)/.installed-test
