#!/bin/sh
# inside.sh ROOT USER FOLDER COMMAND: runs a shell command in a root, in a namespace of mounts that its caller made:
# what is mounted here is gone when the command ends, and nothing of it is in the root.
set -eu
root=$1 user=$2 folder=$3 command=$4
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir "$root/run/lock"
for name in hosts hostname resolv.conf; do
  mount --bind "/etc/$name" "$root/etc/$name"
done
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
  cp /etc/ssl/certs/ca-certificates.crt "$root/run/ca.crt"
  export SSL_CERT_FILE=/run/ca.crt PIP_CERT=/run/ca.crt
fi
exec chroot --userspec="$user" "$root" /bin/sh -c 'cd "$1" && eval "$2"' sh "$folder" "$command"
