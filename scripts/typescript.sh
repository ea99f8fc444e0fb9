#!/bin/sh
# Installs the packages of clients/typescript by its lock file, exactly, and compiles the client and its tests. The lock
# names versions and digests and no registry. node and npm come with scripts/mcp_servers.sh where they are missing. Quick
# where everything is there. Ends with 1 where something cannot be installed: `make typescript` fails then.
set -u
cd "$(dirname "$0")/.." || exit 1
missing() {
  echo "NOT INSTALLED: $1. The TypeScript client is not tested." >&2
  exit 1
}
command -v npm >/dev/null 2>&1 || scripts/mcp_servers.sh
command -v npm >/dev/null 2>&1 || missing "npm"
cd clients/typescript || exit 1
wanted=$(cat package.json packages.lock.json | cksum)
cp packages.lock.json package-lock.json || exit 1  # npm reads its lock under this name only
if [ ! -f node_modules/.stamp ] || [ "$(cat node_modules/.stamp)" != "$wanted" ]; then
  echo "installing the packages of clients/typescript" >&2
  rm -rf node_modules
  timeout 300 npm ci --no-audit --no-fund --ignore-scripts || missing "the packages of clients/typescript"
  echo "$wanted" >node_modules/.stamp
fi
rm -rf dist build
node_modules/.bin/tsc -p tsconfig.build.json && node_modules/.bin/tsc -p tsconfig.test.json
