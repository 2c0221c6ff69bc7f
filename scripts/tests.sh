#!/bin/sh
# Every test: `tests.sh VENV`. The fast ones run beside those that boot servers, which wait more than they compute.
set -u
pytest="$1/bin/python -m pytest"
fast=$(mktemp)
beside=
trap 'kill $beside 2>/dev/null; rm -f "$fast"' EXIT
trap 'exit 130' INT TERM HUP

$pytest -m "not real and not containers" >"$fast" 2>&1 &
beside=$!
$pytest -m "real or containers"
booted=$?
wait "$beside"
quick=$?
beside=
printf '\nThe tests that boot no server:\n'
cat "$fast"
[ "$booted" -eq 0 ] && [ "$quick" -eq 0 ]
