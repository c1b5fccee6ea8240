"""Builds the checkout and installs it into an environment of its own, without a network.

    python -m gpu_check.build ROOT WORK

The environment can import every package of the Python that runs this, even if that is a virtual environment itself.
Missing packages can come from a folder of wheels, named by the variable `WHEELS`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import site
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

from gpu_check import records

#: Modules and their wheels: needed by the build, by the package, and by single sections.
_FOR_BUILD = {"scikit_build_core": "scikit-build-core", "nanobind": "nanobind", "jaxlib": "jaxlib"}
_FOR_PACKAGE = {"jax": "jax", "numpy": "numpy", "click": "click", "rich": "rich", "pynvml": "nvidia-ml-py"}
_FOR_SECTIONS = {"flax": "flax", "optax": "optax", "grain": "grain", "ml_dtypes": "ml_dtypes"}


def missing(modules: dict[str, str]) -> list[str]:
    """Returns the wheels whose modules this Python does not find."""
    return [wheel for module, wheel in modules.items() if importlib.util.find_spec(module) is None]


def obstacles() -> Iterator[str]:
    """Returns the obstacles to a build on this machine, each with the way out."""
    if shutil.which("c++") is None and not os.environ.get("CXX"):
        yield "no C++ compiler: install g++, or set CXX"
    if shutil.which("cmake") is None and importlib.util.find_spec("cmake") is None:
        yield "no CMake: install it, or put the wheel cmake into the folder WHEELS"
    if not any(map(shutil.which, ("ninja", "make"))) and importlib.util.find_spec("ninja") is None:
        yield "neither ninja nor make: install one, or put the wheel ninja into the folder WHEELS"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        yield f"{header} is missing: install the development package of this Python"


def make_environment(folder: Path) -> Path:
    """Makes the virtual environment; returns its Python.

    It has no pip, because Debian's Python may not be able to install one. A .pth file gives it the packages of this
    Python: if that is a virtual environment, `--system-site-packages` would mean its base Python.
    """
    venv.EnvBuilder(symlinks=True, clear=True).create(folder)
    python = folder / "bin" / "python"
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.strip()
    seen = [path for path in [*site.getsitepackages(), site.getusersitepackages()] if Path(path).is_dir()]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in seen]
    (Path(own) / "gpu_check_base.pth").write_text("".join(lines))
    return python


def pip(python: Path, *arguments: str) -> None:
    """Runs pip without a network.

    Raises:
      subprocess.CalledProcessError: pip fails; its output is in the log.
    """
    if subprocess.run([python, "-c", "import pip"], capture_output=True, timeout=60).returncode:
        subprocess.run([python, "-m", "ensurepip"], check=True, timeout=120)
    command = [str(python), "-m", "pip", "install", "--no-index", "--disable-pip-version-check", *arguments]
    print("+", *command, flush=True)
    subprocess.run(command, check=True)


def main() -> int:
    """Returns 0 if the package is installed and loads, else 1."""
    root, work = map(Path, sys.argv[1:3])
    python = make_environment(work / "venv")
    wanted = missing({**_FOR_BUILD, **_FOR_PACKAGE, **_FOR_SECTIONS})
    if wheels := os.environ.get("WHEELS"):
        for wheel in [*wanted, *missing({"cmake": "cmake", "ninja": "ninja"})]:
            try:
                pip(python, "--find-links", wheels, wheel)
                wanted = [name for name in wanted if name != wheel]
            except subprocess.CalledProcessError:
                records.left_out(wheel, f"WHEELS={wheels} does not have it")
    for name in wanted:
        records.left_out(name, "missing: put its wheel into a folder and set WHEELS to that folder")
    problems = [] if wheels else list(obstacles())
    for problem in problems:
        records.check("the machine can build", False, problem)
    if problems or set(wanted) & {*_FOR_BUILD.values()}:
        return 1
    # No dependencies: JAX and NumPy are used as they are installed.
    pip(
        python,
        "--no-deps",
        "--no-build-isolation",
        "--force-reinstall",
        f"-Cbuild-dir={work / 'cmake'}",
        str(root),
    )
    probe = "import xla_shmem, xla_shmem._core as c; print(c.__file__)"
    loaded = subprocess.run([python, "-c", probe], capture_output=True, text=True, cwd=work, timeout=120)
    records.check("the compiled module loads", loaded.returncode == 0, (loaded.stdout or loaded.stderr).strip()[-300:])
    own = Path(loaded.stdout.strip()).is_relative_to(work / "venv")
    records.check("it is the module that was built", own, "" if own else "another installation comes first")
    return 0


if __name__ == "__main__":
    sys.exit(main())
