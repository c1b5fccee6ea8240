#!/usr/bin/env bash
# Runs a command in a clone of this checkout on a bare machine: a Debian that has git, make, g++ and Python, and nothing
# else. The programs, caches and builds of this machine are out of sight. The network and the package registries of pip
# and apt are this machine's. Needs root, and debootstrap.
# Usage: scripts/on_bare_machine.sh RELEASE USER COMMAND
# RELEASE: of Debian; bookworm has Python 3.11 and g++ 12, trixie 3.13 and 14. USER: root or another name. COMMAND: for
# `bash -c`, in the clone of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$1 user=$2 command=$3
[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || {
  echo "on_bare_machine: it needs root and debootstrap (Debian: apt install debootstrap)" >&2
  exit 2
}
machine=build/bare-machine/$release
if ! [ -f "$machine.complete" ]; then
  rm -rf "$machine"
  mkdir -p "$machine"
  mirror=$(sed -nE 's#^(deb +|URIs: *)(\[[^]]*\] *)?(https?://[^ ]+).*#\3#p' /etc/apt/sources.list \
    /etc/apt/sources.list.d/* 2>/dev/null | head -n 1 || true)
  debootstrap --variant=minbase --include=git,make,g++,python3,python3-venv,python3-dev,ca-certificates \
    "$release" "$machine" $mirror >"$machine.log" || { tail "$machine.log" >&2; exit 1; }
  touch "$machine.complete"
fi

# A new user's machine: nothing at home, no lists of apt.
home=/root
[ "$user" = root ] || home=/home/$user
rm -rf "${machine:?}$home" "$machine"/var/lib/apt/lists/* "$machine"/tmp/*
[ "$user" = root ] || chroot "$machine" id "$user" >/dev/null 2>&1 || chroot "$machine" useradd "$user"
mkdir -p "$machine$home"
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
  [ ! -f "$file" ] || cp -L "$file" "$machine$file"
done
git clone --quiet --no-hardlinks . "$machine$home/xla-shmem"
chroot "$machine" chown -R "$user" "$home"

# The registries that pip and apt ask are set by these; nothing else of the environment is passed on.
mapfile -t passed < <(env | grep -E '^(PIP_(INDEX_URL|EXTRA_INDEX_URL|CERT|DEFAULT_TIMEOUT)|(https?|no)_proxy|(HTTPS?|NO)_PROXY)=' || true)
export machine user home command
exec unshare --mount --pid --fork --kill-child -- bash -euc '
  mount -t proc proc "$machine/proc"
  mount --rbind /dev "$machine/dev"
  mount --rbind /sys "$machine/sys"
  mount -t tmpfs -o mode=1777 tmpfs "$machine/dev/shm"
  exec chroot --userspec="$user" "$machine" env -i HOME="$home" USER="$user" LANG=C.UTF-8 \
    PATH=/usr/local/bin:/usr/bin:/bin "$@" bash -c "cd && cd xla-shmem && $command"' bash "${passed[@]}"
