#!/bin/sh
# Provides what the tests need beside Python: programs and a Docker engine. `test_programs.sh start`, and `stop` for the
# engine that `start` has started; one that answers already is used as it is. As root on Debian the programs are
# installed; elsewhere each missing one is named with the command that installs it, and its tests are skipped.
set -eu
pid_file=${TMPDIR:-/tmp}/recovery-tester-test-engine.pid
log=${TMPDIR:-/tmp}/recovery-tester-test-engine.log
# program:package
wanted="dockerd:docker.io docker-registry:docker-registry debootstrap:debootstrap eu-stack:elfutils gdb:gdb perf:linux-perf
    sysbench:sysbench mariadb-dump:mariadb-client"
PATH=$PATH:/usr/sbin:/sbin

answers() { docker version >/dev/null 2>&1; }

may_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    case ${RECOVERY_NO_ROOT_STEPS:-} in '' | 0 | no | false) ;; *) return 1 ;; esac
}

provide() {
    missing=
    for pair in $wanted $*; do
        # An engine's own packages and docker.io exclude each other.
        if [ "${pair%:*}" = dockerd ] && answers; then continue; fi
        command -v "${pair%:*}" >/dev/null || missing="$missing ${pair#*:}"
    done
    [ -n "$missing" ] || return 0
    if may_install; then
        echo "installing for the tests:$missing" >&2
        # shellcheck disable=SC2086  # a list of packages
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y $missing; } >&2
    else
        echo "tests of missing programs are skipped; this command installs them: sudo apt-get install$missing" >&2
    fi
}

start_engine() {
    if answers || [ "$(id -u)" != 0 ] || ! command -v dockerd >/dev/null; then return 0; fi
    setsid dockerd >"$log" 2>&1 &
    echo $! >"$pid_file"
    for _ in $(seq 60); do
        if answers; then return 0; fi
        sleep 1
    done
    tail -n 20 "$log" >&2
    echo "dockerd does not answer" >&2
    stop_engine
    return 3
}

stop_engine() {
    [ -f "$pid_file" ] || return 0
    pid=$(cat "$pid_file")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 60); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 1
    done
    rm -f "$pid_file"
}

case ${1:-} in
    start) shift; provide "$@"; start_engine ;;
    stop) stop_engine ;;
    *) echo "usage: test_programs.sh start [PROGRAM:PACKAGE...] | stop" >&2; exit 2 ;;
esac
