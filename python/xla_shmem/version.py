"""The version of the installed package."""

from importlib.metadata import version as _version

__version__ = _version("xla-shmem")
