#!/usr/bin/env bash
# Builds jaxlib and the CUDA plugin wheels with the NVSHMEM backend in XLA itself (docs/patched-jaxlib.md).
# From a clean machine to wheels in one call; a second call continues where the first stopped.
set -euo pipefail

usage() {
  cat << TEXT
usage: scripts/build_jaxlib.sh [options]
  --jax TAG                    jax release to build (jax-v0.10.2; also jax-v0.11.0)
  --xla COMMIT                 patch for this XLA revision (default: the release's own pin; needs xla_patch/patches/COMMIT)
  --cuda 12|13                 CUDA release of the wheels (12)
  --compute-capabilities LIST  as jax's build.py takes them, e.g. sm_90,sm_100 (default: jax's own)
  --wheels LIST                (jaxlib,jax-cuda-plugin,jax-cuda-pjrt; only jax-cuda-pjrt holds XLA:GPU)
  --python VERSION             (the version of python3)
  --work DIR                   sources and Bazel's output (./build/jaxlib)
  --output DIR                 wheels (DIR of --work/wheels)
  --jobs N                     compilers at a time (all cores, at most one for 2 GiB of memory)
  --dry-run                    print every command, run none
  --force                      continue although something is missing
TEXT
}

source_root=$(cd "$(dirname "$0")/.." && pwd)
jax_url=${JAX_URL:-https://github.com/jax-ml/jax}
tag=jax-v0.10.2 xla='' cuda=12 capabilities='' wheels=jaxlib,jax-cuda-plugin,jax-cuda-pjrt
python='' work=build/jaxlib output='' jobs='' dry_run='' force=''
while (($#)); do
  case $1 in
    --dry-run) dry_run=1 ;;
    --force) force=1 ;;
    -h | --help) usage; exit 0 ;;
    --jax | --xla | --cuda | --compute-capabilities | --wheels | --python | --work | --output | --jobs)
      [[ $# -ge 2 ]] || { echo "$1 needs a value" >&2; exit 2; }
      case $1 in
        --jax) tag=$2 ;;
        --xla) xla=$2 ;;
        --cuda) cuda=$2 ;;
        --compute-capabilities) capabilities=$2 ;;
        --wheels) wheels=$2 ;;
        --python) python=$2 ;;
        --work) work=$2 ;;
        --output) output=$2 ;;
        --jobs) jobs=$2 ;;
      esac
      shift ;;
    *) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
fail() { echo "build_jaxlib: $*" >&2; exit 1; }
step() { echo "[$1/5] $2" >&2; }
run() {
  if [[ -n $dry_run ]]; then printf '+'; printf ' %q' "$@"; echo; else "$@"; fi
}

# The XLA revision that each release pins (third_party/xla/revision.bzl); checked against the checkout below.
case $tag in
  jax-v0.10.2) pin=5a9e73cbd92530cac2ac36f4736a774b2412afe2 ;;
  jax-v0.11.0) pin=131bf41acb4650e4391a640c3f1859c1c86ad74b ;;
  *) pin='' ;;
esac
chosen_xla=$xla xla=${xla:-$pin}
hooks=$source_root/xla_patch/patches/$xla/nvshmem.patch
if [[ -z $xla || ! -f $hooks ]]; then
  fail "no patch for ${xla:+XLA $xla, }$tag. There are: $(cd "$source_root/xla_patch/patches" && echo *)." \
    "docs/patched-jaxlib.md, \"Another XLA\", says how to make one."
fi
[[ $cuda == 12 || $cuda == 13 ]] || fail "--cuda is $cuda; jax has wheels for 12 and 13"
python=${python:-$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null || true)}
work=$(realpath -m "$work")
output=$(realpath -m "${output:-$work/wheels}")
# Bazelisk reads jax's .bazelversion; a plain Bazel must have that version.
bazel=$(command -v bazelisk || true)
bazel_version=7.7.0
if [[ -z $bazel ]] && bazel --version 2> /dev/null | grep -qF "bazel $bazel_version"; then bazel=$(command -v bazel); fi

# Estimates: this project has not built all of it yet (docs/patched-jaxlib.md).
need_disk_gib=60 need_memory_gib=16
memory_gib=$(awk '/MemTotal/ {print int($2 / 1048576)}' /proc/meminfo)
cores=$(nproc)
if [[ -z $jobs ]]; then
  jobs=$((memory_gib / 2 < cores ? memory_gib / 2 : cores))
  ((jobs > 0)) || jobs=1
fi

missing() {
  local path=$work
  while [[ ! -d $path ]]; do path=$(dirname "$path"); done
  local disk_gib
  disk_gib=$(df --output=avail -k "$path" | awk 'NR == 2 {print int($1 / 1048576)}')
  ((disk_gib >= need_disk_gib)) || echo "disk: $disk_gib GiB free at $path, about $need_disk_gib GiB are needed (--work DIR)"
  ((memory_gib >= need_memory_gib)) || echo "memory: $memory_gib GiB, about $need_memory_gib GiB are needed"
  [[ -n $python ]] || echo "python3: none runs here; jax's build.py needs one"
  command -v git > /dev/null || echo "git: install your distribution's package"
  [[ -n $bazel ]] || echo "bazelisk: github.com/bazelbuild/bazelisk, or npm install -g @bazel/bazelisk; it fetches Bazel $bazel_version"
}

step 1 "checks: $tag, XLA $xla, CUDA $cuda, Python ${python:-?}, $jobs jobs on $cores cores and $memory_gib GiB"
lacking=$(missing)
if [[ -n $lacking ]]; then
  echo "missing here:" >&2
  echo "$lacking" | sed 's/^/  /' >&2
  [[ -n $dry_run || -n $force ]] || fail "not started; --force starts it anyway"
fi
echo "expect hours (an estimate: 2 to 6 on 16 cores), 40 to 60 GiB of disk, and several GiB of downloads" >&2

step 2 "jax $tag into $work/jax"
if [[ ! -d $work/jax/.git ]]; then
  run mkdir -p "$work"
  run git clone --quiet --depth 1 --branch "$tag" "$jax_url" "$work/jax"
elif [[ $(git -C "$work/jax" describe --tags --exact-match 2> /dev/null) != "$tag" ]]; then
  fail "$work/jax is $(git -C "$work/jax" describe --tags --always), not $tag: use another --work"
fi

step 3 "XLA's patches, through jax's own list"
third_party=$work/jax/third_party/xla
# Reset each time: a call that was stopped may have applied half of it.
run git -C "$work/jax" checkout --quiet -- third_party/xla
run "$source_root/scripts/make_overlay_patch.sh" "$third_party/xla_shmem_overlay.patch"
run cp "$hooks" "$third_party/xla_shmem_nvshmem.patch"
for name in nvshmem overlay; do
  run sed -i "s|^\( *\)patch_file = \[\$|&\n\1    \"//third_party/xla:xla_shmem_$name.patch\",|" "$third_party/workspace.bzl"
done
if [[ -z $dry_run ]]; then
  listed=$(grep -c 'xla_shmem_.*\.patch' "$third_party/workspace.bzl" || true)
  [[ $listed == 2 ]] || fail "$third_party/workspace.bzl has no patch_file list as jax 0.10.2 and 0.11.0 have it"
  pinned=$(sed -n 's/^XLA_COMMIT = "\(.*\)"/\1/p' "$third_party/revision.bzl")
  if [[ $pinned != "$xla" ]]; then
    [[ -n $chosen_xla ]] || fail "$tag pins XLA $pinned, the patch is for $xla: choose the jax release that pins it"
    echo "$tag pins XLA $pinned; the patch is for $xla, so Bazel stops if its text does not fit" >&2
  fi
fi

step 4 "build: $wheels"
build=(python3 build/build.py build "--wheels=$wheels" "--cuda_major_version=$cuda" "--python_version=$python"
  "--output_path=$output" "--bazel_path=${bazel:-bazelisk}" "--bazel_options=--jobs=$jobs" --verbose
  # Release wheels with a local version, which pip list and our plugin read (PATCHED_LABEL in gpu/jax_plugin.py).
  --bazel_options=--repo_env=ML_WHEEL_TYPE=release --bazel_options=--repo_env=ML_WHEEL_VERSION_SUFFIX=+xlashmem)
[[ -z $capabilities ]] || build+=("--cuda_compute_capabilities=$capabilities")
started=$SECONDS
run cd "$work/jax"
run "${build[@]}"

step 5 "wheels"
[[ -z $dry_run ]] || exit 0
echo "built in $(((SECONDS - started) / 60)) minutes:" >&2
find "$output" -name '*.whl' -exec du -h {} +
echo "install them with: pip install --force-reinstall --no-deps $output/*.whl" >&2
