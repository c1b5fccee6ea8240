"""The table of options that the plugin and a patched jaxlib must read alike (xla_patch/options/environment.h)."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_shmem.options import OptionError, resolve

CASES = Path(__file__).parents[2] / "options" / "environment_cases.txt"
LINES = [line for line in CASES.read_text().splitlines() if line and not line.startswith("#")]


def read(environ: dict[str, str]) -> str:
    try:
        options = resolve(environ, {})
    except OptionError as error:
        return f"error: {error}"
    puts = "nvshmem" if options.gpu_puts == "nvshmem" else "driver"
    return (
        f"{options.decision_key()} heap_size={options.heap_size}"
        f" gpu_permute={options.gpu_permute} gpu_reduce={options.gpu_reduce}"
        f" deadline={options.deadline:g} puts={puts} library={options.nvshmem_library or ''}"
    )


@pytest.mark.parametrize("line", LINES)
def test_the_plugin_reads_what_the_table_says(line: str) -> None:
    variables, _, expected = line.partition(" => ")
    environ = dict(one.split("=", 1) for one in variables.split(" ; ") if one)
    assert read(environ) == expected
