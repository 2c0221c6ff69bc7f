#!/bin/sh
# Makes the virtual environment from a lock, once: `environment.sh VENV LOCK`. Quiet when there is nothing to do.
set -eu
venv=$1
lock=$2
python=${PYTHON:-python3}

say() { echo "$*" >&2; }

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    say "error: $python is missing or older than 3.11"
    if command -v dnf >/dev/null && ! command -v apt-get >/dev/null; then
        say "hint:  dnf install python3.11, and then make PYTHON=python3.11 ..."
    else
        say "hint:  apt-get install python3, or name another: make PYTHON=/path/to/python3.11 ..."
    fi
    exit 3
fi

# The test lock holds all of the run lock: an environment made for the tests serves the runs too.
stamp() { sha256sum "$1" setup.cfg | sha256sum | cut -d' ' -f1; }
wanted=$(stamp "$lock")
have=$(cat "$venv/.locked" 2>/dev/null || true)
if [ -x "$venv/bin/recovery" ]; then
    [ "$have" = "$wanted" ] && exit 0
    [ "$have" = "$(stamp requirements/test.lock)" ] && exit 0
fi

# Two at once: the second waits, then finds it done.
exec 9>"$venv.lock"
flock 9
if [ -x "$venv/bin/recovery" ] && [ "$(cat "$venv/.locked" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

say "making the environment in $venv from $lock"
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    . "$(dirname "$0")/may_install.sh"
    if may_install; then
        say "installing python3-venv"
        { apt-get update -qq && apt-get install -y -qq python3-venv; } >&2
    else
        say "error: this Python has no venv module"
        say "hint:  sudo apt-get install python3-venv"
        exit 3
    fi
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
rm -f "$venv/.locked"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "$lock"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
echo "$wanted" >"$venv/.locked"
