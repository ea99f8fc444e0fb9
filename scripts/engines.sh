#!/bin/sh
# Installs the durable engines of tests/engines with their servers below .venv/engines: Python packages from
# tests/engines/engines.lock, Temporal's development server among them, and Restate's server from npm. npm itself comes
# with scripts/mcp_servers.sh where it is missing. Quick where everything is there. Ends with 1 where something cannot be
# installed: `make engines` fails then.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${PYTHON:=.venv/bin/python}"
FOLDER=.venv/engines
RESTATE=@restatedev/restate-server@1.7.12
missing() {
  echo "NOT INSTALLED: $1. Durable engines are not tested." >&2
  exit 1
}
# An editable install records the project's dependencies, so a change of those makes a new environment too.
wanted=$(cat tests/engines/engines.lock pyproject.toml scripts/engines.sh | cksum)
[ -f "$FOLDER/.stamp" ] && [ "$(cat "$FOLDER/.stamp")" = "$wanted" ] && exit 0
echo "installing durable engines for tests/engines" >&2
rm -rf "$FOLDER"
"$PYTHON" -m venv "$FOLDER" || missing "a virtual environment"
"$FOLDER/bin/python" -m pip install --quiet --require-hashes --no-deps -r tests/engines/engines.lock || missing "the engines"
"$FOLDER/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable . || missing "Readback"
"$FOLDER/bin/python" -m pip check || missing "the engines: their packages conflict"
command -v npm >/dev/null 2>&1 || scripts/mcp_servers.sh
command -v npm >/dev/null 2>&1 || missing "npm"
mkdir -p "$FOLDER/restate"
# A folder of its own with a manifest, so that npm does not look for one above it.
echo '{"private": true}' >"$FOLDER/restate/package.json"
timeout 300 npm install --prefix "$FOLDER/restate" --no-package-lock --no-audit --no-fund --ignore-scripts --save-exact \
  "$RESTATE" >"$FOLDER/restate/install.log" 2>&1 || missing "$RESTATE"
chmod +x "$FOLDER"/restate/node_modules/@restatedev/restate-server-*/bin/restate-server || missing "the binary of $RESTATE"
echo "$wanted" >"$FOLDER/.stamp"
