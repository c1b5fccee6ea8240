"""The options: their table, their values, and those in force in this process."""

from xla_shmem.options.frozen import OptionError, Options, configure, freeze, resolve

__all__ = ["OptionError", "Options", "configure", "freeze", "resolve"]
