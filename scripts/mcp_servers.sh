#!/bin/sh
# Installs the MCP servers that the contract packs are tested against (tests/packs), at exact versions, below
# .venv/servers: two from npm, two from PyPI, each Python server in an environment of its own. Those from npm bring the
# TypeScript SDK along, whose client is held against the gateway. node and npm come from
# Debian's packages, and only where they are missing and that can be done without asking: as root, with apt-get.
# Quick where it is done already. What cannot be installed is named, and this script ends with 0: tests/packs then fails
# with the same words, since packs that are not tested against their servers are not known to work.
set -u
cd "$(dirname "$0")/.." || exit 1
SERVERS=.venv/servers
NPM_SERVERS="@modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/server-memory@2026.8.31"
GIT_SERVER="mcp-server-git==2026.10.19 mcp==2.3.0"
SQLITE_SERVER="mcp-server-sqlite==2025.4.25 mcp==1.30.0" # it was written for the first line of the SDK
WANTED="$NPM_SERVERS $GIT_SERVER $SQLITE_SERVER"
STAMP=$SERVERS/.stamp
if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$WANTED" ]; then
  exit 0
fi
mkdir -p "$SERVERS"
LOG=$SERVERS/install.log
: >"$LOG"
missing() {
  echo "NOT INSTALLED: $1. tests/packs will FAIL: the packs are not tested against their servers." >&2
  echo "What was said is in $LOG; install it by hand, or run scripts/mcp_servers.sh again." >&2
  exit 0
}
if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || missing "node and npm"
  export DEBIAN_FRONTEND=noninteractive
  echo "installing nodejs and npm, for tests/packs" >&2
  install='apt-get install -y -qq --no-install-recommends nodejs npm'
  timeout 400 sh -c "$install || { apt-get update -qq && $install; }" >>"$LOG" 2>&1 || missing "nodejs and npm"
fi
echo "installing the servers of the contract packs, for tests/packs" >&2
mkdir -p "$SERVERS/npm"
# A folder of its own with a manifest, so that npm does not look for one above it.
[ -f "$SERVERS/npm/package.json" ] || echo '{"private": true}' >"$SERVERS/npm/package.json"
# shellcheck disable=SC2086 # the list is of words
timeout 300 npm install --prefix "$SERVERS/npm" --no-package-lock --no-audit --no-fund --ignore-scripts --save-exact \
  $NPM_SERVERS >>"$LOG" 2>&1 || missing "$NPM_SERVERS"
for name in git sqlite; do
  [ "$name" = git ] && wanted=$GIT_SERVER || wanted=$SQLITE_SERVER
  [ -x "$SERVERS/$name/bin/python" ] || .venv/bin/python -m venv "$SERVERS/$name" >>"$LOG" 2>&1 || missing "$wanted"
  # shellcheck disable=SC2086
  timeout 300 "$SERVERS/$name/bin/python" -m pip install --quiet --disable-pip-version-check --no-input $wanted \
    >>"$LOG" 2>&1 || missing "$wanted"
done
echo "$WANTED" >"$STAMP"
