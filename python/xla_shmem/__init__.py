"""xla-shmem: NVSHMEM-style put/signal collectives for stock JAX, chosen per collective by an XLA compiler pass.

A program needs no import of this package: install it and set XLA_FLAGS=--xla_gpu_experimental_enable_nvshmem=true.
Importing it imports neither JAX nor the compiled module; what it exports is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xla_shmem.errors import TooLateError, UserError
    from xla_shmem.inspect.decision_settings import DecisionSettings
    from xla_shmem.notebook.decision_rows import Decision
    from xla_shmem.notebook.decisions import Decisions, Differences, Explanation, decisions
    from xla_shmem.notebook.switch import enable
    from xla_shmem.options import OptionError, Options, configure
    from xla_shmem.plugin import stock_collectives
    from xla_shmem.version import __version__

__all__ = [
    "Decision",
    "DecisionSettings",
    "Decisions",
    "Differences",
    "Explanation",
    "OptionError",
    "Options",
    "TooLateError",
    "UserError",
    "__version__",
    "configure",
    "decisions",
    "enable",
    "stock_collectives",
]

#: The module of each exported name.
_MODULES = {
    "Decision": "xla_shmem.notebook.decision_rows",
    "DecisionSettings": "xla_shmem.inspect.decision_settings",
    "Decisions": "xla_shmem.notebook.decisions",
    "Differences": "xla_shmem.notebook.decisions",
    "Explanation": "xla_shmem.notebook.decisions",
    "OptionError": "xla_shmem.options",
    "Options": "xla_shmem.options",
    "TooLateError": "xla_shmem.errors",
    "UserError": "xla_shmem.errors",
    "__version__": "xla_shmem.version",
    "configure": "xla_shmem.options",
    "decisions": "xla_shmem.notebook.decisions",
    "enable": "xla_shmem.notebook.switch",
    "stock_collectives": "xla_shmem.plugin",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
