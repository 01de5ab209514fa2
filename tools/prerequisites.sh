#!/usr/bin/env bash
# Checks what a build needs, in seconds, and names for each thing missing the package that brings it.
set -u
python=${PYTHON:-python3}
missing=0
complain() { echo "missing: $1" >&2; echo "   fix: $2" >&2; missing=1; }

# ---- the machine -----------------------------------------------------------------------------

case "$(uname -s) $(uname -m)" in
  Linux\ x86_64 | Linux\ aarch64 | Darwin\ arm64) ;;
  *) complain "a supported machine (found $(uname -sm))" "use Linux on x86_64 or aarch64, or macOS on Apple silicon; torch has wheels for these alone" ;;
esac
if [ "$(uname -s)" = Linux ] && ldd --version 2>&1 | grep -qi musl; then
  complain "glibc (this system uses musl)" "use a distribution with glibc 2.28 or newer, such as Debian; torch has no wheels for musl"
fi

# ---- compilers -------------------------------------------------------------------------------

command -v git >/dev/null || complain "git" "install the package 'git'"
scratch=$(mktemp -d) || { echo "missing: a writable folder for temporary files (TMPDIR is '${TMPDIR:-/tmp}')" >&2; exit 1; }
trap 'rm -rf "$scratch"' EXIT
# A compiler without the C library's headers is installed, and fails late.
compiles() { printf '%s\n' "$2" >"$scratch/program.$3" && "$1" -o "$scratch/program" "$scratch/program.$3" >/dev/null 2>&1; }
if ! command -v cc >/dev/null; then
  complain "a C compiler (cc)" "install the package 'build-essential' (Debian) or 'gcc' (Fedora)"
elif ! compiles cc '#include <stdio.h>
int main(void) { return puts("") < 0; }' c; then
  complain "the C library's headers (cc cannot build a program)" "install the package 'libc6-dev' (Debian) or 'glibc-devel' (Fedora)"
fi
if ! command -v c++ >/dev/null; then
  complain "a C++ compiler (c++)" "install the package 'build-essential' (Debian) or 'gcc-c++' (Fedora)"
elif ! compiles c++ '#include <string>
int main() { return static_cast<int>(std::string().size()); }' cc; then
  complain "the C++ library's headers (c++ cannot build a program)" "install the package 'g++' (Debian) or 'gcc-c++' (Fedora)"
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

# ---- Python ----------------------------------------------------------------------------------

if ! command -v "$python" >/dev/null; then
  complain "Python ($python)" "install Python 3.11 to 3.14, or name one: make PYTHON=/path/to/python3"
elif ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'; then
  complain "Python 3.11 to 3.14 ($python is $("$python" -V 2>&1)); torch has wheels for these alone" "install one of them and name it: make PYTHON=/path/to/python3"
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  complain "Python's venv module" "install the package 'python3-venv'"
elif ! "$python" -c 'import os, ssl, sys
folder = ssl.get_default_verify_paths().capath
sys.exit(not ssl.create_default_context().get_ca_certs() and not (folder and os.listdir(folder)))'; then
  complain "certificates to check downloads with" "install the package 'ca-certificates'"
fi

# ---- disk and memory -------------------------------------------------------------------------

# Usage: need MEBIBYTES FOLDER WHAT. The folder need not exist yet.
need() {
  local folder=$2 free
  while [ ! -e "$folder" ]; do folder=$(dirname "$folder"); done
  if [ ! -w "$folder" ]; then
    complain "a writable folder for $3 (cannot write to $folder)" "$4"
    return
  fi
  free=$(df -Pm "$folder" | awk 'NR == 2 {print $4}')
  if [ "${free:-0}" -lt "$1" ]; then
    complain "$(($1 / 1024)) GB of free disk for $3 (found ${free} MiB at $folder)" "free some space there, or $4"
  fi
}
if [ ! -d .venv ]; then need 8192 "$PWD" "the build" "move the checkout to a larger disk"; fi
if [ -z "${SPECTRIE_CACHE:-}${XDG_CACHE_HOME:-}${HOME:-}" ]; then
  complain "a folder for models (HOME is not set)" "set HOME, or SPECTRIE_CACHE=/path/to/folder"
else
  need 1024 "${SPECTRIE_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/spectrie}" "models" "set SPECTRIE_CACHE=/path/to/folder"
fi
if [ -n "${CARGO_HOME:-}${HOME:-}" ]; then need 1024 "${CARGO_HOME:-${HOME:-}/.cargo}" "Rust packages" "set CARGO_HOME=/path/to/folder"; fi
if [ -r /proc/meminfo ]; then
  memory_mib=$(awk '/^MemTotal:/ {print int($2 / 1024)}' /proc/meminfo)
  if ((memory_mib < 3584)); then
    complain "4 GB of memory (found ${memory_mib} MiB)" "build on a larger machine"
  fi
fi

if ((missing)); then
  echo "Spectrie needs git, make, a C/C++ compiler, Python 3.11 to 3.14 with venv, stable Rust >= 1.89, 8 GB of disk and 4 GB of memory." >&2
  exit 1
fi
echo "==> prerequisites found: $("$python" -V), $(cargo --version)"
