"""`inspect` and the thunks agree on MaxText's own training step too; `make test-clients` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from compared_ways import compared_ways
from compiler_runs import FLAG, WHEELS

from maxtext_table2 import TARGET, compile_row, keys
from published import Row

pytest.importorskip("maxtext", reason="MaxText is in the environment of make test-clients")
pytestmark = pytest.mark.timeout(900)

SMALL = ["override_model_config=true", "base_num_decoder_layers=2", "vocab_size=1024"]


@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize("flags", [[], [f"{FLAG}"]], ids=["stock", "flag"])
def test_inspect_names_the_ways_of_the_thunks(tmp_path: Path, flags: list[str], tensor: int) -> None:
    dumps = [f"--xla_dump_to={tmp_path}", "--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto"]
    row = Row(8192, context=8 // tensor, tensor=tensor)
    compile_row([*keys(row), *SMALL], 8, WHEELS, tmp_path / "step.pb", [*flags, *dumps])
    (ways,) = compared_ways(tmp_path).values()
    print(TARGET, flags, tensor, ways)
    assert sum(ways.values()) > 20
    assert ("NVSHMEM" in ways) == bool(flags)
