"""Options that take a list with commas, and may be given several times; a shell completes the last word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from xla_shmem.options.values import OP_ALIASES, OPS

Command = TypeVar("Command", bound=Callable[..., Any])


class ListOf(click.ParamType):  # type: ignore[type-arg]
    """A list with commas of words out of `choices`.

    Args:
      choices: the words.
      aliases: other spellings, and the word that each stands for.
    """

    name = "list"

    def __init__(self, choices: Sequence[str], aliases: Mapping[str, str] | None = None) -> None:
        self._choices = tuple(choices)
        self._aliases = dict(aliases or {})

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Returns the words; :class:`click.BadParameter` for one that is none of the choices."""
        words = [word.strip().lower() for word in value.split(",")] if isinstance(value, str) else list(value)
        words = [self._aliases.get(word, word) for word in words]
        for word in words:
            if word not in self._choices:
                self.fail(f"'{word}' is not one of {', '.join(self._choices)}.", param, ctx)
        return tuple(words)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Completes the word behind the last comma."""
        return completions((*self._choices, *self._aliases), incomplete)


def completions(words: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """Returns the lists that a list may become, by what its last word may become."""
    before, comma, begun = incomplete.rpartition(",")
    return [CompletionItem(f"{before}{comma}{word}") for word in words if word.startswith(begun)]


def list_option(
    *names: str, of: ListOf, metavar: str, default: Sequence[str] = (), words: str
) -> Callable[[Command], Command]:
    """An option with a list of words, repeatable; its value is one tuple without repeated words."""
    given: dict[str, Any] = {"default": [",".join(default)], "show_default": ",".join(default)} if default else {}
    return click.option(
        *names,
        type=of,
        multiple=True,
        callback=lambda ctx, param, lists: tuple(dict.fromkeys(word for words in lists for word in words)),
        metavar=metavar,
        help=words,
        **given,
    )


def op_option(words: str, *, everything: bool, default: Sequence[str] = ()) -> Callable[[Command], Command]:
    """`--op`: collectives as HLO spells them, by their full or short names.

    Args:
      words: beginning of the help.
      everything: whether `all` may stand for all of them.
      default: the collectives without the option.
    """
    choices = (*OPS, "all") if everything else OPS
    also = "; or all" if everything else ""
    short = ", ".join(OP_ALIASES)
    return list_option(
        "--op",
        "ops",
        of=ListOf(choices, OP_ALIASES),
        metavar="LIST",
        default=default,
        words=f"{words}, a list: {', '.join(OPS)}{also}. Short: {short}.",
    )
