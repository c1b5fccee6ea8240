"""The plugin and a patched jaxlib (xla_patch/options/environment.h) take the same options from an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_shmem import _core
from xla_shmem.options import OptionError, resolve

CASES = Path(__file__).parents[2] / "options" / "environment_cases.txt"
LINES = [line for line in CASES.read_text().splitlines() if line and not line.startswith("#")]
OPS = [op["name"] for op in _core.collective_ops()]


def read(environ: dict[str, str]) -> str:
    try:
        options = resolve(environ, {})
    except OptionError as error:
        return f"error: {error}"
    puts = "nvshmem" if options.gpu_puts == "nvshmem" else "driver"
    deadline = min(options.deadline, 9e9)
    return f"{options.gpu_key()} deadline={deadline:g} puts={puts} library={options.nvshmem_library or ''}"


@pytest.mark.parametrize("line", LINES)
def test_the_plugin_reads_what_the_table_says(line: str) -> None:
    variables, _, expected = line.partition(" => ")
    environ = dict(one.split("=", 1) for one in variables.split(" ; ") if one)
    expected = expected.replace("{all ops}", ",".join(OPS)).replace("{all ops, spaced}", ", ".join(OPS))
    assert read(environ) == expected
