#!/usr/bin/env bash
# Installs Spectrie from the wheels in dist/ (made by `make wheel`) into a virtual environment, or over what it installed
# there before.
#
#   deploy/install.sh [--prefix /opt/spectrie] [--role all|cpu|router]
#
# `cpu` leaves torch out, which a worker on a CPU does without; `router` all that runs models. Versions come from
# requirements.lock.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=/opt/spectrie
role=all
while (($#)); do
  case $1 in
    --prefix) prefix=${2:?--prefix needs a folder}; shift 2 ;;
    --role) role=${2:?--role needs all, cpu or router}; shift 2 ;;
    *) echo "unknown option '$1'; known: --prefix DIR, --role all|cpu|router" >&2; exit 2 ;;
  esac
done
case $role in
  all) extra='[worker]' ;;
  cpu) extra='[cpu]' ;;
  router) extra='' ;;
  *) echo "--role is '$role', expected all, cpu or router" >&2; exit 2 ;;
esac

shopt -s nullglob
core=("$here"/dist/spectrie-[0-9]*.whl)
kernels=("$here"/dist/spectrie_kernels-[0-9]*.whl)
if ((${#core[@]} != 1 || ${#kernels[@]} != 1)); then
  echo "expected one spectrie and one spectrie_kernels wheel in $here/dist, found ${#core[@]} and ${#kernels[@]}: run 'make wheel' on an empty dist/" >&2
  exit 1
fi

python=${PYTHON:-python3}
uv=$(command -v uv || true)
if [ -z "$uv" ] && [ -x "$here/.tools/uv/bin/uv" ]; then uv=$here/.tools/uv/bin/uv; fi
if [ -z "$uv" ]; then
  tools=$(mktemp -d)
  trap 'rm -rf "$tools"' EXIT
  "$python" -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --require-hashes -r "$here/tools/uv.txt"
  uv=$tools/bin/uv
fi

if [ ! -x "$prefix/bin/python" ]; then "$uv" venv --quiet --python "$python" "$prefix"; fi
packages=("spectrie$extra @ file://${core[0]}")
if [ "$role" = all ]; then packages+=("spectrie-kernels @ file://${kernels[0]}"); fi
# Also over an earlier build of the same version.
"$uv" pip install --python "$prefix/bin/python" --reinstall-package spectrie --reinstall-package spectrie-kernels --constraint "$here/requirements.lock" "${packages[@]}"
echo "installed $("$prefix/bin/spectrie" --version) in $prefix ($role)"
