#!/usr/bin/env bash
# Installs the redis-server that tests of several routers start, where it is missing (Debian, root).
set -eu
if command -v redis-server >/dev/null; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing: redis-server" >&2
  echo "   fix: install the package 'redis-server' (Debian) or 'redis' (Fedora)" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# Of the package the program alone is of use: no server of the system's own is to start.
if [ ! -e /usr/sbin/policy-rc.d ]; then
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
apt-get install -y -q --no-install-recommends redis-server || {
  apt-get update -q
  apt-get install -y -q --no-install-recommends redis-server
}
