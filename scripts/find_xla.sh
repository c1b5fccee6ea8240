#!/usr/bin/env bash
# Prints a directory with a compiled XLA and its headers: include/, libtensorflow_cc.so.2 and
# libtensorflow_framework.so.2 of the TensorFlow CPU wheel. Uses $XLA_SHMEM_TENSORFLOW (a `tensorflow` package
# directory), otherwise an installed tensorflow of this release, otherwise fetches the wheel with pip into build/ (270
# MB to download, 1 GB on disk). Only tests of the overlay are compiled against it.
set -euo pipefail
cd "$(dirname "$0")/.."
release=2.21.0
sha256=2b847d217b02ee7731ed91431daf3250daa0196c3c94614d23be27232e6e5b6c
folder=build/tensorflow-cpu-$release
libraries=(libtensorflow_cc.so.2 libtensorflow_framework.so.2)

is_complete() { [ -f "$1/include/xla/hlo/ir/hlo_module.h" ] && [ -f "$1/${libraries[0]}" ] && [ -f "$1/${libraries[1]}" ]; }

if [ -n "${XLA_SHMEM_TENSORFLOW:-}" ]; then
  is_complete "$XLA_SHMEM_TENSORFLOW" || {
    echo "XLA_SHMEM_TENSORFLOW=$XLA_SHMEM_TENSORFLOW has no include/xla and ${libraries[*]}: it must be the directory of an" \
      "installed tensorflow package; unset it to have the wheel fetched" >&2
    exit 1
  }
  realpath "$XLA_SHMEM_TENSORFLOW"
  exit
fi
[ -f "$folder/.complete" ] && { realpath "$folder"; exit; }

installed=$(python3 - "$release" <<'PYTHON' || true
import importlib.metadata, sys
for name in ("tensorflow-cpu", "tensorflow"):
    try:
        package = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        continue
    if package.version == sys.argv[1]:
        print(package.locate_file("tensorflow"))
        break
PYTHON
)
[ -n "$installed" ] && is_complete "$installed" && { realpath "$installed"; exit; }

{
  echo "find_xla: fetching the TensorFlow CPU wheel $release for its XLA (270 MB, once)"
  rm -rf "$folder"
  mkdir -p "$folder/wheel"
  # The same wheel for every Python: only its C++ is used.
  echo "tensorflow-cpu==$release --hash=sha256:$sha256" >"$folder/wheel/requirements.txt"
  PIP_DISABLE_PIP_VERSION_CHECK=1 python3 -m pip download --quiet --no-deps --require-hashes --only-binary=:all: \
    --implementation cp --python-version 3.11 --abi cp311 --platform manylinux_2_27_x86_64 \
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
  echo "find_xla: could not fetch tensorflow-cpu $release (Linux x86-64 only); set XLA_SHMEM_TENSORFLOW to the directory of an" \
    "installed tensorflow $release" >&2
  exit 1
}
touch "$folder/.complete"
realpath "$folder"
