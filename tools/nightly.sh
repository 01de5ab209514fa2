#!/usr/bin/env bash
# The checks that need nightly Rust: Miri and ThreadSanitizer.
#
#   tools/nightly.sh install   installs the nightly that tools/nightly.txt names, where rustup can
#   tools/nightly.sh short     Miri over threads, memory and a small forward of the CPU path, and over text
#                              that readers and writers share (five minutes on two cores)
#   tools/nightly.sh           the same, longer ones, and ThreadSanitizer (twenty minutes)
#
# That nightly is a dated one, which these tests pass under: another day's could fail, or lack Miri, without
# a change of ours. Without it nothing fails, and the last line says what was NOT RUN.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
toolchain=${NIGHTLY:-$(<tools/nightly.txt)}
target=$(rustc -vV | sed -n 's/^host: //p')
# Fails where a filter, which names modules and tests, matches none any more, and tells how many tests ran.
filtered=(python3 tools/filtered_tests.py)
ran=()
not_run=()

installed() {
  rustup component list --installed --toolchain "$toolchain" 2>/dev/null || true
}

has() {
  local list one
  list=$(installed)
  for one in "$@"; do [[ $list == *"$one"* ]] || return 1; done
}

install() {
  has miri rust-src && return
  rustup toolchain install "$toolchain" --profile minimal --component miri,rust-src --no-self-update || true
}

miri_short() {
  echo "==> Miri: threads that run a forward together, and what they write"
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-cpu --lib -- threads:: buffer::
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-cpu --test cpu -- linear::a_packed
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-cpu --test cpu -- small::two_threads_give_the_bits_of_one_in_bfloat16
  # The trie has no unsafe code: what is left to find in it are orders of memory.
  echo "==> Miri: readers beside writers, with weak memory"
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-trie --test concurrency -- \
    readers_see_only_whole_text_while
}

miri_long() {
  echo "==> Miri: readers beside each other, of files"
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-trie --lib -- \
    readers_beside_each_other
  echo "==> Miri: forwards in float32"
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-cpu --test cpu -- small::two_threads_give_the_bits_of_one_in_float32
  echo "==> Miri: results of products"
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-cpu --test cpu -- linear::narrow_
}

thread_sanitizer() {
  echo "==> ThreadSanitizer: 8 readers beside 4 writers (builds the standard library first)"
  RUSTFLAGS=-Zsanitizer=thread "${filtered[@]}" cargo "+$toolchain" test --release --locked -Zbuild-std \
    --target "$target" --target-dir target/tsan -p spectrie-trie --test concurrency
}

if [[ $what == install ]]; then
  command -v rustup >/dev/null && install
  has miri rust-src || echo "==> $toolchain with miri and rust-src is not to be had here" >&2
  exit 0
fi

if has miri rust-src; then
  # Files are read. Sines get no random last bits, or the tables of two decoders would differ.
  export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-deterministic-floats"
  # Its standard library: one for each toolchain, and none that another project is building.
  export XDG_CACHE_HOME=$PWD/target/miri-cache/$toolchain
  miri_short
  if [[ $what == all ]]; then miri_long; fi
  ran+=(Miri)
else
  not_run+=(Miri)
fi

if [[ $what == all ]]; then
  if has rust-src && [[ $target == *-linux-gnu ]]; then
    thread_sanitizer
    ran+=(ThreadSanitizer)
  else
    not_run+=(ThreadSanitizer)
  fi
fi

if ((${#ran[@]})); then echo "==> ran under $toolchain: ${ran[*]}"; fi
if ((${#not_run[@]})); then
  echo "==> NOT RUN, for want of $toolchain with miri and rust-src (make nightly): ${not_run[*]}"
fi
