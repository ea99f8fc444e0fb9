#!/bin/sh
# Makes the environment of tests/browser below .venv/browser from its lock file, and finds Debian's Chromium. As root it
# installs the package `chromium`. Ends with 1 where the browser or a package is missing: `make browser` fails then.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${PYTHON:=.venv/bin/python}"
missing() {
  echo "NOT INSTALLED: $1. The console is not tested in a browser." >&2
  exit 1
}
if ! command -v chromium >/dev/null 2>&1; then
  [ "$(id -u)" = 0 ] || missing "chromium (apt-get install chromium)"
  echo "installing chromium for tests/browser" >&2
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1
  command -v chromium >/dev/null 2>&1 || missing "chromium"
fi
lock=tests/browser/requirements.lock
folder=.venv/browser
wanted=$(cksum <"$lock")
[ -f "$folder/.stamp" ] && [ "$(cat "$folder/.stamp")" = "$wanted" ] && exit 0
echo "installing playwright for tests/browser" >&2
rm -rf "$folder"
"$PYTHON" -m venv "$folder" || missing "a virtual environment"
"$folder/bin/python" -m pip install --quiet --require-hashes --no-deps -r "$lock" || missing "playwright"
"$folder/bin/python" -m pip check || missing "playwright: its packages conflict"
echo "$wanted" >"$folder/.stamp"
