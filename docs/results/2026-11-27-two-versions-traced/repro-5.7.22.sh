#!/usr/bin/env bash
# Repeats the session 2026-11-27-two-versions-traced-mysql without the tool that measured it:
#
#     bash repro-5.7.22.sh /path/to/mysqld
#
# At the end it prints the figures of the report:
#
#     Crash recovery of 5.7.22 reads all 200,000 files, 100 were modified
#
# It needs bash 4, coreutils, the server and a mysql client, and to count files strace and grep.
# For cold starts it must be root: it empties the page cache of the whole host. The server listens on a socket only.
# All files are in a new folder, which is removed at the end.
#
# Settings, for example TABLES=1000 bash repro-5.7.22.sh: TABLES, SCHEMAS, INSERTS, RUNS, CACHES ("cold warm"), MYSQL (the
# client), and DIR (a folder on the disk under test; otherwise the current folder).
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"
set -uo pipefail
export LC_ALL=C TZ=UTC
TABLES=${TABLES:-200000} # in each schema
SCHEMAS=${SCHEMAS:-1}
INSERTS=${INSERTS:-100}
RUNS=${RUNS:-5}
CACHES=${CACHES:-cold warm}
here=$(cd "$(dirname "$0")" && pwd)

fail() { # MESSAGE [LOG]
    [ -z "${2:-}" ] || tail -n 5 "$2" >&2
    printf 'error: %s\n' "$1" >&2
    exit 1
}

for number in "$TABLES" "$SCHEMAS" "$INSERTS" "$RUNS"; do
    [[ $number =~ ^[0-9]{1,9}$ ]] || fail "TABLES, SCHEMAS, INSERTS and RUNS are numbers"
done
mysqld=$(command -v "${1:-${MYSQLD:-mysqld}}") || fail "${1:-${MYSQLD:-mysqld}} is not a program; name the server: bash repro-5.7.22.sh /path/to/mysqld"
mysqld=$(realpath "$mysqld")
basedir=$(dirname "$mysqld")
[[ ! $basedir =~ /(bin|sbin|libexec)$ ]] || basedir=$(dirname "$basedir")
client=$(command -v "${MYSQL:-mysql}" || command -v mariadb || command -v "$basedir/bin/mysql") ||
    fail "no mysql client; name it: MYSQL=/path/to/mysql"
[[ $client == /* ]] || client=$PWD/$client
version=$("$mysqld" --no-defaults --version) || fail "$mysqld does not run"
if [[ $CACHES == *cold* && ! -w /proc/sys/vm/drop_caches ]]; then
    echo "Only root can empty the page cache: warm starts only."
    CACHES=warm
fi

server=
tracer=() # what starts the server
dir=$(mktemp -d "$(realpath "${DIR:-.}")/repro.XXXXXXXX") || exit 1
clean_up() {
    [ -z "$server" ] || end KILL
    cd / && rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
cd "$dir" || exit 1

# --- The server

cat > my.cnf <<'END_OF_OPTIONS'
[mysqld]
loose_disable_partition_engine_check
loose_innodb_buffer_pool_dump_at_shutdown = OFF
loose_innodb_buffer_pool_load_at_startup = OFF
loose_innodb_file_per_table = ON
loose_lc_messages = en_US
loose_log_error_verbosity = 3
loose_log_timestamps = UTC
loose_performance_schema = OFF
END_OF_OPTIONS
ulimit -S -n 20000 2> /dev/null
# The socket and the pid file are in the data directory.
options=(--defaults-file="$dir/my.cnf" --basedir="$basedir" --datadir="$dir/data" --tmpdir="$dir" --socket=mysqld.sock
    --pid-file=mysqld.pid --skip-networking --loose-mysqlx=OFF --loose-log-error-verbosity=3
    --secure-file-priv="$dir")
share=$basedir/share
for folder in "$basedir"/share/mysql "$basedir"/share/mariadb "$basedir"/share/mysql-*; do
    [ ! -f "$folder/english/errmsg.sys" ] || share=$folder
done
[ ! -f "$share/english/errmsg.sys" ] || options+=(--lc-messages-dir="$share")
[ "$(id -u)" != 0 ] || options+=(--user=root)

# Up to 5.6 and in MariaDB a server is given the statements of the vendor's install script.
system_tables() {
    local name file
    printf '%s\n' 'create database if not exists mysql;' 'use mysql;' 'set @skip_auth_root_nopasswd=NULL;' \
        'set @auth_root_socket=NULL;'
    for name in mysql_system_tables mysql_performance_tables mysql_system_tables_data maria_add_gis_sp_bootstrap \
        mysql_sys_schema; do
        for file in "$share/$name.sql" "$share/${name/mysql_/mariadb_}.sql"; do
            if [ -f "$file" ]; then
                cat "$file"
                break
            fi
        done
    done
}

initialise() {
    local mode=(--initialize-insecure) statements=/dev/null
    case $version in
        *MariaDB* | *' 5.'[0-6].*)
            system_tables > system.sql
            [ -n "$(tail -n +5 system.sql)" ] || fail "$share has no mysql_system_tables.sql"
            mode=(--bootstrap --max-allowed-packet=8M --loose-log-warnings=0) statements=system.sql
            ;;
    esac
    mkdir data
    "$mysqld" "${options[@]}" "${mode[@]}" < "$statements" > initialise.err 2>&1 ||
        fail "no data directory can be made" initialise.err
}

start() { # LOG OPTION...: returns when the server is ready
    local log=$1
    shift
    : > "$log"
    "${tracer[@]+"${tracer[@]}"}" "$mysqld" "${options[@]}" "$@" >> "$log" 2>&1 < /dev/null &
    server=$!
    until [[ $(< "$log") == *': ready for connections'* ]]; do
        if ! kill -0 "$server" 2> /dev/null; then
            server=
            fail "the server does not start" "$log"
        fi
        sleep 0.01
    done
}

end() { # SIGNAL
    { kill "-$1" "$server" && wait "$server"; } 2> /dev/null
    server=
}

run_sql() {
    "$client" --no-defaults --protocol=socket --socket=data/mysqld.sock --user=root > sql.out 2>&1 ||
        fail "the server refuses a statement" sql.out
}

# --- The tables, and the inserts before the crash

schema_name() { # NUMBER: sets $schema
    schema=discovery
    ((SCHEMAS == 1)) || schema+=_$1
    schema="\`$schema\`"
}

make_tables() {
    local number table row
    for ((number = 1; number <= SCHEMAS; number++)); do
        schema_name "$number"
        printf 'create schema %s;\n' "$schema"
        for ((table = 1; table <= TABLES; table++)); do
            printf 'create table %s.table_%d %s;\n' "$schema" "$table" '(id int primary key auto_increment)'
        done
    done
}

make_inserts() {
    local number
    ((INSERTS)) || printf '%s;\n' 'replace into mysql.innodb_table_stats values ('"'"'recovery_tester'"'"', '"'"'beat'"'"', now(), 0, 0, 0)'
    for ((number = 0; number < INSERTS; number++)); do
        schema_name "$((number % SCHEMAS + 1))"
        printf 'insert into %s.table_%d %s;\n' "$schema" "$((number / SCHEMAS % TABLES + 1))" 'values (null)'
    done
}

# --- The timed starts

empty_cache() {
    sync
    echo 3 > /proc/sys/vm/drop_caches || fail "the page cache cannot be emptied"
}

insert_and_end() {
    make_inserts | run_sql || exit 1
    end KILL
}

recovery_line() { # LOG: prints the line that proves a crash recovery
    local line
    while IFS= read -r line; do
        if [[ $line == *'Database was not shut'*'down normally'* || $line == *'Starting crash recovery from checkpoint'* ]]; then
            printf '%s\n' "$line"
            return
        fi
    done < "$1"
    echo "no crash recovery in the log"
}

use() { # VARIANT: sets $with and $timed, and what the server is started with
    with= timed=()
    case $1 in
        1)
            options[0]=--defaults-file=$dir/my.cnf
            timed=()
            ;;
    esac
}

crash() { # CACHE: leaves a server that was ended after the inserts
    start untimed.err
    insert_and_end
    if [ "$1" = cold ]; then
        empty_cache
    else
        start warming.err
        insert_and_end
    fi
}

declare -A total # milliseconds of all starts, by cache and variant
measure() { # CACHE RUN VARIANT
    local before after taken
    use "$3"
    crash "$1"
    before=$(date +%s%N)
    start timed.err "${timed[@]+"${timed[@]}"}"
    after=$(date +%s%N)
    taken=$(((after - before) / 1000000))
    total[$1 $3]=$((${total[$1 $3]:-0} + taken))
    printf '%s start %d%s: %d.%03d s until "ready for connections"; %s\n' "$1" "$2" "$with" \
        "$((taken / 1000))" "$((taken % 1000))" "$(recovery_line timed.err)"
    end TERM
}

# --- The figures of the report

thousands() { # NUMBER: prints 200000 as 200,000
    local number=$1 text=
    while ((number >= 1000)); do
        text=,$(printf %03d "$((number % 1000))")$text
        number=$((number / 1000))
    done
    printf '%s%s' "$number" "$text"
}

seconds() { # MILLISECONDS: prints three digits, as the report does
    if (($1 >= 99950)); then
        printf '%d s' "$((($1 + 500) / 1000))"
    elif (($1 >= 9995)); then
        printf '%d.%d s' "$((($1 + 50) / 1000))" "$((($1 + 50) / 100 % 10))"
    else
        printf '%d.%02d s' "$((($1 + 5) / 1000))" "$((($1 + 5) / 10 % 100))"
    fi
}

print_mean() { # CACHE VARIANT
    local taken=$(((${total[$1 $2]} + RUNS / 2) / RUNS))
    use "$2"
    with=${with:+$with,}
    printf '%s takes %s %s%s %s tables, mean of %d %s\n' 'Startup after SIGKILL' "$(seconds "$taken")" "$1" \
        "${with:- with}" "$(thousands "$((TABLES * SCHEMAS))")" "$RUNS" "$([ "$RUNS" = 1 ] && echo run || echo runs)"
}

count_files() { # prints how many files of tables one more start reads
    local calls=read,pread64 count changed=
    if ! command -v strace > /dev/null; then
        echo "Without strace the files that the start reads are not counted."
        return
    fi
    use 1
    crash warm
    tracer=(strace -D -f -qq -y -s 0 -e "trace=$calls" -o calls.txt)
    start traced.err
    tracer=()
    count=$(grep -oE '[^/<"]+/[^/>"]+\.ibd' calls.txt | grep -vE '^(mysql|sys)/' | sort -u | wc -l)
    end TERM
    changed=", $(thousands "$((INSERTS < TABLES * SCHEMAS ? INSERTS : TABLES * SCHEMAS))") were modified"
    printf 'Crash recovery reads %s files%s\n' "$(thousands "$count")" "$changed"
}

printf '%s\n' "$version"
initialise
# Building the tables gives up durability for speed.
start build.err --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF --loose-sync-frm=OFF \
    --loose-innodb-stats-persistent=OFF --table-open-cache=400 --table-definition-cache=400
make_tables | run_sql || exit 1
end TERM
for ((run = 1; run <= RUNS; run++)); do
    for cache in $CACHES; do
        for ((variant = 1; variant <= 1; variant++)); do
            measure "$cache" "$run" "$variant"
        done
    done
done
((RUNS)) || exit 0
for cache in $CACHES; do
    for ((variant = 1; variant <= 1; variant++)); do
        print_mean "$cache" "$variant"
    done
done
count_files
