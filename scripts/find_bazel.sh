#!/usr/bin/env bash
# Prints a Bazel of this machine, and then, one a line, the options that `build`, `test` and `query` need with it. Takes
# the first that starts of $BAZEL, bazelisk, bazel and bazel-4. With --install, installs Debian's package
# bazel-bootstrap if there is none; that needs root or sudo without a password.
set -euo pipefail
cd "$(dirname "$0")/.."

# bazelisk without a network does not start, nor does Debian's wrapper, which wants the release of .bazelversion; bazel-4
# is the binary behind that wrapper.
find_bazel() {
  local candidate
  for candidate in ${BAZEL:-bazelisk bazel bazel-4}; do
    if command -v "$candidate" >/dev/null && "$candidate" --version >/dev/null 2>&1; then
      command -v "$candidate"
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
  echo "find_bazel: no Bazel here; installing Debian's bazel-bootstrap" >&2
  "${root[@]}" apt-get install -y -qq --no-install-recommends bazel-bootstrap >/dev/null 2>&1 ||
    { "${root[@]}" apt-get update -qq && "${root[@]}" apt-get install -y -qq --no-install-recommends bazel-bootstrap >/dev/null; }
}

if [ -n "${BAZEL:-}" ]; then
  bazel=$(find_bazel) || { echo "find_bazel: BAZEL=$BAZEL does not start" >&2; exit 1; }
else
  bazel=$(find_bazel) || { [ "${1:-}" = --install ] && install_debian_bazel && bazel=$(find_bazel); } || {
    echo "find_bazel: no Bazel that starts. Install bazelisk (it downloads Bazel $(cat .bazelversion)) or, on Debian, apt-get" \
      "install bazel-bootstrap; or set BAZEL to a Bazel of 4.2 or newer" >&2
    exit 1
  }
fi
echo "$bazel"
# Debian's Bazel is 4.2.3 without a version number.
release=$("$bazel" --version | sed -n 's/^bazel \([0-9][0-9]*\).*/\1/p')
[ "${release:-4}" -lt 6 ] || echo --noenable_bzlmod
[ "${release:-4}" -lt 8 ] || echo --enable_workspace
