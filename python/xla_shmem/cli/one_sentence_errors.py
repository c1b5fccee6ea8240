"""Errors that a user can act on: one sentence on stderr. The exit code is 2 for wrong use, 1 for a job that failed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from xla_shmem.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")


class _Ending(click.ClickException):
    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]


def one_sentence_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Decorator: prints errors of the input without a traceback. The command group has it; ranks need it themselves."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except UserError as error:
            raise _Ending(str(error), error.exit_code) from None
        except OSError as error:
            if error.filename is None:
                raise
            raise _Ending(f"{error.filename}: {error.strerror}.", UserError.exit_code) from None
        except ImportError as error:
            if "_core" not in str(error):
                raise
            message = f"the compiled module of xla-shmem is missing ({error}); install the package again."
            raise _Ending(message, UserError.exit_code) from None

    return wrapper
