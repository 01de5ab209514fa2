#!/usr/bin/env bash
# Builds and runs Spectrie as its README tells a newcomer to, on a Debian that holds nothing else.
#
#   tools/bare_debian.sh [FOLDER]
#
# A minimal Debian 12 is made in FOLDER (default: a new one, removed afterwards) with the packages that the
# README asks for and this machine's Rust toolchain. The committed state of this checkout is cloned into it;
# there `make demo` and `make test-quick` must succeed. Needs root and debootstrap. Downloads of pip, uv and
# cargo are kept in BARE_CACHE (default: none), so that a second run need not fetch them again.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
suite=bookworm
packages=git,make,gcc,g++,python3,python3-venv,ca-certificates

fail() { echo "bare_debian.sh: $1" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root: debootstrap and chroot do. Run it as root."
command -v debootstrap >/dev/null || fail "needs debootstrap. Install the package 'debootstrap'."
command -v rustc >/dev/null || fail "needs Rust, which it copies into the new system. Install it with rustup."
if [ -n "$(git -C "$here" status --porcelain)" ]; then
  echo "==> note: uncommitted changes are left out; the last commit is tested" >&2
fi

kept=${1:-}
root=${kept:-$(mktemp -d /var/tmp/spectrie-bare.XXXXXX)}
leave() {
  # Lazily where something that was killed still lets go.
  for point in cache dev/shm dev proc; do
    if mountpoint -q "$root/$point"; then umount "$root/$point" || umount -l "$root/$point"; fi
  done
  # Never through a mount that is still there.
  if [ -z "$kept" ] && ! grep -q " $root/" /proc/mounts; then rm -rf --one-file-system "$root"; fi
}
trap leave EXIT

echo "==> Debian $suite in $root"
debootstrap --variant=minbase --include="$packages" "$suite" "$root" >"$root.log" 2>&1 || {
  tail -5 "$root.log" >&2
  fail "debootstrap failed; its log is $root.log"
}
rm -f "$root.log"
mkdir -p "$root/opt/rust" "$root/cache"
cp -a "$(rustc --print sysroot)/." "$root/opt/rust/"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/hosts "$root/etc/hosts"
if [ -d /usr/local/share/ca-certificates ]; then
  cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
  chroot "$root" update-ca-certificates >/dev/null 2>&1
fi
git clone --quiet --no-hardlinks "$here" "$root/spectrie"

mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
if [ -d /dev/shm ]; then mount --bind /dev/shm "$root/dev/shm"; fi
if [ -n "${BARE_CACHE:-}" ]; then
  mkdir -p "$BARE_CACHE"
  mount --bind "$BARE_CACHE" "$root/cache"
fi

# Only what reaches the network is handed on: proxies and package indexes that this machine is set up with.
settings=()
while IFS= read -r line; do settings+=("$line"); done < <(
  env | grep -iE '^(https?_proxy|no_proxy|all_proxy|pip_index_url|pip_extra_index_url|uv_index[a-z_]*|uv_default_index)=' || true
)
inside() {
  echo "==> $*"
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    CARGO_HOME=/cache/cargo PIP_CACHE_DIR=/cache/pip UV_CACHE_DIR=/cache/uv UV_LINK_MODE=copy "${settings[@]}" \
    /bin/sh -c 'cd /spectrie && "$@"' sh "$@"
}
start=$SECONDS
inside make demo
echo "==> make demo took $((SECONDS - start)) s"
inside make test-quick
echo "==> bare Debian: make demo and make test-quick succeeded in $((SECONDS - start)) s"
