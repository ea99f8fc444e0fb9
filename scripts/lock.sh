#!/usr/bin/env bash
# Writes the lock files again. `uv` does the resolving; it is needed here only, so it is no dependency.
set -euo pipefail
cd "$(dirname "$0")/.."

uv="$(command -v uv || true)"
[ -n "$uv" ] || uv=.venv/bin/uv
[ -x "$uv" ] || { echo "make lock needs uv: .venv/bin/python -m pip install uv" >&2; exit 1; }

compile() { "$uv" pip compile --quiet --universal --generate-hashes --no-header --no-annotate "$@"; }
# The extra `test` has what the tests need. The frameworks have environments of their own: their packages clash.
compile pyproject.toml --extra test --output-file requirements.lock
compile pyproject.toml --extra demo --extra build --constraint requirements.lock \
  --output-file requirements-demo.lock

# Its dependencies are clients of models; the environments that the tests use need none of them.
echo 'agentdojo==0.1.35' | compile --no-deps --output-file requirements-agentdojo.lock -

# What builds the site of the documents; nothing else needs it.
printf 'mkdocs-material\nmkdocstrings[python]\n' | compile --python-version 3.11 --output-file requirements-docs.lock -

# What is measured beside Readback, each in an environment of its own. It is renewed by hand, in the `.in` files.
for name in bench/environments/*.in; do
  compile --python-version 3.11 --output-file "${name%.in}.lock" "$name"
done

scripts/framework_locks.sh

if grep -nE '://|^--' requirements*.lock bench/environments/*.lock; then
  echo "a lock file names a registry; see the lines above" >&2
  exit 1
fi
