#!/usr/bin/env bash
# Builds the C++ folders and the overlay for XLA with Bazel and runs their tests. Arguments go to `bazel test`. Sets
# everything up: uses $BAZEL, bazelisk or a bazel of this machine, otherwise installs Debian's (package
# bazel-bootstrap; needs root or sudo without a password); fetches a compiled XLA. XLA_SHMEM_XLA=source builds XLA's
# sources instead (bazel/xla.bzl; takes hours, needs .bazelversion's Bazel and GitHub).
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$(cat .bazelversion)

# Prints the first Bazel that starts in this directory. bazelisk without a network does not start, nor does Debian's
# wrapper, which wants the release of .bazelversion; bazel-4 is the binary behind that wrapper.
find_bazel() {
  local candidate
  for candidate in ${BAZEL:-bazelisk bazel bazel-4}; do
    if command -v "$candidate" >/dev/null && "$candidate" --version >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

install_debian_bazel() {
  command -v apt-get >/dev/null || return 1
  local root=()
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || return 1
    root=(sudo -n)
  fi
  echo "bazel_test: no Bazel here; installing Debian's bazel-bootstrap"
  "${root[@]}" apt-get install -y -qq --no-install-recommends bazel-bootstrap >/dev/null 2>&1 ||
    { "${root[@]}" apt-get update -qq && "${root[@]}" apt-get install -y -qq --no-install-recommends bazel-bootstrap >/dev/null; }
}

if [ -n "${BAZEL:-}" ]; then
  bazel=$(find_bazel) || { echo "bazel_test: BAZEL=$BAZEL does not start" >&2; exit 1; }
else
  bazel=$(find_bazel) || { install_debian_bazel && bazel=$(find_bazel); } || {
    echo "bazel_test: no Bazel that starts, and none could be installed. Install bazelisk (it downloads Bazel $wanted) or, on" \
      "Debian, apt-get install bazel-bootstrap; or set BAZEL to a Bazel of 4.2 or newer" >&2
    exit 1
  }
fi

# Debian's Bazel is 4.2.3 without a version number.
release=$("$bazel" --version | sed -n 's/^bazel \([0-9][0-9]*\).*/\1/p')
options=(--jobs=2)
[ "${release:-4}" -lt 6 ] || options+=(--noenable_bzlmod)
[ "${release:-4}" -lt 8 ] || options+=(--enable_workspace)
if [ "${XLA_SHMEM_XLA:-prebuilt}" = source ]; then
  options+=(--config=source)
else
  # Bazel would fetch them too, but print nothing for minutes.
  scripts/find_xla.sh >/dev/null
  scripts/find_gtest.sh >/dev/null
fi
echo "bazel_test: $(command -v "$bazel"), release ${release:-4 (Debian)}; .bazelversion asks for $wanted"
"$bazel" test "${options[@]}" "$@" //...
