"""The error of `xla-shmem predict`."""

from xla_shmem.errors import UserError


class PredictError(UserError, ValueError):
    """The input allows no prediction; the message names the thing, the value and the way out."""
