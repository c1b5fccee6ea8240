"""xla-shmem: NVSHMEM-style put/signal collectives for stock JAX, chosen per collective by an XLA compiler pass.

A program needs no import of this package: install it and set XLA_FLAGS=--xla_gpu_experimental_enable_nvshmem=true.
"""

from xla_shmem.options import OptionError, Options, configure
from xla_shmem.version import __version__

__all__ = ["OptionError", "Options", "__version__", "configure"]
