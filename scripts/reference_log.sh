#!/bin/sh
# Installs the reference implementation of signed notes and tiled logs (Go, with golang.org/x/mod/sumdb), by which
# tests/evidence has our evidence checked. From Debian's packages, and only where that can be done without asking:
# as root, with apt-get. Elsewhere those tests fail with the same words; this script names the packages, and ends with 0.
set -u
SOURCES=/usr/share/gocode/src/golang.org/x/mod/sumdb
if command -v go >/dev/null 2>&1 && [ -d "$SOURCES" ]; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  echo "installing golang-go and golang-golang-x-mod-dev, for tests/evidence" >&2
  install='apt-get install -y -qq --no-install-recommends golang-go golang-golang-x-mod-dev'
  if timeout 400 sh -c "$install || { apt-get update -qq && $install; }" >/dev/null 2>&1; then
    exit 0
  fi
fi
echo "NOT INSTALLED: golang-go and golang-golang-x-mod-dev. tests/evidence/test_checked_by_others.py will FAIL:" >&2
echo "no other implementation checks our evidence in this run. Install both packages by hand." >&2
exit 0
