"""Errors of a command's input: one sentence on stderr and exit code 2."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from xla_shmem.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")


class _BadInput(click.ClickException):
    exit_code = 2


def one_sentence_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Decorator: prints errors of the input without a traceback."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except UserError as error:
            raise _BadInput(str(error)) from None
        except ImportError as error:
            if "_core" not in str(error):
                raise
            raise _BadInput(
                f"the compiled module of xla-shmem is missing ({error}); install the package again."
            ) from None

    return wrapper
