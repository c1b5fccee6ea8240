"""Builds the GPU emulator and gives programs the environment in which JAX finds emulated GPUs.

    python tests/gpu_emulator/emulator.py -n 2 -- python program.py

runs a program as two local ranks with one emulated GPU each (README.md), `-d 4` with four each, and `--test` the
emulator's own tests. Tests import `Emulator`.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

#: Turns the pass on.
FLAG = "--xla_gpu_experimental_enable_nvshmem=true"

#: XLA would otherwise emit tensor-core instructions, and time candidates, which means nothing here.
XLA_FLAGS = ("--xla_gpu_enable_triton_gemm=false", "--xla_gpu_autotune_level=0")

#: Puts every operation that can be captured into a CUDA graph, however short.
GRAPH_FLAGS = (
    "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,COLLECTIVES,CONDITIONAL,WHILE,DYNAMIC_SLICE_FUSION",
    "--xla_gpu_graph_min_graph_size=1",
)

#: Puts nothing into CUDA graphs.
NO_GRAPH_FLAGS = ("--xla_gpu_enable_command_buffer=",)

# Python, XLA and the emulator keep memory until the end. XLA's allocations are not ours to judge.
_SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=0:abort_on_error=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}

_XLA_SHMEM = "from xla_shmem.cli.main import main; main(prog_name='xla-shmem')"

# Packages of the CUDA plugin that the emulated process imports.
_PACKAGES = ("jax_plugins", "jax_cuda13_plugin")

# Variables of an outer job or of the caller's own GPUs, which must not reach the emulated one.
_DROPPED = ("CUDA_", "GPU_EMULATOR_", "JAX_", "NVSHMEM_", "OMPI_", "XLA_")


class BuildError(RuntimeError):
    """The emulator was not built; the message has the compiler's output."""


@dataclass(frozen=True)
class Emulator:
    """A built emulator.

    Attributes:
      libraries: folder with libcuda.so.1 and the libraries that XLA opens beside it.
      wheels: folder with the CUDA plugin of this Python's jax, to be put on PYTHONPATH.
      preloaded: shared libraries to load before all others; none without sanitizers.
    """

    libraries: Path
    wheels: Path
    preloaded: tuple[Path, ...] = ()

    @staticmethod
    def build(sanitizers: str = "") -> Emulator:
        """Builds what has changed since the last call.

        Args:
          sanitizers: "" or "address,undefined".

        Raises:
          BuildError: a step failed.
        """
        folder = _folder(sanitizers)
        with _alone(folder / "lock"):
            fetched = _fetch()
            _compile(folder, fetched, sanitizers)
            wheels = _view(fetched, folder / "wheels", folder)
        preloaded = _sanitizer_runtime() if "address" in sanitizers else ()
        return Emulator(folder / "lib", wheels, preloaded)

    def environment(
        self,
        devices: int,
        flags: Iterable[str] = (FLAG,),
        environ: Mapping[str, str] | None = None,
        **settings: str,
    ) -> dict[str, str]:
        """Returns the environment of a process on emulated GPUs.

        Args:
          devices: number of GPUs of the machine.
          flags: XLA_FLAGS besides those that the emulator needs. An earlier flag gives way to a later one.
          environ: the environment to start from, by default this process's. Settings of JAX, XLA, CUDA and NVSHMEM in
            it are dropped.
          settings: more variables. An empty value removes the variable.
        """
        inherited = os.environ if environ is None else environ
        result = {name: value for name, value in inherited.items() if not name.startswith(_DROPPED)}
        result |= self.variables(devices, flags, environ=result) | settings
        return {name: value for name, value in result.items() if value}

    def variables(
        self, devices: int, flags: Iterable[str] = (FLAG,), environ: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Returns only the variables that :meth:`environment` adds."""
        inherited = os.environ if environ is None else environ
        result = {
            "LD_LIBRARY_PATH": _joined(self.libraries, inherited.get("LD_LIBRARY_PATH")),
            "PYTHONPATH": _joined(HERE / "site", self.wheels, inherited.get("PYTHONPATH")),
            "JAX_PLATFORMS": "cuda,cpu",
            "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "XLA_FLAGS": " ".join((*XLA_FLAGS, *flags)),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "XLA_SHMEM_NVSHMEM_LIBRARY": str(self.libraries / "libnvshmem_host.so.3"),
            "GPU_EMULATOR_DEVICES": str(devices),
        }
        if self.preloaded:
            result |= {"LD_PRELOAD": _joined(*self.preloaded)} | _SANITIZER_OPTIONS
        return result

    def hosts(self, count: int) -> dict[str, str]:
        """Returns variables that divide the ranks of a job among hosts of one NVLink domain, in their order."""
        preloaded = (*self.preloaded, self.libraries / "libgpu_emulator_hosts.so")
        return {
            "GPU_EMULATOR_HOSTS": str(count),
            "GPU_EMULATOR_FABRIC": "1",
            "LD_PRELOAD": _joined(*preloaded),
        }


def run_own_tests(sanitizers: str) -> int:
    """Builds and runs the C++ tests of the emulator; returns ctest's exit code.

    Args:
      sanitizers: as of :meth:`Emulator.build`.

    Raises:
      BuildError: a step failed.
    """
    folder = _folder(sanitizers)
    doctest = _run([str(ROOT / "scripts/find_doctest.sh")]).strip()
    with _alone(folder / "lock"):
        _compile(folder, _fetch(), sanitizers, "-DGPU_EMULATOR_BUILD_TESTS=ON", f"-DDOCTEST_INCLUDE_DIR={doctest}")
    ctest = ["ctest", "--test-dir", str(folder), "--output-on-failure", "--parallel", "2", "--timeout", "300"]
    return subprocess.run(ctest, env=_tool_environment() | _SANITIZER_OPTIONS, check=False).returncode


def _joined(*folders: Path | str | None) -> str:
    return os.pathsep.join(str(folder) for folder in folders if folder)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Lets one process at a time build."""
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _release() -> str:
    return importlib.metadata.version("jax")


def _folder(sanitizers: str) -> Path:
    # Of each release, because stubs are made from the names that its plugin asks for.
    folder = ROOT / "build" / "-".join([f"gpu_emulator-{_release()}", *filter(None, sanitizers.split(","))])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _fetch() -> Path:
    """Returns the folder with the CUDA plugin of this Python's jax; fetches it if it is missing."""
    _run([str(ROOT / "scripts/setup_gpu_aot.sh"), str(Path(sys.executable).parent)])
    return ROOT / f".venv-gpu-{_release()}"


def _tool_environment() -> dict[str, str]:
    return {**os.environ, "PATH": _joined(Path(sys.executable).parent, os.environ["PATH"])}


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, env=_tool_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _compile(folder: Path, fetched: Path, sanitizers: str, *options: str) -> None:
    plugin = fetched / "jax_plugins/xla_cuda13/xla_cuda_plugin.so"
    include = fetched / "nvidia/cu13/include"
    _run(
        [
            *("cmake", "-S", str(HERE), "-B", str(folder), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"),
            *(f"-DCUDA_PLUGIN={plugin}", f"-DCUDA_INCLUDE_DIR={include}", f"-DCUDA_RUNTIME_INCLUDE_DIR={include}"),
            *(f"-DGPU_EMULATOR_SANITIZE={sanitizers.replace(',', ';')}", *options),
        ]
    )
    _run(["cmake", "--build", str(folder)])


def _sanitizer_runtime() -> tuple[Path, ...]:
    """Returns what must be loaded first: AddressSanitizer, and libstdc++, whose `__cxa_throw` it looks up at start."""
    compiler = shutil.which("c++") or "c++"
    names = ("libasan.so", "libstdc++.so.6")
    return tuple(Path(_run([compiler, f"-print-file-name={name}"]).strip()).resolve() for name in names)


def _view(fetched: Path, view: Path, built: Path) -> Path:
    """Returns a folder that has the fetched packages, but our ptxas, device math and NVRTC instead of NVIDIA's.

    XLA takes ptxas from beside its own library, so that library must lie in the view. Large files are links.
    """
    stamp, wanted = view / ".complete", (fetched / ".complete").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(view, ignore_errors=True)
        for package in _PACKAGES:
            for source in (fetched / package).rglob("*"):
                if source.is_file() and source.suffix != ".pyc":
                    _place(source, view / source.relative_to(fetched))
        for metadata in fetched.glob("jax_cuda13_*.dist-info"):
            shutil.copytree(metadata, view / metadata.name)
        stamp.write_text(wanted)
    toolkit = view / "nvidia/cu13"
    (toolkit / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "toolkit/ptxas", toolkit / "bin/ptxas")
    _link(toolkit / "nvvm/libdevice", built / "libdevice")
    _link(toolkit / "lib/libnvrtc.so.13", built / "lib/libnvrtc.so.13")
    # Found before a wheel of NVIDIA's compiler in site-packages.
    metadata = view / "nvidia_cuda_nvrtc-13.0+emulated.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-cuda-nvrtc\nVersion: 13.0+emulated\n")
    (metadata / "RECORD").write_text("nvidia/cu13/lib/libnvrtc.so.13,,\n")
    if foreign := [path for path in toolkit.rglob("*") if fetched.resolve() in path.resolve().parents]:
        raise BuildError(f"{foreign[0]} is NVIDIA's, and must not run on the emulator")
    return view


def _link(link: Path, target: Path) -> None:
    if not target.exists():
        raise BuildError(f"{target} was not built")  # NVIDIA's would be found instead
    if link.is_symlink() and link.readlink() == target:
        return  # other processes may be reading through it
    link.unlink(missing_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def _place(source: Path, target: Path) -> None:
    """A link to a library; a copy of anything else, because Python resolves links to its modules."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".so":
        target.symlink_to(source.resolve())
    else:
        shutil.copy(source, target)


def main(arguments: Sequence[str]) -> int:
    """Runs a program on emulated GPUs; returns its exit code."""
    parser = argparse.ArgumentParser(description="Runs a program as local ranks on emulated GPUs.")
    parser.add_argument("-n", "--num-ranks", type=int, default=1)
    parser.add_argument("-d", "--devices-per-process", type=int, default=1, help="emulated GPUs of each rank (1)")
    parser.add_argument(
        "-H", "--hosts", type=int, default=1, help="hosts of an NVLink domain that the ranks are on (1)"
    )
    parser.add_argument("--sanitizers", default="", help="build the emulator with them: address,undefined")
    parser.add_argument("--stock", action="store_true", help="leave the flag that turns xla-shmem on away")
    parser.add_argument("--graphs", action="store_true", help="put all that can be captured into CUDA graphs")
    parser.add_argument("--test", action="store_true", help="run the emulator's own tests instead of a program")
    parser.add_argument("command", nargs="*")
    chosen = parser.parse_args(arguments)
    if chosen.test:
        return run_own_tests(chosen.sanitizers)
    if not chosen.command:
        parser.error("which program? python tests/gpu_emulator/emulator.py -n 2 -- python program.py")
    flags = [*([] if chosen.stock else [FLAG]), *(GRAPH_FLAGS if chosen.graphs else ())]
    kept = {name: value for name, value in os.environ.items() if name.startswith(("GPU_EMULATOR_", "XLA_SHMEM_"))}
    if given := os.environ.get("XLA_FLAGS"):
        flags.append(given)
    devices = chosen.num_ranks * chosen.devices_per_process
    emulator = Emulator.build(chosen.sanitizers)
    hosts = emulator.hosts(chosen.hosts) if chosen.hosts > 1 else {}
    environ = emulator.environment(devices, flags) | hosts | kept
    shape = ["-n", str(chosen.num_ranks), "--devices-per-process", str(chosen.devices_per_process)]
    launch = [sys.executable, "-c", _XLA_SHMEM, "launch", *shape, "--", *chosen.command]
    return subprocess.run(launch, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
