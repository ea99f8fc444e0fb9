#!/bin/sh
# Unpacks Debian's prometheus (with promtool) below .venv/prometheus, for tests/prometheus. Nothing is installed on the
# system, and no daemon starts. Quick where it is done already.
# Ends with 1 where the package cannot be had: `make prometheus` fails then.
set -u
cd "$(dirname "$0")/.." || exit 1
FOLDER=.venv/prometheus
STAMP=$FOLDER/.stamp
if [ -f "$STAMP" ] && "$FOLDER/usr/bin/promtool" --version >/dev/null 2>&1; then
  exit 0
fi
LOG=$FOLDER/install.log
missing() {
  echo "NOT INSTALLED: $1. The rules, the alerts and the dashboard are not held against Prometheus." >&2
  echo "What was said is in $LOG; correct the cause, and run scripts/prometheus.sh again." >&2
  exit 1
}
mkdir -p "$FOLDER"
: >"$LOG"
command -v apt-get >/dev/null 2>&1 || missing "prometheus: this system has no apt-get"
command -v dpkg-deb >/dev/null 2>&1 || missing "prometheus: this system has no dpkg-deb"
echo "unpacking Debian's prometheus, for tests/prometheus" >&2
download() {
  (cd "$FOLDER" && timeout 300 apt-get download prometheus >>install.log 2>&1)
}
# The lists of packages may be absent or old; they are fetched once where the package is not found.
download || { timeout 300 apt-get update >>"$LOG" 2>&1; download; } || missing "prometheus"
package=$(ls -t "$FOLDER"/prometheus_*.deb 2>>"$LOG" | head -1)
[ -n "$package" ] || missing "prometheus"
dpkg-deb --extract "$package" "$FOLDER" >>"$LOG" 2>&1 || missing "prometheus"
"$FOLDER/usr/bin/promtool" --version >>"$LOG" 2>&1 || missing "promtool"
"$FOLDER/usr/bin/prometheus" --version >>"$LOG" 2>&1 || missing "prometheus"
rm -f "$FOLDER"/prometheus_*.deb
echo "$(basename "$package")" >"$STAMP"
