"""Statistics, traces and flight records of GPU collectives."""

from __future__ import annotations

import json
import re
import subprocess
import time
from importlib import metadata
from pathlib import Path

import pytest
from emulated_jobs import run_emulated
from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator
from job_runs import JobRun

from xla_shmem.postmortem.who_waits import diagnose_job
from xla_shmem.runtime.flight_records import read_job

pytestmark = pytest.mark.timeout(240)

STEPS = 3

#: What one step of worker_observed.py gives each collective on a PE.
OPERAND_BYTES = {"all-reduce": 4000, "collective-permute": 4000, "all-gather": 4000}


def _run(emulator: Emulator, results: Path, flags: tuple[str, ...], **environ: str) -> JobRun:
    job = run_emulated(
        emulator,
        "worker_observed.py",
        [str(STEPS)],
        ranks=2,
        results=results,
        flags=flags,
        XLA_SHMEM_OPS="all-reduce,collective-permute,all-gather",
        XLA_SHMEM_RECORDS=str(results / "records"),
        **environ,
    )
    assert job.exit_code == 0, job.output[-6000:]
    return job


def test_statistics_and_trace_hold_every_collective_with_times_of_the_device(
    emulator: Emulator, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    job = _run(emulator, tmp_path, NO_GRAPH_FLAGS, XLA_SHMEM_STATS="1", XLA_SHMEM_TRACE=str(trace))
    assert not list((tmp_path / "records").glob("*/*.ring")), "records stay after a job that ended well"
    events = [
        json.loads(line.rstrip(",")) for line in trace.read_text().splitlines() if line.startswith('{"name": "jit')
    ]
    for rank in (0, 1):
        table = [line for line in job.output.splitlines() if line.startswith(f"[{rank}] ") and " jit_step/" in line]
        calls = {line.split()[7]: int(line.split()[1]) for line in table}
        assert set(calls) == {"all-reduce", "collective-permute", "all-gather"}, job.output[-4000:]
        own = [event for event in events if event["pid"] == rank]
        for op, count in calls.items():
            assert count == STEPS, f"{op} of rank {rank} ran {count} times"
            of_op = [event for event in own if event["cat"] == op]
            assert len(of_op) == STEPS
            assert all(event["dur"] > 0 and event["args"]["bytes"] > 0 for event in of_op)
            assert [event["args"]["run"] for event in of_op] == list(range(STEPS))
    # Both ranks' clocks are the host's: a collective overlaps with itself on the other rank.
    by_rank = [[event for event in events if event["pid"] == rank and event["cat"] == "all-gather"] for rank in (0, 1)]
    for first, second in zip(*by_rank, strict=True):
        assert max(first["ts"], second["ts"]) < min(first["ts"] + first["dur"], second["ts"] + second["dur"]) + 2000


@pytest.mark.slow
def test_statistics_count_what_graphs_have_run(emulator: Emulator, tmp_path: Path) -> None:
    job = _run(emulator, tmp_path, GRAPH_FLAGS, XLA_SHMEM_STATS="1")
    for rank in (0, 1):
        line = next(line for line in job.output.splitlines() if line.startswith(f"[{rank}]") and "CUDA graphs" in line)
        found = re.search(r"(\d+) more ran in CUDA graphs", line)
        assert found, line
        assert int(found[1]) > 0


@pytest.mark.parametrize("way", ["absent_from_a_permute", pytest.param("absent_from_a_sum", marks=pytest.mark.slow)])
def test_records_name_the_pe_that_did_not_come(emulator: Emulator, tmp_path: Path, way: str) -> None:
    records = tmp_path / "records"
    job = run_emulated(
        emulator,
        "../e2e/worker_failures.py",
        [way],
        ranks=2,
        results=tmp_path,
        flags=NO_GRAPH_FLAGS,
        timeout=120,
        XLA_SHMEM_DEADLINE="3",
        XLA_SHMEM_RECORDS=str(records),
    )
    (directory,) = records.iterdir()
    assert f"xla-shmem postmortem {directory.name} shows every PE" in job.line_with("gave up after the deadline")
    diagnosis = diagnose_job(read_job(directory), time.monotonic())
    (failure,) = diagnosis.failures[:1]
    assert "has not finished" in failure
    stuck = diagnosis.stuck[0]
    assert stuck.waiting == (0,)
    assert [missing.pe for missing in stuck.missing] == [1]


def test_a_profiler_sees_a_range_for_each_collective(emulator: Emulator, tmp_path: Path) -> None:
    headers = metadata.distribution("nvidia-nvtx").locate_file("nvidia/cu13/include")
    injection = tmp_path / "libinjection.so"
    source = Path(__file__).with_name("nvtx_injection.cc")
    command = ["c++", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{headers}", str(source)]
    subprocess.run([*command, "-o", str(injection)], check=True)
    ranges = tmp_path / "ranges"
    _run(
        *(emulator, tmp_path, NO_GRAPH_FLAGS),
        NVTX_INJECTION64_PATH=str(injection),
        NVTX_INJECTION_OUT=str(ranges),
    )
    files = sorted(tmp_path.glob("ranges.*"))
    assert len(files) == 2, "one file for each process that enqueued a collective"
    for file in files:
        lines = file.read_text().splitlines()
        starts = [line for line in lines if line != "pop"]
        assert lines.count("pop") == len(starts), "every range ends"
        of_op = {op: [line for line in starts if f" {op} jit_step/" in line] for op in OPERAND_BYTES}
        assert sum(map(len, of_op.values())) == len(starts), starts
        for op, expected in OPERAND_BYTES.items():
            assert len(of_op[op]) == STEPS, starts
            assert all(line.split()[0] == str(expected) for line in of_op[op]), of_op[op]
        assert all(line.endswith("among PE 0, 1") for line in of_op["all-gather"] + of_op["all-reduce"])
        assert all(re.search(r" from PE (0 to PE 0|1 to PE 1)$", line) for line in of_op["collective-permute"])
