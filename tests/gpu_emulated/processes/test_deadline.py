"""A peer that is killed: an error that names it, no result, and no hang."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import process_jobs
import pytest
from emulator import Emulator

pytestmark = pytest.mark.timeout(180, func_only=True)

_LATE = " on PE 0 has not finished; it waits for"
# For whom PE 0 waits. Its host knows that process 2 has exited, long before the deadline.
_WAITS = {
    "permute": f"permute{_LATE} PE 2 to put 1 messages",
    "all_reduce": f"all-reduce{_LATE} PE 1 or PE 2",
    "kernel_permute": f"permute{_LATE} PE 2 or PE 1",
    "whole_permute": f"permute{_LATE} PE 2 or PE 1",
}


def _killed(emulator: Emulator, directory: Path, form: str, puts: str, **environ: str) -> tuple[dict[str, Any], str]:
    """Report and output of PE 0 when PE 2 has been killed."""
    first, second, killed = process_jobs.run_processes(
        emulator, "worker_deadline.py", 3, directory, form, puts, **environ
    )
    assert killed.exit_code == -signal.SIGKILL
    told, _ = process_jobs.reports([first, second])
    assert told["synchronize"] == "cuStreamSynchronize failed with CUDA_ERROR_LAUNCH_FAILED"
    assert told["seen"] == [3.0], "a copy behind the transfer ran"
    return told, first.output


@pytest.mark.parametrize("puts", ["nvshmem", "driver"])
@pytest.mark.parametrize("form", _WAITS)
def test_a_killed_peer_is_named(emulator: Emulator, tmp_path: Path, form: str, puts: str) -> None:
    _check_named(*_killed(emulator, tmp_path, form, puts), _WAITS[form])


def test_a_killed_peer_of_a_reduction_in_the_switch_is_named(emulator: Emulator, tmp_path: Path) -> None:
    environ = {"GPU_EMULATOR_COMPUTE_CAPABILITY": "90"}
    _check_named(*_killed(emulator, tmp_path, "switch_all_reduce", "driver", **environ), _WAITS["all_reduce"])


def _check_named(told: dict[str, Any], output: str, waits: str) -> None:
    message = re.compile(re.escape(waits) + r"; process 2 \(pid \d+\) has exited")
    assert message.search(told["next"]), told["next"]
    assert message.search(output), output
