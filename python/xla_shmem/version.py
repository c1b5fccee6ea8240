"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

try:
    __version__ = _version("xla-shmem")
except _PackageNotFoundError:
    # Sources on PYTHONPATH, as in gpu_check's first section, which runs before anything is built.
    __version__ = "0+not.installed"
