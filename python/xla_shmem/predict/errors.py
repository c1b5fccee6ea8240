"""What `xla-shmem predict` cannot use."""


class PredictError(ValueError):
    """An input that makes no prediction; the message names the thing, the value and the way out."""
