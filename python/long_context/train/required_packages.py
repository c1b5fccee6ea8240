"""Checks for the optional packages of the commands that train."""

from __future__ import annotations

import importlib.util

from long_context.train.config import ConfigError

#: Packages that training needs.
TRAIN_PACKAGES = ("flax", "optax", "orbax.checkpoint", "grain", "matplotlib")


def check_packages(what: str, *modules: str, group: str = "train") -> None:
    """Checks that modules are installed, without importing them.

    Args:
      what: the command or key that needs them.
      modules: their names.
      group: the optional dependencies of this package that contain them.

    Raises:
      ConfigError: modules are missing; the message says how to install them.
    """
    missing = [name for name in modules if importlib.util.find_spec(name.partition(".")[0]) is None]
    if missing:
        raise ConfigError(f"{what} needs {', '.join(missing)}: pip install 'long-context[{group}]'.")
