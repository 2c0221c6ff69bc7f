#!/usr/bin/env bash
# Starts an empty MariaDB server five times with ssl=ON and five times with ssl=OFF, in turns, and prints the seconds
# until "ready for connections". Needs no root, and opens no port.
#
#     bash repro.sh /path/to/the/unpacked/tarball
set -euo pipefail
base=$(realpath "${1:?name the folder of the server}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
as=()
[ "$(id -u)" != 0 ] || as=(--user=root)
install=$(find "$base" -name mariadb-install-db | head -n 1)
"$install" --no-defaults --basedir="$base" --datadir="$dir/data" "${as[@]}" > "$dir/install.log" 2>&1 || {
    tail -n 5 "$dir/install.log" >&2
    exit 1
}
for _ in 1 2 3 4 5; do
    for ssl in ON OFF; do
        log=$dir/$ssl.err
        : > "$log"
        start=$(date +%s%N)
        "$base/bin/mariadbd" --no-defaults --basedir="$base" --datadir="$dir/data" --socket="$dir/socket" \
            --pid-file="$dir/pid" --skip-networking --ssl="$ssl" "${as[@]}" 2> "$log" &
        until grep -q "ready for connections" "$log"; do
            kill -0 $! 2> /dev/null || { tail -n 5 "$log" >&2; exit 1; }
            sleep 0.01
        done
        hundredths=$((($(date +%s%N) - start) / 10000000))
        printf 'ssl=%-3s %d.%02d s\n' "$ssl" $((hundredths / 100)) $((hundredths % 100))
        kill $!
        wait $!
    done
done
