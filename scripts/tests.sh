#!/bin/sh
# Every test: `tests.sh VENV`. Those that boot servers wait more than they compute: six lanes of them run at once, and
# the fast tests beside. Then come those that others would disturb: of those with servers all that are not marked
# `beside`, and whatever is marked `alone`.
set -u
pytest="$1/bin/python -m pytest"
folder=$(mktemp -d)
running=
failed=0

# Until they have ended: a test of interrupted builds may take the first signal for its own.
interrupted() {
    trap '' INT TERM HUP
    { while sleep 20; do kill $running; done; } 2>/dev/null &
    [ -z "$running" ] || wait $running
    kill -KILL $!  # it ignores the other signals as we do
    exit 130
}
# Ctrl-C reaches the lanes, too, and a second signal at once would cut short how they clear up.
trap interrupted INT
trap 'kill $running 2>/dev/null; interrupted' TERM HUP
trap 'rm -rf "$folder"' EXIT

# A lane finds the data directories that an earlier one has left in the same folder.
begin() { # DATA MARKS OPTION...
    mkdir -p "$folder/$1"
    data=$folder/$1 marks=$2
    shift 2
    TESTS_DATA=$data $pytest -m "$marks" "$@" &
    running="$running $!"
}

# Of these lanes none empties the host's caches: all others would read their servers and libraries anew each time, and
# what is to be warm would never be. A cold start is one for which its own files were put out of the cache.
beside() { # DATA MARKS OPTION...
    export TESTS_KEEP_CACHES=1
    begin "$@"
    unset TESTS_KEEP_CACHES
}

end() { # PROCESS
    wait "$1" || failed=1
}

together="beside and not alone"
# Parts of the local ones, so that the lanes take about as long; the last lane has all that is not listed here.
pages="tests/test_docs.py"
work="tests/real/test_experiments_real.py tests/real/test_budget_real.py tests/real/test_write_scaling_real.py"
files="tests/real/test_builds_real.py tests/real/test_load_real.py tests/real/test_layouts_real.py
    tests/real/test_trace_real.py tests/real/test_scale_real.py"
killed="tests/real/test_torture_real.py tests/real/test_resume_real.py tests/real/test_crash_real.py"
begin none "not real and not containers and not alone" >"$folder/fast.out" 2>&1
fast=$!
# One lane for all that makes and removes images.
beside engine "containers and $together" >"$folder/engine.out" 2>&1
engine=$!
beside pages "real and not containers and $together" $pages >"$folder/pages.out" 2>&1
paged=$!
beside work "real and not containers and $together" $work >"$folder/work.out" 2>&1
worked=$!
beside files "real and not containers and $together" $files >"$folder/files.out" 2>&1
filed=$!
beside killed "real and not containers and $together" $killed >"$folder/killed.out" 2>&1
tortured=$!
beside rest "real and not containers and $together" $(printf -- '--ignore=%s ' $pages $work $files $killed)
end $!
for lane in "engine $engine" "pages $paged" "work $worked" "files $filed" "killed $tortured" "fast $fast"; do
    end "${lane#* }"
    printf '\nThe lane "%s":\n' "${lane% *}"
    cat "$folder/${lane% *}.out"
done
printf '\nThose that run alone:\n'
running=
begin pages "alone or ((real or containers) and not beside)"
end $!
running=
exit "$failed"
