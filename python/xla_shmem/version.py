"""The version of this package, as it is installed."""

from importlib.metadata import version as _version

__version__ = _version("xla-shmem")
