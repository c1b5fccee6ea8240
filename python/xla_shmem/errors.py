"""The base of the errors that a user can act on."""


class UserError(Exception):
    """Bad input, or a state of the machine that the user can change.

    The message names the thing, the value and the way out. Commands print it without a traceback.

    Attributes:
      exit_code: of a command that it ends: 2 for wrong use.
    """

    exit_code = 2


class JobError(UserError):
    """A job that a command started has failed, or a check of what it computed; the message says how."""

    exit_code = 1


class TooLateError(UserError, RuntimeError):
    """JAX has begun in this process, so a call would have no effect. The message says what to do instead."""


class BenchError(UserError, ValueError):
    """A measurement cannot run with these settings. The message says why and what to change."""


class PredictError(UserError, ValueError):
    """The input allows no prediction; the message names the thing, the value and the way out."""
