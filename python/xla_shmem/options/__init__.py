"""The options: their table, their values, and those in force in this process."""

from xla_shmem.options.frozen import Options, configure, export, freeze, resolve
from xla_shmem.options.values import OptionError

__all__ = ["OptionError", "Options", "configure", "export", "freeze", "resolve"]
