#!/bin/sh
# Runs the tests: `tests.sh VENV` checks types and runs all but those on demand, `tests.sh VENV --on-demand=GROUP` runs
# those of one group. Programs are installed and an engine is started first. Four workers run at once, because servers
# wait more than they compute: two test local servers, the third the rest, and the fourth containers and then more local
# servers. Then those run alone that empty the host's caches.
set -u
here=$(dirname "$0")
mypy=$1/bin/mypy
pytest="$1/bin/python -m pytest"
shift
folder=$(mktemp -d)
running=
engine=
failed=0

remove_all() {
    if [ -n "$engine" ]; then
        kill "$engine"
        wait "$engine" 2>/dev/null
    fi
    rm -rf "$folder"
}

start_engine() {
    if docker version >/dev/null 2>&1 || [ "$(id -u)" != 0 ] || ! command -v dockerd >/dev/null; then return; fi
    setsid dockerd >"$folder/engine" 2>&1 &
    engine=$!
    for _ in $(seq 60); do
        if docker version >/dev/null 2>&1; then return; fi
        kill -0 "$engine" 2>/dev/null || break
        sleep 1
    done
    tail -n 20 "$folder/engine" >&2
    echo "dockerd does not answer: tests of containers are skipped" >&2
}

# As root a pytest has processes and mounts of its own: what its killed sessions leave behind no other one cleans up.
# Containers belong to the host's engine, so their tests stay on the host. Where there are no namespaces, one pytest runs
# after the other.
isolated="unshare --pid --fork --kill-child --mount-proc --propagation slave sh -c '\"\$@\"; exit \$?' isolated"
unshare --pid --fork --mount-proc true 2>/dev/null || isolated=

children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }

# unshare ignores signals, and so does the first process of its namespace: they go to pytest itself.
end_tests() { # SIGNAL
    for process in $running; do
        case $1$(readlink "/proc/$process/exe") in
            TERM*/unshare) for first in $(children "$process"); do process=$(children "$first"); done ;;
        esac
        kill "-$1" $process 2>/dev/null
    done
}

# A test may take the first signal for its own, as that of an interrupted build: tests/conftest.py begins no next test
# once this file is there. What has not ended by the second signal is killed.
export TESTS_END="$folder/end"
export TESTS_SHARED="$folder"
interrupted() {
    trap '' INT TERM HUP
    : >"$TESTS_END"
    { sleep 3; end_tests TERM; sleep 3; end_tests KILL; } >/dev/null 2>&1 &
    repeat=$!
    [ -z "$running" ] || wait $running
    kill -KILL $repeat 2>/dev/null
    exit 130
}
trap interrupted INT
trap 'end_tests TERM; interrupted' TERM HUP
trap remove_all EXIT

start_tests() { # NAME PREFIX PYTEST-ARGUMENT...
    name=$1 prefix=$2
    shift 2
    eval "exec $prefix $pytest \"\$@\"" 2>&1 &
    running="$running $!"
    eval "pid_$name=$!"
    [ -n "$isolated" ] || wait_for "$name"
}

# Only the first call for a name waits: a shell forgets an exit status that it has returned.
wait_for() { # NAME
    eval "pid=\$pid_$1 pid_$1="
    [ -z "$pid" ] || wait "$pid" || failed=1
}

case ${1:-} in
    --on-demand=*)
        sh "$here/test_programs.sh" $([ "$1" != --on-demand=browser ] || echo chromium:chromium)
        start_engine
        start_tests group "" "$@"
        wait_for group
        exit "$failed"
        ;;
esac

# To collect all tests for a few of them takes longer than the few.
marked() { grep -rl --include='test_*.py' "mark\.$1\>" tests | sort; }

show() { # NAME TITLE
    printf '\n%s:\n' "$2"
    cat "$folder/$1"
}

sh "$here/test_programs.sh"
"$mypy" >"$folder/types" 2>&1 &
running=$!
pid_types=$!
start_engine
local="real and not containers and not alone"
# How the names of files in tests/real begin, so that the workers end at about the same time. The third has all others.
first="[a-d] ex f[a-k] f[m-z] [g-l] sc"
second="en ow re sy [t-z]"
fourth="fl se st su"
# What one worker drops from the cache the others would read again, and what is warm there would never stay warm.
export TESTS_KEEP_CACHES=1
start_tests first "$isolated" -m "$local" $(printf 'tests/real/test_%s*.py ' $first) >"$folder/first"
start_tests second "$isolated" -m "$local" $(printf 'tests/real/test_%s*.py ' $second) >"$folder/second"
start_tests third "$isolated" -m "not containers and not alone" \
    $(printf -- '--ignore-glob=tests/real/test_%s* ' $first $second $fourth) >"$folder/third"
start_tests containers "" -m "containers and not alone" $(marked containers)
wait_for containers
start_tests fourth "$isolated" -m "$local" $(printf 'tests/real/test_%s*.py ' $fourth)
wait_for fourth
unset TESTS_KEEP_CACHES
for name in types first second third; do wait_for "$name"; done
show types "Types"
show first "Tests of the first worker"
show second "Tests of the second worker"
show third "Tests of the third worker"
printf '\nTests that run alone:\n'
running=
start_tests alone "" -m alone $(marked alone)
wait_for alone
exit "$failed"
