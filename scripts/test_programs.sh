#!/bin/sh
# Provides the programs that tests use beside Python: `test_programs.sh [PROGRAM:PACKAGE...]`. As root on Debian they are
# installed; elsewhere the command that installs them is printed, and their tests are skipped.
set -eu
. "$(dirname "$0")/may_install.sh"
wanted="dockerd:docker.io docker-registry:docker-registry debootstrap:debootstrap eu-stack:elfutils perf:linux-perf
    sysbench:sysbench mariadb-dump:mariadb-client mkfs.xfs:xfsprogs
    sshd:openssh-server ansible-playbook:ansible-core sudo:sudo"
PATH=$PATH:/usr/sbin:/sbin
missing=
for pair in $wanted "$@"; do
    # An engine's own packages and docker.io exclude each other.
    if [ "${pair%:*}" = dockerd ] && docker version >/dev/null 2>&1; then continue; fi
    command -v "${pair%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
if may_install; then
    echo "installing for the tests:$missing" >&2
    # shellcheck disable=SC2086  # a list of packages
    if { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y $missing; } >&2; then exit 0; fi
fi
if command -v apt-get >/dev/null; then
    echo "tests of missing programs are skipped; this command installs them: sudo apt-get install$missing" >&2
else
    echo "tests of missing programs are skipped; in Debian their packages are:$missing" >&2
fi
