#!/bin/sh
# Unpacks Debian's nginx below .venv/proxy, for tests/proxy. Nothing is installed on the system, and no daemon starts.
# Quick where it is done already. Ends with 1 where the package cannot be had: `make proxy` fails then.
set -u
cd "$(dirname "$0")/.." || exit 1
FOLDER=.venv/proxy
STAMP=$FOLDER/.stamp
if [ -f "$STAMP" ] && "$FOLDER/usr/sbin/nginx" -v >/dev/null 2>&1; then
  exit 0
fi
LOG=$FOLDER/install.log
missing() {
  echo "NOT INSTALLED: $1. The HTTP server is not tested behind a proxy." >&2
  echo "The cause is in $LOG. Correct the cause, and run scripts/proxy.sh again." >&2
  exit 1
}
mkdir -p "$FOLDER"
: >"$LOG"
command -v apt-get >/dev/null 2>&1 || missing "nginx: this system has no apt-get"
command -v dpkg-deb >/dev/null 2>&1 || missing "nginx: this system has no dpkg-deb"
echo "unpacking Debian's nginx, for tests/proxy" >&2
download() {
  (cd "$FOLDER" && timeout 300 apt-get download nginx >>install.log 2>&1)
}
# The lists of packages may be absent or old. Fetch the lists once where the package is not found.
download || { timeout 300 apt-get update >>"$LOG" 2>&1; download; } || missing "nginx"
package=$(ls -t "$FOLDER"/nginx_*.deb 2>>"$LOG" | head -1)
[ -n "$package" ] || missing "nginx"
dpkg-deb --extract "$package" "$FOLDER" >>"$LOG" 2>&1 || missing "nginx"
"$FOLDER/usr/sbin/nginx" -v >>"$LOG" 2>&1 || missing "nginx: a library of the package is missing"
rm -f "$FOLDER"/nginx_*.deb
echo "$(basename "$package")" >"$STAMP"
