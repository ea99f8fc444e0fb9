#!/usr/bin/env bash
# The mutation gate; see mutants.py. One room on each core, and politely: it is the longest of the checks.
set -euo pipefail
cd "$(dirname "$0")/.."
# What a caller adds to runs that report (-v) is not for those without a report.
unset PYTEST_ADDOPTS
exec nice -n 10 .venv/bin/python scripts/mutants.py "$@"
