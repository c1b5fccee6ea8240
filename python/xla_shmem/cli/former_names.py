"""Names of release 0.1 that release 0.2 still reads. Each prints its new name on stderr; all of them go in 0.3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

#: The option that took the place of a former one; where that depends on other options, a function of what was parsed.
NewName = str | Callable[[Mapping[str, Any]], str]


def say_new_name(former: str, now: str) -> None:
    """Prints the line that every former name prints."""
    click.echo(f"{former} is now {now}; this name goes in 0.3", err=True)


def former_option(*names: str, now: NewName) -> Callable[[Command], Command]:
    """Adds a hidden option with one value, which the option ``now`` of the same command takes over as if given."""
    return click.option(*names, f"former_{names[-1].strip('-')}", cls=_FormerOption, now=now)


def json_option(*, was_file: bool = False) -> Callable[[Command], Command]:
    """Adds the flag ``--json``, passed on as ``as_json``.

    Args:
      was_file: ``--json FILE`` of release 0.1 wrote what ``--output FILE`` writes now; it is read as that.
    """
    if was_file:
        return click.option("--json", "as_json", cls=_JsonFlag)
    return click.option("--json", "as_json", is_flag=True, help=_JSON_HELP)


_JSON_HELP = "Print JSON instead of text."


class _FormerOption(click.Option):
    def __init__(self, names: Sequence[str], now: NewName) -> None:
        # Eager, so that the value is handed over before the new option looks for it.
        super().__init__(names, hidden=True, expose_value=False, is_eager=True)
        self._now = now

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        assert self.name is not None
        if self.name in opts:
            now = self._now if isinstance(self._now, str) else self._now(opts)
            _hand_over(ctx, opts, self.name, "/".join(self.opts), now)
        return None, args


class _JsonFlag(click.Option):
    """A flag that still takes the file name which an option of the same name had."""

    def __init__(self, names: Sequence[str]) -> None:
        # click gives an option that is no flag its `flag_value` where the command line has no value for it.
        super().__init__(
            names, is_flag=False, flag_value=True, default=False, type=bool, metavar="", is_eager=True, help=_JSON_HELP
        )

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        assert self.name is not None
        if isinstance(opts.get(self.name), str):
            _hand_over(ctx, opts, self.name, "--json FILE", "--output")
        return super().handle_parse_result(ctx, opts, args)


def _hand_over(ctx: click.Context, opts: Mapping[str, Any], name: str, former: str, now: str) -> None:
    """Moves the parsed value of option ``name`` to the option that is spelled ``now``."""
    (new,) = (param for param in ctx.command.params if now in param.opts)
    assert new.name is not None
    assert isinstance(opts, dict)
    say_new_name(former, now)
    if new.name in opts:
        raise click.UsageError(f"{former} is the former name of {now}; give one of them.", ctx)
    opts[new.name] = opts.pop(name)
