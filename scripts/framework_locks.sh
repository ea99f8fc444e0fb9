#!/usr/bin/env bash
# Writes the lock files of the frameworks' environments again: tests/frameworks/locks/NAME-latest.in and NAME-lowest.in
# become NAME-latest.lock and NAME-lowest.lock, with Readback's own dependencies and with hashes. `uv` does the resolving.
# Without a name: all of them.
set -euo pipefail
cd "$(dirname "$0")/.."

uv="${UV:-$(command -v uv || true)}"
[ -n "$uv" ] || uv=.venv/bin/uv
[ -x "$uv" ] || { echo "This script needs uv: .venv/bin/python -m pip install uv, or UV=/path/to/uv" >&2; exit 1; }

locks=tests/frameworks/locks
[ $# -gt 0 ] || set -- $(cd $locks && ls -- *-latest.in | sed 's/-latest\.in$//')
for name in "$@"; do
  for kind in latest lowest; do
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
      --output-file "$locks/$name-$kind.lock" pyproject.toml "$locks/base.in" "$locks/$name-$kind.in"
    if grep -nE '://|^--' "$locks/$name-$kind.lock"; then
      echo "$locks/$name-$kind.lock names a registry; see the lines above" >&2
      exit 1
    fi
  done
done
