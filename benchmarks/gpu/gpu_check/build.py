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

from gpu_check import packages, records


def obstacles() -> Iterator[str]:
    """Returns the obstacles to a build on this machine, each with the way out."""
    if shutil.which("c++") is None and not os.environ.get("CXX"):
        yield "no C++ compiler: install g++, or set CXX"
    if shutil.which("cmake") is None and importlib.util.find_spec("cmake") is None:
        yield f"no CMake: install it; or {packages.how_to_carry(['cmake'])}"
    if not any(map(shutil.which, ("ninja", "make"))) and importlib.util.find_spec("ninja") is None:
        yield f"neither ninja nor make: install one; or {packages.how_to_carry(['ninja'])}"
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
    seen = [path for path in [*site.getsitepackages(), site.getusersitepackages()] if Path(path).is_dir()]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in seen]
    (_own_packages(python) / "gpu_check_base.pth").write_text("".join(lines))
    return python


def _own_packages(python: Path) -> Path:
    """The folder of packages of a virtual environment."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return Path(done.stdout.strip())


def add_packages(python: Path) -> bool:
    """Installs what `WHEELS` has, and records what is missing all the same; returns whether a build is possible."""
    if folder := os.environ.get("WHEELS"):
        packages.install_carried(python, Path(folder))
    needed = (*packages.FOR_BUILD, *packages.FOR_PACKAGE)
    troubles = packages.troubles(python, (*needed, *packages.FOR_TRAINING))
    for wheel, trouble in troubles.items():
        records.left_out(wheel, trouble.error)
    if absent := dict.fromkeys(wheel for trouble in troubles.values() for wheel in trouble.absent):
        records.left_out("wheels to carry", packages.how_to_carry(list(absent)))
    blocking = [package.wheel for package in needed if package.wheel in troubles]
    if blocking:
        records.check("the packages that the build needs are here", False, ", ".join(blocking))
    return not blocking


def install(python: Path, root: Path, work: Path) -> bool:
    """Builds and installs the checkout; returns whether that worked. The log has the output."""
    # No dependencies: JAX and NumPy are used as they are installed.
    done = packages.pip(
        python,
        "--no-deps",
        "--no-build-isolation",
        "--force-reinstall",
        f"-Cbuild-dir={work / 'cmake'}",
        str(root),
    )
    problem = next((line.strip() for line in done.stdout.splitlines() if "error" in line.lower()), "see the output")
    records.check("the checkout builds and installs", done.returncode == 0, problem if done.returncode else "")
    # Pure Python, and a machine without a network may lack the backend that would build it.
    (_own_packages(python) / "long_context").symlink_to(root / "python" / "long_context")
    return done.returncode == 0


def main() -> int:
    """Returns 0 if the package is installed and loads, else 1."""
    root, work = map(Path, sys.argv[1:3])
    python = make_environment(work / "venv")
    possible = add_packages(python)
    # WHEELS may have brought CMake or ninja into the environment, where scikit-build-core finds them.
    problems = list(obstacles()) if not os.environ.get("WHEELS") else []
    for problem in problems:
        records.check("the machine can build", False, problem)
    if problems or not possible or not install(python, root, work):
        return 1
    probe = "import xla_shmem, xla_shmem._core as c; print(c.__file__)"
    loaded = subprocess.run([python, "-c", probe], capture_output=True, text=True, cwd=work, timeout=120)
    records.check("the compiled module loads", loaded.returncode == 0, (loaded.stdout or loaded.stderr).strip()[-300:])
    own = Path(loaded.stdout.strip()).is_relative_to(work / "venv")
    records.check("it is the module that was built", own, "" if own else "another installation comes first")
    return 0


if __name__ == "__main__":
    sys.exit(main())
