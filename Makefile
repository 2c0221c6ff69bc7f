# Thin targets over the `recovery` command. Variables go to it through the environment, never through a shell's parsing,
# and the command prints itself, so that what ran can be repeated without make.
#
#   make cold-recovery VERSION=5.7.22 TABLES=20000 RUNS=3

SHELL := /bin/sh
.SUFFIXES:
.DEFAULT_GOAL := help

# Exported unexpanded, and never parsed by a shell.
PYTHON ?= python3
override PYTHON := $(value PYTHON)
export PYTHON
VENV := .venv
RECOVERY := $(VENV)/bin/recovery

VARIABLES := VERSION TABLES RUNS SCHEMAS SECONDS ENGINE DATA RESULTS MYSQLD IMAGE REGISTRY ARCHIVE READ_IOPS READ_BPS MEMORY CPUS CPU_SET \
    UNPRIVILEGED
# Taken from make's command line only: other programs export such names, a terminal its COLUMNS.
GIVEN_TO_MAKE := PRECISION MAX_RUNS ROWS COLUMNS DATABASE STATISTICS LAYOUT SET DEFAULTS_FILE VARIANT TEMPLATE INSERT_TEMPLATE INSERTS BEFORE_START FIRST_QUERIES TRACE STACKS FLOOR BASELINE FAIL_OVER MAX_STARTUP DATADIR AS_IS AS_PUBLISHED \
    NO_DROP_CACHES KEEP OFFLINE STALL NO_PROBE NOTE QUIET WARMUP THREADS WORKLOAD LOAD_TABLES CHARSET MEMORY_RATIO OPTION QUERIES \
    POLL_QUERY POLLERS EVERY OPEN_FILES QUESTION SEED DEPTH ONLY DUMP_SCHEMAS PUBLISHED_BUILD PROFILE WAITS SCALE
# For those who test the tool itself.
OF_TESTERS := EXECUTIONS KILLS MINUTES
# As text: otherwise make would expand a `$$(shell …)` in the value for a recipe's environment.
define pass_on
ifneq ($(filter $(2),$(origin $(1))),)
override $(1) := $$(value $(1))
export RECOVERY_$(1) := $$($(1))
endif
endef
$(foreach name,$(VARIABLES),$(eval $(call pass_on,$(name),command environment)))
$(foreach name,$(GIVEN_TO_MAKE) $(OF_TESTERS),$(eval $(call pass_on,$(name),command)))

ifneq ($(origin NO_ROOT_STEPS),undefined)
$(error NO_ROOT_STEPS was replaced by UNPRIVILEGED=1, which takes no step that needs root)
endif
ifneq ($(filter command,$(origin BUDGET)),)
$(error BUDGET is not a setting any more: give SCALE=quick, SCALE=standard or SCALE=published)
endif
# `make cold-recovery TABELS=5` would measure something else than was meant.
given = $(foreach word,$(MAKEOVERRIDES),$(firstword $(subst =, ,$(word))))
unknown = $(foreach name,$(filter-out $(VARIABLES) $(GIVEN_TO_MAKE) $(OF_TESTERS) ARGS PYTHON,$(sort $(given))),$(if \
    $(filter command,$(origin $(name))),$(name)))
# In quotes, because the shell would run what is in such a name.
nearest = import difflib, sys; name, *known = sys.argv[1:]; near = difflib.get_close_matches(name.upper(), known, 1); \
    print("the nearest is " + near[0] if near else "there are " + " ".join(known), end="")
quoted = '$(subst ','\'',$(1))'
ifneq ($(strip $(unknown)),)
$(error $(firstword $(unknown)) is not a setting: $(shell python3 -c $(call quoted,$(nearest)) \
    $(call quoted,$(firstword $(unknown))) $(VARIABLES) $(GIVEN_TO_MAKE) $(OF_TESTERS) ARGS PYTHON))
endif

# Not part of `make test`: they take long, or depend on what else the host does.
ON_DEMAND := docs fleet disturbed browser bench torture large
.PHONY: help cold-recovery warm-recovery crash-recovery recovery clean-start scale metadata interference table-cache write-scaling crash-matrix damage experiments versions doctor datadirs images image analyze report bundle \
        compare status resume \
        test test-fast $(ON_DEMAND:%=test-%) torture lint audit bench fuzz fuzz-corpora lock clean

help: ## this page
	@echo "How long does this MySQL server take to come back after a crash, on this storage, in this version, and why?"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@echo
	@echo "Variables of cold-recovery, warm-recovery, recovery, clean-start (all of them: $(RECOVERY) cold-recovery --help):"
	@echo "  what      VERSION=\"5.7.22 mariadb-10.11.5\" (default 5.7.22), TABLES=200k, SCHEMAS=1, LAYOUT=files, RUNS=5,"
	@echo "            PRECISION=5% (as many runs as that takes)"
	@echo "  yours     MYSQLD=/usr/sbin/mysqld (several: base=/a/mysqld new=/b/mysqld), IMAGE=my/mysql, DEFAULTS_FILE=my.cnf,"
	@echo "            DATADIR=/var/lib/mysql (a copy of your own data; AS_IS=1: the recovery ahead of it),"
	@echo "            DATA=/mnt/ebs (the volume under test), RESULTS=results"
	@echo "  why       TRACE=1 (files opened and read), FLOOR=1 (what the storage allows), STACKS=1 (where threads are),"
	@echo "            FIRST_QUERIES=default (what answers after ready), BEFORE_START=\"COMMAND\" (before each timed start)"
	@echo "  limits    READ_IOPS=5000, READ_BPS=100m, MEMORY=2g, CPUS=1.5, CPU_SET=0-3"
	@echo "  how       ENGINE=docker or local, ARCHIVE and REGISTRY (mirrors), OFFLINE=1, UNPRIVILEGED=1, NO_PROBE=1, NOTE=io2"
	@echo "  loads     SCALE=quick, standard or published (all sizes), SECONDS=60, THREADS=\"1 8\", WORKLOAD, OPTION, MEMORY_RATIO"
	@echo "ARGS=\"--dry-run\" passes any other option on."

cold-recovery: env ## SIGKILL, empty cache, time the start
	@$(RECOVERY) cold-recovery $(ARGS)

warm-recovery: env ## the same with the files in the cache; without VERSION those of the newest session
	@$(RECOVERY) warm-recovery $(ARGS)

crash-recovery: env ## cold, then warm, over the same data directory
	@$(RECOVERY) crash-recovery $(ARGS)

recovery: crash-recovery ## the same: its earlier name

clean-start: env ## the baseline: a start without a crash, cold and warm
	@$(RECOVERY) clean-start $(ARGS)

scale: env ## startup against the number of tables: TABLES="1000 10000 50000 200000"
	@$(RECOVERY) scale $(ARGS)

metadata: env ## information_schema and dumps over very many tables: SCALE=quick, standard or published
	@$(RECOVERY) metadata $(ARGS)

interference: env ## what a load loses to questions to information_schema
	@$(RECOVERY) interference $(ARGS)

table-cache: env ## what instances of the table cache gain, by tables and clients
	@$(RECOVERY) table-cache $(ARGS)

write-scaling: env ## InnoDB under load: clients, durability, pages, hot rows
	@$(RECOVERY) write-scaling $(ARGS)

crash-matrix: env ## what survives kills during writes, DDL, recovery and shutdown: RUNS=6 kills a cell
	@$(RECOVERY) crash-matrix $(ARGS)

damage: env ## what does it do and say, started after a kill on a full disk, or over a missing, cut or flipped file?
	@$(RECOVERY) damage $(ARGS)

experiments: env ## all five published experiments, with the published figures beside ours: SCALE=quick, standard or published
	@$(RECOVERY) experiments $(ARGS)

resume: env ## resume the newest session that ended early, or ARGS=SESSION
	@$(RECOVERY) resume $(ARGS)

status: env ## show the running session, or how the last one ended
	@$(RECOVERY) status $(ARGS)

versions: env ## the available servers, from where, and which are in the cache
	@$(RECOVERY) versions $(ARGS)

doctor: env ## is this host suitable for measurements? Every check: ARGS=-v
	@$(RECOVERY) doctor $(ARGS)

datadirs: env ## the data directories that are kept, with their sizes
	@$(RECOVERY) datadirs $(ARGS)

images: env ## the images of servers on this host, and which were made here
	@$(RECOVERY) images $(ARGS)

image: env ## have the image of each VERSION: pulled, or built here
	@$(RECOVERY) images build $(ARGS)

analyze: env ## where each start in an error log spent its time, of any server: ARGS=error.log
	@$(RECOVERY) analyze $(ARGS)

report: env ## print the newest session again
	@$(RECOVERY) report $(ARGS)

compare: env ## is one stored session slower than another? The two newest, or ARGS="A B"
	@$(RECOVERY) compare $(ARGS)

bundle: env ## a text, a script and an archive for a bug tracker, known private texts replaced: ARGS="SESSION --for mysql", or the newest
	@$(RECOVERY) bundle $(ARGS)

test: env-test ## every check and test; real servers are fetched, booted, killed and recovered
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(if $(ARGS),$(VENV)/bin/mypy && $(VENV)/bin/python -m pytest $(ARGS),sh scripts/tests.sh $(VENV))

$(ON_DEMAND:%=test-%): test-%: env-test
	sh scripts/tests.sh $(VENV) --on-demand=$* $(ARGS)

test-docs: ## run every command of every page, over few tables
test-fleet: ## hosts of a fleet that are cut off, killed or full
test-disturbed: ## the warnings about busy hosts and loads, which need a host that is otherwise quiet
test-browser: ## test the HTML reports in Chromium
test-bench: ## the benchmark of the tool itself
test-torture: ## a dozen kills of the tool
test-large: ## the tests over all server versions

test-fast: env-test ## the tests without servers and engines, in 2 to 3 minutes
	$(VENV)/bin/python -m pytest -m "not real and not containers" $(ARGS)

torture: env-test ## kill the tool at KILLS=300 random moments (SEED=1), and see what is lost, and what is left
	@PYTHONPATH=tests $(VENV)/bin/python -m torture $${RECOVERY_KILLS:+--kills "$$RECOVERY_KILLS"} \
	    $${RECOVERY_SEED:+--seed "$$RECOVERY_SEED"} $${RECOVERY_ONLY:+--only "$$RECOVERY_ONLY"} \
	    $${RECOVERY_MINUTES:+--minutes "$$RECOVERY_MINUTES"} $(ARGS)

lint: env-test ## style and types
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy

audit: ## is a weakness known of what is installed? Where no advisory database is reached it says that it was skipped
	@"$$PYTHON" scripts/audit.py .venv-audit $(ARGS)

bench: env ## how fast the tool itself is, as ratios taken side by side
	@PYTHONPATH=tests $(VENV)/bin/python -m bench $(ARGS)

fuzz: env-fuzz ## coverage-guided fuzzing of all that reads what others write: EXECUTIONS=10000000 SEED=2
	@PYTHONPATH=tests $(VENV)-fuzz/bin/python -m fuzzing $${RECOVERY_EXECUTIONS:+--executions "$$RECOVERY_EXECUTIONS"} \
	    $${RECOVERY_SEED:+--seed "$$RECOVERY_SEED"} $(ARGS)

fuzz-corpora: env-fuzz ## keep what it has found: of all inputs the fewest that reach as much
	@PYTHONPATH=tests $(VENV)-fuzz/bin/python -m fuzzing --merge $(ARGS)

lock: ## make the locks anew from setup.cfg (needs pip-tools)
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

clean: ## remove the environment (results, servers and data directories stay)
	rm -rf $(VENV) $(VENV)-fuzz .venv-audit build *.egg-info

.PHONY: env env-test env-fuzz
env:
	@sh scripts/environment.sh $(VENV) requirements/run.lock
env-test:
	@sh scripts/environment.sh $(VENV) requirements/test.lock
env-fuzz:
	@sh scripts/environment.sh $(VENV)-fuzz requirements/fuzz.lock
