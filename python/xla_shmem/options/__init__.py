"""The options: their table, their values, and those in force in this process."""

from xla_shmem.options.frozen import Options, configure, freeze, resolve
from xla_shmem.options.values import OptionError

__all__ = ["OptionError", "Options", "configure", "freeze", "resolve"]
