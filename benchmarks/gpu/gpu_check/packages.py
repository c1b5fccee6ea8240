"""Python packages that the check needs, and how to carry those that a machine without a network lacks."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_check import records


@dataclass(frozen=True)
class Package:
    """A package and what fails without it.

    Attributes:
      wheel: its name in a package index.
      module: the module to import.
      brings: modules and wheels of packages that few machines have and that this one imports.
    """

    wheel: str
    module: str
    brings: Mapping[str, str] | None = None


FOR_BUILD = (
    Package("scikit-build-core", "scikit_build_core"),
    Package("nanobind", "nanobind"),
    Package("jaxlib", "jaxlib"),
)
FOR_PACKAGE = (
    Package("jax", "jax"),
    Package("numpy", "numpy"),
    Package("click", "click"),
    Package("rich", "rich"),
    Package("nvidia-ml-py", "pynvml"),
    Package("ml_dtypes", "ml_dtypes"),
)
FOR_TRAINING = (
    Package("flax", "flax"),
    Package("optax", "optax"),
    Package("orbax-checkpoint", "orbax.checkpoint"),
    Package(
        "grain",
        "grain",
        {
            "array_record": "array-record",
            "portpicker": "portpicker",
            "cloudpickle": "cloudpickle",
            "importlib_resources": "importlib_resources",
        },
    ),
)


@dataclass(frozen=True)
class Trouble:
    """Why a package cannot be used.

    Attributes:
      error: what its import fails with.
      absent: wheels that would help.
    """

    error: str
    absent: tuple[str, ...]


_PROBE = """
import importlib, importlib.util, json, sys
absent = [name for name in sys.argv[1:] if importlib.util.find_spec(name.partition(".")[0]) is None]
error = ""
try:
    importlib.import_module(sys.argv[1])
except Exception as failure:
    error = f"{type(failure).__name__}: {failure}"
    absent += [failure.name] if isinstance(failure, ModuleNotFoundError) and failure.name not in absent else []
print("\\n" + json.dumps({"error": error, "absent": absent}))
"""


def troubles(python: Path, packages: Sequence[Package]) -> dict[str, Trouble]:
    """Imports packages with `python`; returns the wheels of those that it cannot import."""
    found = {}
    for package in packages:
        wheels = {package.module: package.wheel, **(package.brings or {})}
        done = subprocess.run(
            [python, "-c", _PROBE, *wheels], capture_output=True, text=True, timeout=120, cwd=tempfile.gettempdir()
        )
        try:
            answer = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            answer = {"error": f"its import ends Python with status {done.returncode}", "absent": []}
        if answer["error"]:
            absent = [wheels.get(module, module.partition(".")[0]) for module in answer["absent"]]
            found[package.wheel] = Trouble(answer["error"], tuple(absent))
    return found


def how_to_carry(wheels: Sequence[str]) -> str:
    """Returns how to bring wheels to this machine, which has no network."""
    version = ".".join(map(str, sys.version_info[:2]))
    # pip does not derive older manylinux tags from newer ones.
    tags = [f"manylinux_2_{glibc}_{platform.machine()}" for glibc in (28, 27, 24, 17)]
    tags.append(f"manylinux2014_{platform.machine()}")
    platforms = " ".join(f"--platform {tag}" for tag in tags)
    return (
        "on a machine with a network run: python3 -m pip download --no-deps --only-binary=:all:"
        f" --python-version {version} --implementation cp {platforms} -d wheels {' '.join(wheels)}"
        " ; then carry the folder wheels here and set WHEELS to it"
    )


def install_carried(python: Path, folder: Path) -> None:
    """Installs the wheels in a folder that this Python does not have yet, without a network and without dependencies.

    Those that do not fit are left out, with pip's reason.
    """
    for wheel in sorted(folder.glob("*.whl")):
        name = wheel.name.partition("-")[0]
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            done = pip(python, "--no-deps", str(wheel))
            if done.returncode:
                error = next(
                    (line for line in done.stdout.splitlines() if line.startswith("ERROR")), done.stdout[-300:]
                )
                records.left_out(wheel.name, error)


def pip(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `pip install` without a network; its output is in the log."""
    if subprocess.run([python, "-c", "import pip"], capture_output=True, timeout=60).returncode:
        subprocess.run([python, "-m", "ensurepip"], check=True, timeout=120)
    command = [str(python), "-m", "pip", "install", "--no-index", "--disable-pip-version-check", *arguments]
    print("+", *command, flush=True)
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, flush=True)
    return done
