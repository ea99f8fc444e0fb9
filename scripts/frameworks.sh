#!/bin/sh
# Makes the environments of frameworks below .venv/frameworks, from their lock files: scripts/frameworks.sh KIND NAME ...
# with KIND `latest` or `lowest`. Quick where an environment exists. Ends with 1 where a package cannot be installed or
# two packages conflict: `make frameworks` fails then.
set -u
cd "$(dirname "$0")/.." || exit 1
KIND=$1
shift
: "${PYTHON:=.venv/bin/python}"
missing() {
  echo "NOT INSTALLED: $1. Its adapter is not tested." >&2
  exit 1
}
for name in "$@"; do
  lock=tests/frameworks/locks/$name-$KIND.lock
  folder=.venv/frameworks/$name-$KIND
  [ -f "$lock" ] || missing "$name ($lock does not exist)"
  wanted=$(cksum <"$lock")
  [ -f "$folder/.stamp" ] && [ "$(cat "$folder/.stamp")" = "$wanted" ] && continue
  echo "installing $name ($KIND) for tests/frameworks" >&2
  mkdir -p .venv/frameworks
  rm -rf "$folder"
  "$PYTHON" -m venv "$folder" || missing "$name: no virtual environment"
  "$folder/bin/python" -m pip install --quiet --require-hashes --no-deps -r "$lock" || missing "$name"
  "$folder/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable . || missing "Readback for $name"
  "$folder/bin/python" -m pip check || missing "$name: its packages conflict"
  echo "$wanted" >"$folder/.stamp"
done
