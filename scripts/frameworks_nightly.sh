#!/bin/sh
# The whole bed of the framework adapters: every framework, at its lowest and at its latest tested version.
# Takes long and several gigabytes, so neither `make check` nor a pull request runs it.
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory frameworks ALL=1 KIND=lowest
make --no-print-directory frameworks ALL=1 KIND=latest
