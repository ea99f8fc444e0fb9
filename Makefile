# Needs Python 3.11 or later, with venv; nothing else. Every target sets up what it needs.
#
#   make demo    the main job (V=1: all) make quick   the inner loop, under 10 s
#   make test    the whole suite               make check   all that CI does
#   make crash   kill -9, every pair of faults  make mutants the whole mutation run
#   make bench   how fast it is here           make lock    write the lock files again (needs uv)
#   make soak    ten minutes of a fleet    make conformance  the protocol's own suite
#   make docs    the site of the documents, into build/site    make prometheus  rules and alerts
#   make proxy    the HTTP server behind nginx
#   make browser  the console in Debian's Chromium    make typescript  the TypeScript client, with Node
#   make frameworks  adapters of agent frameworks, three of them (ALL=1: all; KIND=lowest: oldest versions)

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# More than cores: many tests wait, for a process or for time that is real.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest
# One file stays on one worker: fixtures that start a real system start it once. A worker that dies is replaced, not for
# ever; tests/workers has the rest of what ends a run. `LEARN=--learn-longest` writes down which files to start with.
PARALLEL := -n $(WORKERS) --dist loadfile --max-worker-restart=4
# Hundreds of tests start Python: what it compiles is kept, also where the environment would keep none.
KEEP := PYTHONDONTWRITEBYTECODE=
# Their files are in memory where there is room: TEMPORARY= keeps them on the disk, where they can be looked at.
TEMPORARY := scripts/in_memory.sh

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

SETUP := $(VENV)/.setup-stamp
DEMO  := $(VENV)/.demo-stamp

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick check lint format types layers crash soak differential mutants mutants-sample bench hallucinated-success lock clean \
  conformance docs frameworks engines prometheus browser schemathesis typescript proxy

help:
	@sed -n '/^# /s/^# //p' Makefile | head -9

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Readback needs Python 3.11 or later; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A lock names everything, so pip resolves nothing: for an extra that one of them asks for (`coverage[toml]`) it would take
# the newest release, and refuse that as unpinned on the day it comes out.
$(SETUP): requirements.lock requirements-agentdojo.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements-agentdojo.lock
	$(BIN)/python -m pip uninstall --quiet --yes readback  # an older checkout's name, which another project has
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(SETUP) $(DEMO)

# What the demo needs is a part of what everything needs; an older full set-up serves too.
$(DEMO): requirements-demo.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements-demo.lock
	$(BIN)/python -m pip uninstall --quiet --yes readback  # an older checkout's name, which another project has
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(DEMO)

setup: $(SETUP)

demo: $(DEMO)
	$(BIN)/readback demo $(if $(V),-v)

test: $(SETUP)
	@scripts/reference_log.sh
	@scripts/mcp_servers.sh
	@$(KEEP) $(BIN)/python -m compileall -q -j $(WORKERS) src bench examples tests
	$(KEEP) $(TEMPORARY) $(PYTEST) $(PARALLEL) $(LEARN) --ignore=tests/conformance --ignore=tests/frameworks \
	  --ignore=tests/engines --ignore=tests/prometheus --ignore=tests/browser --ignore=tests/typescript \
	  --ignore=tests/proxy tests

# The suite of the Model Context Protocol, directly against two SDKs' servers and through the gateway. Fails where it
# cannot be installed.
conformance: $(SETUP)
	scripts/conformance.sh
	$(KEEP) $(TEMPORARY) $(PYTEST) -q -o faulthandler_timeout=0 tests/conformance

# The adapters of agent frameworks, each in an environment of its own, made from a lock file. Fails where one cannot be
# installed. A framework has a driver in the bed.
FRAMEWORKS := langchain openai_agents pydantic_ai
KIND := latest
ifdef ALL
FRAMEWORKS := $(filter-out __init__,$(basename $(notdir $(wildcard tests/frameworks/drivers/*.py))))
endif
frameworks: $(SETUP)
	scripts/frameworks.sh $(KIND) $(FRAMEWORKS)
	READBACK_FRAMEWORKS="$(FRAMEWORKS)" READBACK_FRAMEWORKS_KIND=$(KIND) \
	  $(KEEP) $(TEMPORARY) $(PYTEST) -q -o faulthandler_timeout=0 tests/frameworks

# Readback inside steps of durable engines, in one environment with the engines' own servers. Fails where one of them
# cannot be installed.
engines: $(SETUP)
	scripts/engines.sh
	$(KEEP) $(TEMPORARY) $(VENV)/engines/bin/python -m pytest -q --confcutdir=tests/engines -o faulthandler_timeout=0 \
	  tests/engines

# Every route of the HTTP API against its own description, also in sequences. Fails where Schemathesis cannot be installed.
schemathesis: $(SETUP)
	scripts/schemathesis.sh

# The shipped rules, alerts and dashboard against Debian's Prometheus, without an installation. Fails where the package
# cannot be had.
prometheus: $(SETUP)
	scripts/prometheus.sh
	$(KEEP) $(TEMPORARY) $(PYTEST) -q -o faulthandler_timeout=0 tests/prometheus

# The HTTP server behind Debian's nginx, without an installation: smuggled requests, Host and Origin. Fails where the
# package cannot be had.
proxy: $(SETUP)
	scripts/proxy.sh
	$(KEEP) $(TEMPORARY) $(PYTEST) -q -o faulthandler_timeout=0 tests/proxy

# The console in Debian's Chromium, in an environment of its own made from a lock file. Fails where the browser or a
# package is missing. READBACK_SHOTS=FOLDER keeps pictures of the pages.
browser: $(SETUP)
	scripts/browser.sh
	$(KEEP) $(TEMPORARY) $(VENV)/browser/bin/python -m pytest -q --confcutdir=tests/browser -o faulthandler_timeout=0 \
	  tests/browser

# The TypeScript client against a real server, with Node and packages by its lock file. Fails where one cannot be
# installed.
typescript: $(SETUP)
	scripts/typescript.sh
	$(KEEP) $(TEMPORARY) $(PYTEST) -q -o faulthandler_timeout=0 tests/typescript

# What is marked slow (searches, whole spaces, every crash point), and most examples, are left to `make test`.
# Two runs side by side: two workers of one run would each collect everything.
# Rewritten tests are kept beside the tools, also where the environment lets Python keep none; no watchdog for each test,
# and none of the plugins that these tests have no use for.
KEPT  := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(abspath $(VENV))/quick
LEAN  := --capture=sys -p no:anyio -p no:cov -p no:doctest -p no:junitxml -p no:logging -p no:xdist
QUICK := $(KEPT) $(TEMPORARY) $(PYTEST) -q -m "not slow" --hypothesis-profile=quick -o faulthandler_timeout=0 $(LEAN)
quick: $(SETUP)
	@$(QUICK) tests/unit tests/architecture & first=$$!; $(QUICK) tests/lifecycle; second=$$?; \
	  wait $$first && exit $$second

# One after another, so that the first fault is the last thing on the screen. The test run comes last:
# it holds the documents, the wheel, one round of kill -9, and the tools that others wrote.
check: $(SETUP)
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory types
	$(MAKE) --no-print-directory layers
	$(MAKE) --no-print-directory docs
	$(MAKE) --no-print-directory mutants-sample
	$(MAKE) --no-print-directory conformance
	$(MAKE) --no-print-directory prometheus
	$(MAKE) --no-print-directory proxy
	$(MAKE) --no-print-directory browser
	$(MAKE) --no-print-directory frameworks
	$(MAKE) --no-print-directory engines
	$(MAKE) --no-print-directory typescript
	$(MAKE) --no-print-directory test

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(SETUP)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

types: $(SETUP)
	$(BIN)/mypy src $(wildcard tests/typing examples bench)

layers: $(SETUP)
	$(BIN)/lint-imports

crash: $(SETUP)
	READBACK_CRASH_ROUNDS=50 READBACK_SAGA_SPACE=whole $(PYTEST) $(PARALLEL) -o faulthandler_timeout=0 \
	  tests/crash tests/fleet tests/lifecycle/test_saga_space.py

# Ten minutes of a fleet under fire: as many rounds as fit.
soak: $(SETUP)
	READBACK_SOAK_SECONDS=600 $(PYTEST) -o faulthandler_timeout=0 tests/fleet

# A million generated expressions, here and by Google's own engine; a difference without a reason fails it.
differential: $(SETUP)
	$(BIN)/python -m tests.expressions.difference

mutants: $(SETUP)
	scripts/mutants.sh

mutants-sample: $(SETUP)
	scripts/mutants.sh sample

# The hot path against its floor; beside what users would take instead, each in an environment of its own that is made
# here; and where the time goes. The last two keep their pages, docs/benchmarks.md and docs/performance.md.
bench: $(SETUP)
	$(BIN)/python -m bench
	$(BIN)/python -m bench.side_by_side
	$(BIN)/python -m bench.breakdown

# The patterns of hallucinated success, by several programs; it keeps docs/hallucinated-success.md and its data.
hallucinated-success: $(SETUP)
	$(BIN)/python -m bench.hallucinated_success

# The site of the documents, in an environment of its own: MkDocs is not installed for the tests. A broken link fails it.
DOCS := $(VENV)/docs/.setup-stamp
$(DOCS): requirements-docs.lock | $(BIN)/python
	$(BIN)/python -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --require-hashes --no-deps -r requirements-docs.lock
	@touch $(DOCS)
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --quiet --strict

# Everything, the part that the demo needs at the same versions, and what is installed without dependencies.
# None of them names the place where packages come from: that is the machine's to say.
lock: | $(BIN)/python
	scripts/lock.sh

clean:
	rm -rf $(VENV) .cache mutants dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
