"""The version of the installed package, read when it is asked for: what reads it takes longer to import than click."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__: str

if not TYPE_CHECKING:

    def __getattr__(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("xla-shmem")
        except PackageNotFoundError:
            # Sources on PYTHONPATH, as in gpu_check's first section, which runs before anything is built.
            return "0+not.installed"
