#!/usr/bin/env bash
# Prints a directory with a compiled XLA:GPU and its headers: include/, libtensorflow_cc.so.2 and
# libtensorflow_framework.so.2 of the nightly wheel of TensorFlow whose XLA is the one that jax $XLA_SHMEM_XLA pins: 0.10.2
# (the default) or 0.11.0, or the one nearest to it (0.12.0.1). Uses $XLA_SHMEM_TENSORFLOW (a `tensorflow` package
# directory), otherwise fetches the wheel with
# pip into build/ (620 MB to download, 1.8 GB on disk). Only tests of the overlay are compiled against it; nothing of it
# is shipped.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${XLA_SHMEM_XLA:-0.10.2} in
  0.10.2) release=2.22.0.dev20260615 sha256=cd90f591d16e77d1d67bd38f326288b59f61283ce965208e363f00dbccd4cd30 ;;
  0.11.0) release=2.22.0.dev20260716 sha256=a2e06b3e58259dce0a31400270794b3acdd1fc39c3b1eb122c7ae5ccbec9188c ;;
  0.12.0.1) release=2.23.0.dev20261018 sha256=5cda733af40bc4338cebe8bf44d80dad175c7d9133f9a1a3abba9d6f070381f9 ;;
  *) echo "XLA_SHMEM_XLA=$XLA_SHMEM_XLA: must be 0.10.2, 0.11.0 or 0.12.0.1" >&2; exit 1 ;;
esac
folder=build/tf-nightly-$release
libraries=(libtensorflow_cc.so.2 libtensorflow_framework.so.2)

# A CPU wheel has no thunks.
is_complete() {
  [ -f "$1/include/xla/backends/gpu/runtime/thunk.h" ] && [ -f "$1/${libraries[0]}" ] && [ -f "$1/${libraries[1]}" ]
}

if [ -n "${XLA_SHMEM_TENSORFLOW:-}" ]; then
  is_complete "$XLA_SHMEM_TENSORFLOW" || {
    echo "XLA_SHMEM_TENSORFLOW=$XLA_SHMEM_TENSORFLOW has no include/xla/backends/gpu and ${libraries[*]}: it must be the" \
      "directory of a tensorflow package with XLA:GPU; unset it to have tf-nightly $release fetched" >&2
    exit 1
  }
  realpath "$XLA_SHMEM_TENSORFLOW"
  exit
fi
[ -f "$folder/.complete" ] && { realpath "$folder"; exit; }

{
  echo "find_xla: fetching tf-nightly $release for its XLA:GPU (620 MB, once)"
  rm -rf "$folder"
  mkdir -p "$folder/wheel"
  # The same wheel for every Python: only its C++ is used.
  echo "tf-nightly==$release --hash=sha256:$sha256" >"$folder/wheel/requirements.txt"
  PIP_DISABLE_PIP_VERSION_CHECK=1 python3 -m pip download --quiet --no-deps --require-hashes --only-binary=:all: \
    --implementation cp --python-version 3.12 --abi cp312 --platform manylinux_2_27_x86_64 \
    --dest "$folder/wheel" --requirement "$folder/wheel/requirements.txt" &&
  python3 - "$folder" "${libraries[@]}" <<'PYTHON'
import pathlib, shutil, sys, zipfile

folder, libraries = pathlib.Path(sys.argv[1]), sys.argv[2:]
headers = ("absl", "google", "ml_dtypes", "tsl", "xla", "Eigen", "unsupported", "external/farmhash_archive", "external/highwayhash")
wanted = tuple(f"tensorflow/include/{name}/" for name in headers)
(wheel,) = (folder / "wheel").glob("*.whl")
names = {f"tensorflow/{library}" for library in libraries}
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(folder / "wheel", [n for n in archive.namelist() if n.startswith(wanted) or n in names])
for path in (folder / "wheel" / "tensorflow").iterdir():
    path.rename(folder / path.name)
shutil.rmtree(folder / "wheel")
PYTHON
} >&2 || {
  echo "find_xla: could not fetch tf-nightly $release (Linux x86-64 only). A registry keeps nightlies for some months. If" \
    "it has this one no longer, try another release (XLA_SHMEM_XLA=0.10.2, 0.11.0 or 0.12.0.1). Otherwise take the nightly of the" \
    "nearest day ('pip index versions --pre tf-nightly' lists them), unpack it with 'python -m zipfile -e', and set" \
    "XLA_SHMEM_TENSORFLOW to its folder tensorflow/" >&2
  exit 1
}
touch "$folder/.complete"
realpath "$folder"
