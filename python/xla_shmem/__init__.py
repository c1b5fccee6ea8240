"""xla-shmem: NVSHMEM-style put/signal collectives for stock JAX, chosen per collective by an XLA compiler pass.

A program needs no import of this package: install it and set XLA_FLAGS=--xla_gpu_experimental_enable_nvshmem=true.
"""

from typing import TYPE_CHECKING

from xla_shmem.options import OptionError, Options, configure

__version__: str

__all__ = ["OptionError", "Options", "__version__", "configure"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from xla_shmem import version

        return version.__version__
