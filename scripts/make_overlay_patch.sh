#!/usr/bin/env bash
# Writes a patch that adds our files to an XLA tree: the overlay (xla_patch/overlay) and the shared core that it
# needs. It changes no file of upstream's, so it fits every revision; the hooks are in xla_patch/patches/<revision>/.
#
#   scripts/make_overlay_patch.sh OUTPUT
set -euo pipefail

[[ $# == 1 ]] || { echo "usage: $0 OUTPUT" >&2; exit 2; }
source_root=$(cd "$(dirname "$0")/.." && pwd)/xla_patch
output=$(realpath -m "$1")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# install FROM TO: FROM is relative to xla_patch/, TO to XLA's root.
install_file() {
  mkdir -p "$stage/b/$(dirname "$2")"
  cp "$source_root/$1" "$stage/b/$2"
}

# Tests and their headers (test_*.h) stay out: they need more targets than the pass, and run in our own build.
(cd "$source_root/overlay/xla" && find . \( -name '*.h' -o -name '*.cc' \) ! -name '*_test.cc' ! -name 'test_*.h' |
  sed 's#^\./##') | sort |
  while read -r file; do install_file "overlay/xla/$file" "xla/$file"; done
(cd "$source_root/overlay/xla" && find . -mindepth 2 -name BUILD.overlay | sed 's#^\./##') | sort |
  while read -r file; do install_file "overlay/xla/$file" "xla/${file%.overlay}"; done
install_file overlay/core.BUILD.overlay xla_patch/BUILD
# The CPU path, its reductions and its calls stay out too, and calls that only our own pass writes. The device code needs
# thunks/narrow_floats.h.
(cd "$source_root" && find assigner bindings/ffi hlo/proto hlo/rewrite/call_arguments.* nvshmem options \
  runtime/gpu_recording.* runtime/job_rounds.* runtime/observe shm/process_identity.* thunks types \
  \( -path thunks/cpu -o -path bindings/ffi/cpu -o -path bindings/ffi/gpu/collective_parts.cc -o \
     -path bindings/ffi/gpu/program_meeting.cc -o -path types/part_target.h -o \
     -path 'thunks/reduction.*' -o -path 'types/invariant.*' -o -path 'hlo/proto/module_header.*' \) -prune -o \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cc.in' -o -name '*.cu' -o -name '*.cuh' \) -print) | sort |
  while read -r file; do install_file "$file" "xla_patch/$file"; done

# Index lines name upstream's git objects, which are not here. git diff exits with 1 if the trees differ.
mkdir "$stage/a"
(cd "$stage" && git diff --no-index --no-prefix --no-color a b || [[ $? == 1 ]]) | grep -v '^index ' > "$output"
[[ -s $output ]] || { echo "$0: found nothing to add below $source_root" >&2; exit 1; }
