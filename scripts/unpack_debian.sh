#!/usr/bin/env bash
# Unpacks Debian packages into a folder, without root and without a change to the system: apt's lists lie there too.
# Usage: scripts/unpack_debian.sh FOLDER PACKAGE...   Fails, with a sentence, on a system without apt.
set -euo pipefail
folder=$1
shift
command -v apt-get >/dev/null || { echo "no apt-get here to fetch $* with" >&2; exit 1; }
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
cd "$folder"
apt=(apt-get -qq -o Dir::State::Lists="$PWD/apt/lists" -o Dir::Cache="$PWD/apt/cache" -o APT::Sandbox::User="$(id -un)")
"${apt[@]}" update
"${apt[@]}" download "$@"
for package in *.deb; do dpkg -x "$package" .; done
rm -r apt ./*.deb
