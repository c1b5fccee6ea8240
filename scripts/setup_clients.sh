#!/usr/bin/env bash
# Installs other projects' programs from PyPI, each set into an environment of its own, and prints the environment.
#   suites           .venv-clients: jaxDecomp, NetKet and what JAX's own tests need, on top of the packages of VENV_BIN
#   maxtext-highest  .venv-maxtext-highest: MaxText and this checkout, with the newest packages that both allow
#   maxtext-lowest   .venv-maxtext-lowest: the same with the oldest packages
# Usage: scripts/setup_clients.sh VENV_BIN suites|maxtext-highest|maxtext-lowest
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 which=$2
export PIP_DISABLE_PIP_VERSION_CHECK=1

site_packages() { "$1/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

suites() {
  local venv=.venv-clients
  local wanted="jaxdecomp==0.3.1 netket==3.22.0 h5py chex cloudpickle portpicker"
  if [ "$(cat "$venv/.clients-installed" 2>/dev/null)" != "$wanted" ]; then
    echo "setup_clients: fetching $wanted into $venv" >&2
    rm -rf "$venv"
    "$bin/python" -m venv "$venv"
    # So jax and xla-shmem need not be installed, and built, once more.
    site_packages "$bin" >"$(site_packages "$venv/bin")/packages-of-xla-shmem.pth"
    # shellcheck disable=SC2086  # a list of packages
    "$venv/bin/python" -m pip install --quiet $wanted >&2
    # The tests of jaxDecomp are in its source package only.
    "$venv/bin/python" -m pip download --quiet --no-deps --no-binary jaxdecomp --dest "$venv/sources" "${wanted%% *}" >&2
    tar --extract --gzip --directory "$venv/sources" --file "$venv"/sources/jaxdecomp-*.tar.gz
    echo "$wanted" >"$venv/.clients-installed"
  fi
  echo "$venv"
}

maxtext() {
  local resolution=$1 venv=.venv-maxtext-$1 python
  python=$(scripts/find_python.sh 3.12)
  [ -n "$python" ] || { echo "setup_clients: MaxText needs Python 3.12, which is not on this machine" >&2; exit 1; }
  # The extra `tpu` is the only one that does not bring torch.
  local wanted="maxtext[tpu]==0.2.5"
  if [ "$(cat "$venv/.clients-installed" 2>/dev/null)" != "$wanted" ]; then
    echo "setup_clients: fetching $wanted ($resolution versions) into $venv" >&2
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet uv >&2
    # No newer jax than this checkout allows.
    "$venv/bin/python" -c 'import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' >"$venv/constraints.txt"
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --constraint "$venv/constraints.txt" \
      --resolution "$resolution" "$wanted" >&2
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "pytest>=8" "pytest-timeout>=2.3" >&2
    echo "$wanted" >"$venv/.clients-installed"
  fi
  scripts/setup.sh "$python" "$venv" "" "" >&2
  echo "$venv"
}

case $which in
suites) suites ;;
maxtext-*) maxtext "${which#maxtext-}" ;;
*) echo "setup_clients: $which is not suites, maxtext-highest or maxtext-lowest" >&2 && exit 1 ;;
esac
