# Thin targets over the `recovery` command. It gets each variable of make's command line as text, as RECOVERY_NAME, and
# refuses what it does not know. Neither make nor a shell expands a value, and the command prints itself, so that what
# ran can be repeated without make.
#
#   make cold-recovery VERSION=5.7.22 TABLES=20000 RUNS=3

override SHELL := /bin/sh
.SUFFIXES:
.DEFAULT_GOAL := overview

# `override` keeps make from expanding the value for the environment of a recipe, such as a `$$(shell …)` in it.
$(foreach name,$(filter-out ARGS PYTHON,$(.VARIABLES)),$(if $(filter command,$(origin $(name))),$(eval \
    override $$(name) := $$(value $$(name)))$(eval export RECOVERY_$$(name) := $$($$(name)))))
PYTHON ?= python3
override PYTHON := $(value PYTHON)
override ARGS := $(value ARGS)
export PYTHON ARGS
override VENV := .venv
# Each program splits ARGS into words itself.
override RECOVERY := RECOVERY_ARGS="$$ARGS" $(VENV)/bin/recovery
override PROGRAM := PYTHONPATH=proofs:tests/helpers $(VENV)/bin/python -m
override PYTEST := PYTEST_ADDOPTS="$$ARGS" $(VENV)/bin/python -m pytest

# Not part of `make test`: they take long, or depend on what else the host does.
override ON_DEMAND := docs fleet disturbed browser bench torture large
# The ten that `make` alone shows.
override MAIN := recovery cold-recovery warm-recovery clean-start doctor status analyze report compare bundle
override TARGETS := $(MAIN) overview help crash-recovery scale metadata interference table-cache write-scaling crash-matrix \
    pending-work damage experiments resume repeat watch estimate calibrate site versions datadirs images image test test-fast $(ON_DEMAND:%=test-%) torture lint \
    audit bench watch-proof estimate-proof strangers intervals results fuzz fuzz-corpora lock clean
override INTERNAL := env env-test env-fuzz
.PHONY: $(TARGETS) $(INTERNAL)

# A folder such as docs is no target, and make would say that there is nothing to be done for it. A shell that completes
# targets asks for one that begins with a dot.
override unknown := $(firstword $(foreach name,$(filter-out $(TARGETS) $(INTERNAL) .%,$(MAKECMDGOALS)),$(if \
    $(wildcard $(name)/.),$(name),$(if $(wildcard $(name)),,$(name)))))
override nearest := import difflib, sys; name, *known = sys.argv[1:]; \
    print(*(f"the nearest is {near}" for near in difflib.get_close_matches(name.lower(), known, 1)))
# In quotes, because the shell would run what is in such a name.
override quoted = '$(subst ','\'',$(1))'
ifneq ($(unknown),)
$(error $(unknown) is not a target: $(or $(shell python3 -c $(call quoted,$(nearest)) $(call quoted,$(unknown)) $(TARGETS)),`make \
    help` lists them))
endif

override list := sed -n 's/^\([a-z-]*\):.*\#\# \(.*\)$$/  make \1\t\2/p' Makefile | expand -t 24
override space := $(subst ,, )

overview:
	@echo "How long does this MySQL server take to come back after a crash, and why?"
	@echo
	@$(list) | grep -E '^  make ($(subst $(space),|,$(MAIN))) '
	@echo
	@echo "For example: make recovery VERSION=8.0.31 TABLES=20k"
	@echo "\`make help\` lists all commands and variables; docs/README.md, all pages."

help: ## all commands and variables
	@echo "How long does this MySQL server take to come back after a crash, and why?"
	@echo
	@$(list)
	@echo
	@echo "Variables of cold-recovery, warm-recovery, recovery and clean-start"
	@echo "(all of them: $(VENV)/bin/recovery cold-recovery --help):"
	@echo "  what    VERSION=\"5.7.22 mariadb-10.11.5\" (default 5.7.22), TABLES=200k,"
	@echo "          SCHEMAS=1, LAYOUT=files, RUNS=5, PRECISION=5% (runs as it takes),"
	@echo "          REPEAT=5 REPEAT_EVERY=6h (sessions, from start to start)"
	@echo "  yours   MYSQLD=/usr/sbin/mysqld (several: base=/a/mysqld new=/b/mysqld),"
	@echo "          IMAGE=my/mysql, DEFAULTS_FILE=my.cnf, RESULTS=results,"
	@echo "          DATA=/mnt/ebs (the volume under test), DATADIR=/var/lib/mysql (a"
	@echo "          copy of your own data; AS_IS=1: the recovery ahead of it,"
	@echo "          BEFORE_KILL=load or \"COMMAND\": a crash under load)"
	@echo "  why     TRACE=1 (files opened and read), FLOOR=1 (what the storage allows),"
	@echo "          STACKS=1 (where threads are), FIRST_QUERIES=default (what answers"
	@echo "          after ready), BEFORE_START=\"COMMAND\" (before each timed start)"
	@echo "  limits  READ_IOPS=5000, READ_BPS=100m, MEMORY=2g, CPUS=1.5, CPU_SET=0-3"
	@echo "  how     ENGINE=docker or local, ARCHIVE and REGISTRY (mirrors), OFFLINE=1,"
	@echo "          UNPRIVILEGED=1, NO_PROBE=1, NOTE=io2"
	@echo "  loads   SCALE=quick, standard or published (all sizes), SECONDS=60,"
	@echo "          THREADS=\"1 8\", WORKLOAD, OPTION, MEMORY_RATIO"
	@echo "ARGS=\"--dry-run\" passes any other option on."

recovery: crash-recovery ## crash recovery, cold and warm, over the same tables

cold-recovery: env ## SIGKILL, empty cache, time the start
	@$(RECOVERY) cold-recovery

warm-recovery: env ## the same with the files in the cache
	@$(RECOVERY) warm-recovery

crash-recovery: env ## the same as recovery
	@$(RECOVERY) crash-recovery

clean-start: env ## the baseline: a start without a crash, cold and warm
	@$(RECOVERY) clean-start

scale: env ## startup by tables: TABLES="1000 10000 50000 200000"
	@$(RECOVERY) scale

metadata: env ## information_schema and dumps over very many tables
	@$(RECOVERY) metadata

interference: env ## what a load loses to queries of information_schema
	@$(RECOVERY) interference

table-cache: env ## instances of the table cache, by tables and clients
	@$(RECOVERY) table-cache

write-scaling: env ## InnoDB under load: clients, durability, pages, hot rows
	@$(RECOVERY) write-scaling

crash-matrix: env ## kills during writes, DDL, recovery, shutdown: RUNS=6
	@$(RECOVERY) crash-matrix

pending-work: env ## recovery by dirty pages, redo, open transactions
	@$(RECOVERY) pending-work

damage: env ## a start after a full disk, and over damaged files
	@$(RECOVERY) damage

experiments: env ## all five published experiments: SCALE=quick, standard
	@$(RECOVERY) experiments

resume: env ## resume a session that ended early: newest, or ARGS=NAME
	@$(RECOVERY) resume

repeat: env ## measure a session again: ARGS=NAME REPEAT=5 (in all)
	@$(RECOVERY) repeat

status: env ## show the running session, or how the last one ended
	@$(RECOVERY) status

watch: env ## how far is a starting server? ARGS=PID
	@$(RECOVERY) watch

estimate: env ## what would a kill cost now? ARGS="--socket S"
	@$(RECOVERY) estimate

calibrate: env ## let estimate use what pending-work measured here
	@$(RECOVERY) calibrate

versions: env ## the available servers, and which are in the cache
	@$(RECOVERY) versions

doctor: env ## is this host fit to measure? Every check: ARGS=-v
	@$(RECOVERY) doctor

datadirs: env ## the data directories that are kept, with their sizes
	@$(RECOVERY) datadirs

images: env ## the images of servers on this host
	@$(RECOVERY) images

image: env ## have the image of each VERSION: pulled, or built here
	@$(RECOVERY) images build

analyze: env ## the phases of each start in an error log: ARGS=FILE
	@$(RECOVERY) analyze

report: env ## print the newest session again
	@$(RECOVERY) report

compare: env ## is a session slower than another? ARGS="A B"
	@$(RECOVERY) compare

site: env ## pages of the kept sessions; yours: recovery site results
	@kept=$$(mktemp -d) && trap 'rm -rf "$$kept"' EXIT && tar -xf fixtures/kept-sessions.tar.xz -C "$$kept" && \
	    $(RECOVERY) site "$$kept"

bundle: env ## files for a bug tracker: ARGS="SESSION --for mysql"
	@$(RECOVERY) bundle

test: env-test ## every check and test, on real servers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(if $(ARGS),$(VENV)/bin/mypy && $(PYTEST),sh scripts/tests.sh $(VENV))

$(ON_DEMAND:%=test-%): test-%: env-test
	PYTEST_ADDOPTS="$$ARGS" sh scripts/tests.sh $(VENV) --on-demand=$*

test-docs: ## run every command of every page, over few tables
test-fleet: ## hosts of a fleet that are cut off, killed or full
test-disturbed: ## warnings about busy hosts; needs a quiet host
test-browser: ## test the HTML reports in Chromium
test-bench: ## the benchmark of the tool itself
test-torture: ## a dozen kills of the tool
test-large: ## the tests over all server versions

test-fast: env-test ## the tests without servers and engines, in 3 minutes
	$(PYTEST) -m "not real and not containers"

torture: env-test ## kill the tool at KILLS=300 random moments (SEED=1)
	@$(PROGRAM) torture $${RECOVERY_KILLS:+--kills "$$RECOVERY_KILLS"} \
	    $${RECOVERY_SEED:+--seed "$$RECOVERY_SEED"} $${RECOVERY_ONLY:+--only "$$RECOVERY_ONLY"} \
	    $${RECOVERY_MINUTES:+--minutes "$$RECOVERY_MINUTES"}

lint: env-test ## style and types
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy

audit: ## is a weakness known of what is installed?
	@"$$PYTHON" scripts/audit.py .venv-audit

bench: env ## how fast the tool itself is, as ratios
	@RECOVERY_ARGS="$$ARGS" $(PROGRAM) bench

watch-proof: env ## record crash starts, replay them: ARGS="replay DIR"
	@RECOVERY_ARGS="$$ARGS" $(PROGRAM) watch

estimate-proof: env ## kill servers after an estimate: ARGS="run DIR"
	@RECOVERY_ARGS="$$ARGS" $(PROGRAM) estimate

strangers: env ## cases by a seed: ARGS="run --cases 200 --folder DIR"
	@$(PROGRAM) strangers $(if $(ARGS),,run $${RECOVERY_SEED:+--seed "$$RECOVERY_SEED"} $${RECOVERY_ONLY:+--only "$$RECOVERY_ONLY"})

intervals: env-test ## do intervals hold in kept and simulated sessions?
	@$(PROGRAM) intervals

results: env-test ## fill the tables of README and docs/ from kept sessions
	@PYTHONPATH=proofs:tests:tests/helpers $(VENV)/bin/python -m pages

fuzz: env-fuzz ## coverage-guided fuzzing: EXECUTIONS=10000000 SEED=2
	@PYTHONPATH=proofs:tests/helpers $(VENV)-fuzz/bin/python -m fuzzing $${RECOVERY_EXECUTIONS:+--executions "$$RECOVERY_EXECUTIONS"} \
	    $${RECOVERY_SEED:+--seed "$$RECOVERY_SEED"}

fuzz-corpora: env-fuzz ## of all inputs that it found, keep the fewest
	@PYTHONPATH=proofs:tests/helpers $(VENV)-fuzz/bin/python -m fuzzing --merge

lock: ## make the locks from setup.cfg (needs pip-tools)
	pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	    -o requirements/run.lock setup.cfg requirements/build.in
	pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	    --extra test -o requirements/test.lock setup.cfg requirements/build.in
	pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	    -o requirements/fuzz.lock setup.cfg requirements/build.in requirements/fuzz.in
	pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	    -o requirements/audit.lock requirements/audit.in
	pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	    -o requirements/ansible.lock requirements/ansible.in

clean: ## remove the environment; results and servers stay
	rm -rf $(VENV) $(VENV)-fuzz .venv-audit build *.egg-info

env:
	@sh scripts/environment.sh $(VENV) requirements/run.lock
env-test:
	@sh scripts/environment.sh $(VENV) requirements/test.lock
env-fuzz:
	@sh scripts/environment.sh $(VENV)-fuzz requirements/fuzz.lock
