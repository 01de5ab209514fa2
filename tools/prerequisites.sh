#!/usr/bin/env bash
# Checks what a build needs and says, for each thing missing, which package brings it.
set -u
python=${PYTHON:-python3}
missing=0
complain() { echo "missing: $1" >&2; echo "   fix: $2" >&2; missing=1; }

command -v git >/dev/null || complain "git" "install the package 'git'"
command -v cc >/dev/null || complain "a C compiler (cc)" "install the package 'build-essential' (Debian) or 'gcc' (Fedora)"
command -v c++ >/dev/null || complain "a C++ compiler (c++)" "install the package 'build-essential' (Debian) or 'gcc-c++' (Fedora)"

if ! command -v "$python" >/dev/null; then
  complain "Python ($python)" "install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  complain "Python 3.11 or newer ($python is $("$python" -V 2>&1))" "install a newer one and name it: make PYTHON=/path/to/python3"
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  complain "Python's venv module" "install the package 'python3-venv'"
fi

if ! command -v cargo >/dev/null; then
  complain "Rust (cargo)" "install stable Rust with rustup (https://rustup.rs)"
else
  version=$(cargo --version 2>&1 | sed -nE 's/^cargo ([0-9]+)\.([0-9]+).*/\1 \2/p')
  read -r major minor <<<"${version:-0 0}"
  if ((major < 1 || (major == 1 && minor < 89))); then
    complain "Rust 1.89 or newer (found: $(cargo --version 2>&1 | head -n 1))" "rustup update stable"
  fi
fi

free_mib=$(df -Pm . | awk 'NR == 2 {print $4}')
if [ ! -d .venv ] && [ "${free_mib:-0}" -lt 8192 ]; then
  complain "8 GB of free disk here (found ${free_mib} MiB)" "free some space, or move the checkout to a larger disk"
fi

if ((missing)); then
  echo "Spectrie needs git, make, a C/C++ compiler, Python >= 3.11 with venv, stable Rust >= 1.89 and 8 GB of disk." >&2
  exit 1
fi
echo "==> prerequisites found: $("$python" -V), $(cargo --version), ${free_mib} MiB free"
