"""The flags that the installed libraries of XLA know."""

from __future__ import annotations

import importlib.util
import mmap
from collections.abc import Iterable
from pathlib import Path

#: XLA's libraries are hundreds of megabytes; the small ones beside them have no flags.
_LARGE = 32 << 20


def known_flags(names: Iterable[str]) -> set[str]:
    """Returns the `names` of flags that every XLA in this environment knows. XLA ends the process at an unknown flag.

    Flags change with every release, so there is no table here. A flag's name is a string in the libraries that read it,
    those of jaxlib and of the CUDA plugin.

    Raises:
      FileNotFoundError: there is no library of XLA.
    """
    left = set(names)
    for library in _libraries() if left else ():
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            left = {name for name in left if content.find(b"\0" + name.encode() + b"\0") >= 0}
    return left


def _libraries() -> list[Path]:
    folders = []
    for package in ("jaxlib", "jax_plugins"):
        spec = importlib.util.find_spec(package)
        folders += [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    files = [file for folder in folders for file in folder.rglob("*.so") if file.stat().st_size >= _LARGE]
    if not files:
        raise FileNotFoundError("no library of XLA found beside jaxlib")
    return files
