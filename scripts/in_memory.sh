#!/bin/sh
# Runs a command with its temporary files in memory, where the system has room for them, and takes them away behind it;
# elsewhere, runs it as it is. What tests kill is processes: what such a one had written outlives it in either place.
set -u
ROOM_KB=4000000
LEFT_MINUTES=180 # no run takes so long: what is older was left by one that was killed
room_kb=$(df -Pk /dev/shm 2>/dev/null | awk 'END { print $4 }')
free_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null)
if [ "${room_kb:-0}" -lt "$ROOM_KB" ] || [ "${free_kb:-0}" -lt "$((2 * ROOM_KB))" ]; then
  exec "$@"
fi
find /dev/shm -maxdepth 1 -name 'readback-tests-*' -user "$(id -u)" -mmin "+$LEFT_MINUTES" -exec rm -rf {} + 2>/dev/null
TMPDIR=$(mktemp -d /dev/shm/readback-tests-XXXXXX) || exec "$@"
chmod 711 "$TMPDIR" # PostgreSQL runs as somebody else
export TMPDIR
# Twice: what was ended with this may still be writing.
trap 'rm -rf "$TMPDIR" 2>/dev/null || { sleep 2; rm -rf "$TMPDIR"; }' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"$@"
