# What each word does: make help
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV := .venv
PY := $(VENV)/bin/python
MANAGE := $(PY) manage.py
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes
RUN_TIME := $(VENV)/.run-time
TESTS := $(VENV)/.tests
BENCH ?=
ROWS ?=
BAR ?=
PART ?=
DATA ?=
MODEL ?=

.PHONY: help install init serve worker demo demo-slack test nightly hard check lint format lock messages landed bench quality screenshots

help: ## say what each word does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(RUN_TIME) ## make .venv with the run time only

init: $(TESTS) ## make .venv with everything, and an empty migrated database
	$(MANAGE) migrate --verbosity 1

serve: $(RUN_TIME) ## run web and worker (PORT=8000) on a migrated database
	@exec $(MANAGE) serve

worker: $(RUN_TIME) ## run one more worker
	@exec $(MANAGE) worker

demo: $(RUN_TIME) ## the demo workspace with its memories, then web and worker (PORT=8000)
	@exec $(MANAGE) demo

demo-slack: $(RUN_TIME) ## the demo's team in a fake Slack, talking as you watch (PORT=8000)
	@exec $(PY) -m tests.slack.demo_slack

test: $(TESTS) ## the tests that CI runs, in ten minutes (PART="sqlite browser"); installs what is missing
	@exec $(PY) -m tests.run test $(PART)

nightly: $(TESTS) ## every test on both databases, in every look, at full size (PART=browser goes on there)
	@exec $(PY) -m tests.run nightly $(PART)

hard: $(TESTS) ## kill, freeze, poison it: what must hold (FULL=1, SEED=1, BAR="kill redis", BENCH=FOLDER, DATA=FOLDER)
	@exec env BENCH="$(if $(BENCH),$(abspath $(BENCH)))" $(PY) -m tests.hard $(BAR)

check: $(TESTS) lint ## the fast part: lint, types, migrations, Django's checks, suite on SQLite
	@exec $(PY) -m tests.run check

lint: $(TESTS) ## ruff, djade, mypy; changes nothing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	git ls-files -z --cached --others --exclude-standard 'templates/*.html' | xargs -0 -r $(VENV)/bin/djade --check --target-version 5.2
	$(VENV)/bin/mypy memories memoryhub

format: $(TESTS) ## let ruff and djade settle the style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	git ls-files -z --cached --others --exclude-standard 'templates/*.html' | xargs -0 -r $(VENV)/bin/djade --target-version 5.2

lock: ## write both lock files from pyproject.toml (UPGRADE=1 takes the newest versions)
	sh .ci/lock $(if $(UPGRADE),--upgrade)

messages: $(TESTS) ## collect the interface texts for translation and compile them
	mkdir -p memories/locale
	$(MANAGE) makemessages --locale ja --no-obsolete --ignore '.venv' --ignore 'var'
	$(MANAGE) compilemessages --locale ja --ignore '.venv' --ignore 'var'

landed: $(TESTS) ## note the migrations that landed: from now on they are never edited
	$(PY) -m tests.landed

bench: $(TESTS) ## measure: searches (ROWS=1000000), pages; BENCH=FOLDER with a fake model server
	$(PY) -m bench $(if $(ROWS),--rows "$(ROWS)") $(if $(BENCH),--bench "$(BENCH)")

quality: $(TESTS) ## does a context hold what an answer needs (DATA=FOLDER/NAME in GateMem's form, MODEL=1)
	@exec env $(if $(DATA),DATA="$(abspath $(DATA))") $(if $(MODEL),MODEL="$(MODEL)") $(PY) -m bench.quality

screenshots: $(TESTS) ## twelve pictures of the demo in var/screenshots
	@exec $(PY) -m pytest -q tests/browser/pictures.py

$(VENV)/bin/pip:
	@sh .ci/venv $(VENV)

$(RUN_TIME): requirements.lock $(VENV)/bin/pip
	@echo "Installing the run time ..."
	@$(PIP) -r requirements.lock
	@touch $@

$(TESTS): tests/requirements.lock $(RUN_TIME)
	@echo "Installing the test tools ..."
	@$(PIP) -r requirements.lock -r tests/requirements.lock
	@touch $@
