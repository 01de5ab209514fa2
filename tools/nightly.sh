#!/usr/bin/env bash
# The checks of the draft memory and of the CPU products that need nightly Rust: Miri and ThreadSanitizer.
# Without nightly they are left out, and the last line says so.
set -euo pipefail
cd "$(dirname "$0")/.."
toolchain=${NIGHTLY:-nightly}
target=$(rustc -vV | sed -n 's/^host: //p')
installed=$(rustup component list --installed --toolchain "$toolchain" 2>/dev/null || true)
skipped=()
# Fails where a filter, which names modules and tests, matches none any more.
filtered=(python3 tools/filtered_tests.py)

if [[ $installed == *miri* && $installed == *rust-src* ]]; then
  export MIRIFLAGS=-Zmiri-disable-isolation
  echo "==> Miri: what publishes text and what reads files"
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-trie --lib -- \
    block:: heads:: views:: corpora::tests::fuzz readers_beside_each_other snapshot::tests \
    atomic_file:: chains:: recycled::table::tests::the
  echo "==> Miri: readers beside writers, with weak memory"
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-trie --test concurrency -- \
    readers_see_only_whole_text_while
  echo "==> Miri: threads that run a forward together, and what they write"
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-cpu --lib -- threads:: buffer::
  "${filtered[@]}" cargo "+$toolchain" miri test --locked -p spectrie-cpu --test linear -- narrow_ a_packed
else
  skipped+=(Miri)
fi

if [[ $installed == *rust-src* && $target == *-linux-gnu ]]; then
  echo "==> ThreadSanitizer: 8 readers beside 4 writers (builds the standard library first)"
  RUSTFLAGS=-Zsanitizer=thread "${filtered[@]}" cargo "+$toolchain" test --release --locked -Zbuild-std \
    --target "$target" --target-dir target/tsan -p spectrie-trie --test concurrency
else
  skipped+=(ThreadSanitizer)
fi

if ((${#skipped[@]})); then
  echo "==> SKIPPED, for want of nightly Rust on Linux: ${skipped[*]}. To get it:" >&2
  echo "    rustup toolchain install $toolchain --profile minimal --component miri,rust-src" >&2
fi
