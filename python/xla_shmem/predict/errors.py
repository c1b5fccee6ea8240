"""The error of `xla-shmem predict`."""


class PredictError(ValueError):
    """The input allows no prediction; the message names the thing, the value and the way out."""
