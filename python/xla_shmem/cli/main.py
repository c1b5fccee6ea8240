"""The command ``xla-shmem``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType

import click

#: Command name → module and attribute; loaded when used, so that ``--help`` needs neither JAX nor the
#: compiled module.
_COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "launch": ("xla_shmem.cli.launch", "launch_command"),
        "inspect": ("xla_shmem.cli.inspect", "inspect_command"),
        "assign": ("xla_shmem.cli.assign", "assign_command"),
        "bench": ("xla_shmem.cli.bench", "bench_command"),
        "tune": ("xla_shmem.cli.tune", "tune_command"),
        "predict": ("xla_shmem.cli.predict", "predict_command"),
        "train": ("xla_shmem.cli.train", "train_command"),
        "compare": ("xla_shmem.cli.compare", "compare_command"),
        "demo": ("xla_shmem.cli.demo", "demo_command"),
        "doctor": ("xla_shmem.cli.doctor", "doctor_command"),
        "options": ("xla_shmem.cli.options", "options_command"),
    }
)


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="xla-shmem", prog_name="xla-shmem")
def main() -> None:
    """Put/signal collectives for stock JAX, chosen per collective by an XLA compiler pass.

    Programs need no command of this tool: install the package and set
    XLA_FLAGS=--xla_gpu_experimental_enable_nvshmem=true. The commands run local jobs, show what was
    decided, and what stands in the way.
    """
