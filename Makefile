# Each recipe is one plain command, so that Ctrl-C reaches the program itself.
.PHONY: demo up test check bench chaos audit
.DEFAULT_GOAL := help

VENV := .venv
PYTHON := $(VENV)/bin/python
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make demo    a real task from end to end, then stop
demo: $(RUN_STAMP)
	@$(PYTHON) manage.py demo

## make up      the whole platform on this machine, until Ctrl-C
up: $(RUN_STAMP)
	@$(PYTHON) manage.py up

## make test    every test but those that wait for a minute or more; what fails is tried once more and named as RERUN
test: $(DEV_STAMP)
	@$(PYTHON) -m pytest -n 3 --no-loadscope-reorder -m "not slow" --reruns 1 -raR

## make check   form, types, imports, migrations, translations
check: $(DEV_STAMP)
	@$(PYTHON) -m pytest -q tests/reach_platform/test_form.py

## make bench   speed, beside a plain Django and Celery app
bench: $(DEV_STAMP)
	@$(PYTHON) -m benchmarks

## make chaos   the long runs that kill and cut
chaos: $(DEV_STAMP)
	@$(PYTHON) -m tests.chaos --minutes 10 --tasks 20000
	@$(PYTHON) -m pytest -m "chaos or slow"

## make audit   known holes in the packages we depend on
audit: $(DEV_STAMP)
	@$(PYTHON) -m pip_audit -r requirements.txt

$(PYTHON):
	@sh .ci/make-venv $(VENV)

$(RUN_STAMP): requirements.txt | $(PYTHON)
	@sh .ci/install $(PYTHON) requirements.txt $@

$(DEV_STAMP): requirements.txt requirements-dev.txt | $(PYTHON)
	@sh .ci/install $(PYTHON) requirements-dev.txt $@
