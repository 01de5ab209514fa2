#!/bin/sh
# enter.sh ROOT MOUNTS USER ro|rw COMMAND...: becomes a command in a root of its own, in namespaces that its caller
# made. Each line of MOUNTS is `ro|rw`, source and place, with tabs between.
set -eu
root=$1 mounts=$2 user=$3 how=$4
shift 4
mount -t tmpfs -o mode=755 tmpfs "$root"
while IFS="$(printf '\t')" read -r access source place; do
  if [ -L "$source" ]; then
    ln -s "$(readlink "$source")" "$root$place"
    continue
  fi
  if [ -d "$source" ]; then mkdir -p "$root$place"; else
    mkdir -p "$(dirname "$root$place")"
    [ -e "$root$place" ] || touch "$root$place"
  fi
  mount --rbind "$source" "$root$place"
  [ "$access" = rw ] || mount -o remount,bind,ro "$root$place"
done <"$mounts"
mkdir -p "$root/tmp" && chmod 1777 "$root/tmp"
[ "$how" = rw ] || mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$user" --groups "$user" --no-new-privs \
  --inh-caps=-all --bounding-set=-all "$@"
