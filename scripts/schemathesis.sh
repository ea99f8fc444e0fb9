#!/usr/bin/env bash
# Tests every route of the HTTP API against its own description with Schemathesis, in an environment of its own: its
# packages are not those of the tests. Fails where it cannot be installed, and for any finding.
set -euo pipefail
cd "$(dirname "$0")/.."

home="$PWD/.venv/schemathesis"
settings="$PWD/tests/server/schemathesis.toml"
[ -x "$home/bin/schemathesis" ] || {
  .venv/bin/python -m venv "$home"
  "$home/bin/python" -m pip install --quiet "schemathesis==4.32.5"
}
place="$(mktemp -d)"
export SHOP_DB="$place/shop.db" SHOP_SANDBOX="$place/sandbox.db" READBACK_TOKENS_FILE="$place/tokens.json" PYTHONPATH="$PWD"
readback="$PWD/.venv/bin/readback"
token="$("$readback" token create --tenant acme --principal human:tester \
  --right run --right read --right review --right admin 2>/dev/null)"
"$readback" serve --port 0 --json --url "sqlite:///$place/ledger.db" --contracts tests.server.contracts > "$place/url" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$place"' EXIT
for _ in $(seq 100); do
  url="$(sed -n 's/.*"url": "\(.*\)".*/\1/p' "$place/url")"
  [ -n "$url" ] && break
  sleep 0.1
done
[ -n "$url" ] || { echo "the server did not start" >&2; exit 1; }
cd "$place"  # Schemathesis keeps its examples in the working folder
# The stream has no end, and tests/server/test_events.py tests the stream.
"$home/bin/schemathesis" --config-file "$settings" run "$url/openapi.json" \
  -H "Authorization: Bearer $token" --exclude-path /v1/events --request-timeout 20 --no-color \
  --max-examples "${EXAMPLES:-25}" --seed "${SEED:-1}" ${RUN:-}
