"""Packages that a command needs beyond xla-shmem's own."""

from __future__ import annotations

import importlib.util

from xla_shmem.train.config import ConfigError

#: What training needs.
TRAIN_PACKAGES = ("flax", "optax", "orbax.checkpoint", "grain", "matplotlib")


def check_packages(command: str, *modules: str) -> None:
    """Looks for modules without importing them.

    Raises:
      ConfigError: some are missing; the message says how to install them.
    """
    missing = [name for name in modules if importlib.util.find_spec(name.partition(".")[0]) is None]
    if missing:
        raise ConfigError(f"{command} needs {', '.join(missing)}: pip install 'xla-shmem[train]'.")
