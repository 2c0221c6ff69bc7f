#!/bin/sh
# Runs the tests: `tests.sh VENV [PYTEST-ARGUMENT...]`. With arguments pytest runs once, with these. Without any, all tests
# but those on demand run in five lanes at once, and then those that empty the host's caches, or need them, by themselves.
set -u
here=$(dirname "$0")
pytest="$1/bin/python -m pytest"
shift
folder=$(mktemp -d)
running=
failed=0

finish() {
    rm -rf "$folder"
    sh "$here/test_programs.sh" stop
}

# As root a lane has processes and mounts of its own: what its killed sessions leave behind no other lane clears away.
# Containers belong to the host's engine, so their lane stays on the host. Without root the lanes run one after the other.
if [ "$(id -u)" = 0 ]; then
    isolated="unshare --pid --fork --kill-child --mount-proc --propagation slave sh -c '\"\$@\"; exit \$?' lane"
else
    isolated=
fi

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
    { while sleep 20; do end_lanes; done; } 2>/dev/null &
    repeat=$!
    [ -z "$running" ] || wait $running
    kill -KILL $repeat
    exit 130
}
trap interrupted INT
trap 'end_lanes; interrupted' TERM HUP
trap finish EXIT
sh "$here/test_programs.sh" start || exit

if [ $# -gt 0 ]; then
    $pytest "$@"
    exit
fi

lane() { # NAME PREFIX MARKS FILE...
    name=$1 prefix=$2 marks=$3
    shift 3
    eval "exec $prefix $pytest -m '$marks' $*" 2>&1 &
    running="$running $!"
    eval "pid_$name=$!"
    [ -n "$isolated" ] || wait $!
}

# Local servers wait more than they compute. What is in neither list is in the third lane.
loads="tests/real/test_experiments_real.py tests/real/test_write_scaling_real.py tests/real/test_findings_load_real.py
    tests/real/test_sysbench_real.py"
builds="tests/real/test_builds_real.py tests/real/test_load_real.py tests/real/test_trace_real.py
    tests/real/test_layouts_real.py tests/real/test_crash_real.py tests/real/test_scale_real.py"
lane fast "$isolated" "not real and not containers and not alone" >"$folder/fast"
# What one lane drops from the cache the other would read again, and what is warm there would never stay warm.
export TESTS_KEEP_CACHES=1
lane containers "" "containers and not alone" >"$folder/containers"
local="real and not containers and not alone"
lane loads "$isolated" "$local" $loads >"$folder/loads"
lane builds "$isolated" "$local" $builds >"$folder/builds"
lane rest "$isolated" "$local" $(printf -- '--ignore=%s ' $loads $builds)
wait "$pid_rest" || failed=1
for name in loads builds containers fast; do
    eval "wait \$pid_$name" || failed=1
    printf '\nLane %s:\n' "$name"
    cat "$folder/$name"
done
unset TESTS_KEEP_CACHES
printf '\nTests that run alone:\n'
running=
lane alone "" alone
wait "$pid_alone" || failed=1
exit "$failed"
