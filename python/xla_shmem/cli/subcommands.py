"""A command that is also a group: ``inspect PATH`` reports, ``inspect diff A B`` is a command of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem


class CommandWithSubcommands(click.Command):
    """A command with arguments of its own, whose first argument may instead name one of its subcommands."""

    def __init__(self, *args: Any, subcommands: Sequence[click.Command] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.subcommands = {str(command.name): command for command in subcommands}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Returns the context of the subcommand that the first argument names, or else of this command."""
        chosen = self.subcommands.get(args[0]) if args else None
        if chosen is None:
            return super().make_context(info_name, args, parent, **extra)
        return chosen.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuses a subcommand that is not the first argument, also if it is written as an option."""
        for word in args:
            name = word.removeprefix("--").partition("=")[0]
            if name in self.subcommands and not (word == name and Path(word).exists()):
                ctx.fail(f"{name} is a command of its own and comes first: {ctx.command_path} {name} …")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, and below them the subcommands."""
        super().format_options(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(70)) for name, one in self.subcommands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes the subcommands beside the options."""
        own = super().shell_complete(ctx, incomplete)
        return [*own, *(CompletionItem(name) for name in self.subcommands if name.startswith(incomplete))]
