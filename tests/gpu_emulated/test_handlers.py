"""JAX's own GPU client calls our handlers: where they cannot run, across NVSHMEM worlds, and with wrong arguments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from emulated_jobs import run_emulated
from emulator import NO_GRAPH_FLAGS, Emulator

pytestmark = pytest.mark.timeout(240)

Call = dict[str, Any]

_PERMUTE = {"target": "xla_shmem.collective_permute", "lists": {"pairs": [0, 1, 1, 0]}}
_SUM = {
    "target": "xla_shmem.all_reduce",
    "lists": {"groups": [0, 1], "group_offsets": [0, 2]},
    "texts": {"reduction": "sum"},
}
_STARTS = {
    "xla_shmem.collective_permute": "xla_shmem.permute_start",
    "xla_shmem.all_reduce": "xla_shmem.all_reduce_start",
}


def _reports(
    emulator: Emulator, results: Path, calls: Sequence[Call], ranks: int, devices: int = 1, **environ: str
) -> list[dict[str, Any]]:
    (results / "calls.json").write_text(json.dumps(calls))
    job = run_emulated(
        emulator,
        "worker_handlers.py",
        [str(results / "calls.json")],
        ranks=ranks,
        devices=devices,
        results=results,
        flags=NO_GRAPH_FLAGS,
        **environ,
    )
    assert job.exit_code == 0, job.output[-6000:]
    return [job.result(rank) for rank in range(ranks)]


#: Calls and words of their error; {rank} is the rank that runs it.
_WRONG: list[tuple[Call, str]] = [
    (_PERMUTE | {"without": ["op"]}, "a call has no op"),
    (_PERMUTE | {"lists": {}}, "a call has no pairs"),
    (_SUM | {"texts": {}}, "a call has no reduction"),
    (_PERMUTE | {"results": [4, 4]}, "1 operands and 2 results"),
    (_PERMUTE | {"results": [2]}, "operand and result 0 of a call do not match"),
    (_SUM | {"texts": {"reduction": "and"}}, 'jit_step/an-op: no reduction "and" for this element type'),
    (_SUM | {"texts": {"reduction": "xor"}}, 'jit_step/an-op: no reduction "xor" for this element type'),
    (_SUM | {"texts": {"reduction": "mean"}}, 'unknown reduction "mean"'),
    (_SUM | {"lists": {"groups": [2], "group_offsets": [0, 1]}}, "PE {rank} is in none of its replica groups"),
    (_PERMUTE | {"integers": {"topology": 7}}, "compiled for another arrangement of processes, hosts or devices"),
]


def test_wrong_calls_are_refused_with_their_reason(emulator: Emulator, tmp_path: Path) -> None:
    # The right call was decoded, and the wrong ones have its id.
    expected = [(_SUM, "")] + [(call, words) for call, words in _WRONG]
    expected += [(call | {"target": _STARTS[call["target"]]}, words) for call, words in _WRONG]
    expected.append((_PERMUTE | {"target": "xla_shmem.permute_done"}, "jit_step/an-op: its done ran without its start"))
    reports = _reports(emulator, tmp_path, [call for call, _ in expected], ranks=2)
    for rank, report in enumerate(reports):
        assert report["right"]
        assert report["errors"][0] == ""
        for (call, words), error in zip(expected, report["errors"], strict=True):
            assert words.format(rank=rank) in error, call


@pytest.mark.parametrize(
    ("puts", "permute", "processes"),
    [
        pytest.param("driver", "copies", 4, marks=pytest.mark.slow),
        pytest.param("nvshmem", "copies", 4, marks=pytest.mark.slow),
        ("auto", "auto", 4),
        ("auto", "auto", 1),
        pytest.param("auto", "copies", 2, marks=pytest.mark.slow),
    ],
)
def test_each_nvlink_domain_is_a_world(
    emulator: Emulator, tmp_path: Path, puts: str, permute: str, processes: int
) -> None:
    # GPUs 0 and 2 reach each other, and 1 and 3. The pass does not write these calls.
    across = [
        _PERMUTE | {"lists": {"pairs": [0, 1, 1, 0, 2, 3, 3, 2]}},
        _SUM | {"lists": {"groups": [0, 1, 2, 3], "group_offsets": [0, 4]}},
    ]
    reports = _reports(
        emulator,
        tmp_path,
        across,
        ranks=processes,
        devices=4 // processes,
        GPU_EMULATOR_LINK_DOMAINS="2",
        XLA_SHMEM_PROFILE="domain",
        XLA_SHMEM_GPU_PUTS=puts,
        XLA_SHMEM_GPU_PERMUTE=permute,
    )
    for rank, report in enumerate(reports):
        assert report["right"]
        # A call is decoded once on each GPU; at a third one the threads of a process's GPUs meet.
        calls = 3 if processes < 4 else 2
        assert (report["decoded"], report["decoded_again"]) == (calls * 4 // processes, 0)
        assert any("permute" in target for target in report["collectives"])
        assert any("all_reduce" in target for target in report["collectives"])
        permute, total = report["errors"]
        assert f"jit_step/an-op: PE {rank * 4 // processes ^ 1} is in another NVSHMEM world" in permute
        assert "is in another NVSHMEM world" in total


def test_without_the_runtime_calls_can_be_compiled_but_not_run(emulator: Emulator, tmp_path: Path) -> None:
    calls = [
        _PERMUTE | {"target": target} for target in (_PERMUTE["target"], *_STARTS.values(), "xla_shmem.permute_done")
    ]
    (report,) = _reports(
        emulator,
        tmp_path,
        calls,
        ranks=1,
        XLA_SHMEM_GPU_HEAP="nvshmem",
        XLA_SHMEM_NVSHMEM_LIBRARY="/nowhere/libnvshmem_host.so.3",
    )
    for error in report["errors"]:
        assert "jit_step/an-op cannot run here: the xla-shmem runtime is not running on this process's GPU" in error
