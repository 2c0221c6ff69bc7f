#!/bin/sh
# Runs the tests: `tests.sh VENV` all but those on demand, `tests.sh VENV --on-demand=GROUP` those of one group.
# Programs are installed and an engine is started first. All tests run in five lanes at once; then those run by themselves
# that empty the host's caches, or need them.
set -u
here=$(dirname "$0")
pytest="$1/bin/python -m pytest"
shift
folder=$(mktemp -d)
running=
engine=
failed=0

finish() {
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

# As root a lane has processes and mounts of its own: what its killed sessions leave behind no other lane clears away.
# Containers belong to the host's engine, so their lane stays on the host. Where there are no namespaces, the lanes run
# one after the other.
isolated="unshare --pid --fork --kill-child --mount-proc --propagation slave sh -c '\"\$@\"; exit \$?' lane"
unshare --pid --fork --mount-proc true 2>/dev/null || isolated=

children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }

# unshare ignores signals, and so does the first process of its namespace: they go to pytest itself.
end_lanes() {
    for process in $running; do
        case $(readlink "/proc/$process/exe") in
            */unshare) for first in $(children "$process"); do process=$(children "$first"); done ;;
        esac
        kill $process 2>/dev/null
    done
}

# Until they have ended: a test of interrupted builds may take the first signal for its own.
interrupted() {
    trap '' INT TERM HUP
    { while sleep 20; do end_lanes; done; } >/dev/null 2>&1 &
    repeat=$!
    [ -z "$running" ] || wait $running
    kill -KILL $repeat
    exit 130
}
trap interrupted INT
trap 'end_lanes; interrupted' TERM HUP
trap finish EXIT

lane() { # NAME PREFIX PYTEST-ARGUMENT...
    name=$1 prefix=$2
    shift 2
    eval "exec $prefix $pytest \"\$@\"" 2>&1 &
    running="$running $!"
    eval "pid_$name=$!"
    [ -n "$isolated" ] || ended "$name"
}

# Only the first call for a lane waits: a shell forgets the result that it has told.
ended() { # NAME
    eval "pid=\$pid_$1 pid_$1="
    [ -z "$pid" ] || wait "$pid" || failed=1
}

case ${1:-} in
    --on-demand=*)
        sh "$here/test_programs.sh" $([ "$1" != --on-demand=browser ] || echo chromium:chromium)
        start_engine
        lane group "" "$@"
        ended group
        exit "$failed"
        ;;
esac

sh "$here/test_programs.sh"
start_engine
# Local servers wait more than they compute. What is in neither list is in the third lane.
loads="tests/real/test_experiments_real.py tests/real/test_findings_load_real.py
    tests/real/test_sysbench_real.py"
builds="tests/real/test_builds_real.py tests/real/test_load_real.py tests/real/test_trace_real.py
    tests/real/test_layouts_real.py tests/real/test_crash_real.py tests/real/test_scale_real.py
    tests/real/test_limits_real.py"
local="real and not containers and not alone"
lane fast "$isolated" -m "not real and not containers and not alone" >"$folder/fast"
# What one lane drops from the cache the other would read again, and what is warm there would never stay warm.
export TESTS_KEEP_CACHES=1
lane containers "" -m "containers and not alone" >"$folder/containers"
lane loads "$isolated" -m "$local" $loads >"$folder/loads"
lane builds "$isolated" -m "$local" $builds >"$folder/builds"
lane rest "$isolated" -m "$local" $(printf -- '--ignore=%s ' $loads $builds)
ended rest
for name in loads builds containers fast; do
    ended "$name"
    printf '\nLane %s:\n' "$name"
    cat "$folder/$name"
done
unset TESTS_KEEP_CACHES
printf '\nTests that run alone:\n'
running=
lane alone "" -m alone
ended alone
exit "$failed"
