"""A peer that is killed: an error that names it, no result, and no hang."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import process_jobs
import pytest
from emulator import Emulator

pytestmark = pytest.mark.timeout(180, func_only=True)

_LATE = " on PE 0 has not finished; "
# What the message says in the end, with what the GPU tells.
_WAITS = {
    "permute": f"permute{_LATE}PE 2 has put 0 of 1 messages; gave up after the deadline (XLA_SHMEM_DEADLINE)",
    "all_reduce": f"all-reduce{_LATE}it waits for PE 2; gave up after the deadline (XLA_SHMEM_DEADLINE)",
    "whole_permute": f"permute{_LATE}it waits for PE 2 to put; gave up after the deadline (XLA_SHMEM_DEADLINE)",
    "kernel_permute": f"permute{_LATE}it waits for PE 2; gave up after the deadline (XLA_SHMEM_DEADLINE)",
    "whole_kernel_permute": f"permute{_LATE}it waits for PE 2; gave up after the deadline (XLA_SHMEM_DEADLINE)",
}
# The first line does not wait for the GPU, which may not answer.
_EARLY = _WAITS | {
    "permute": f"permute{_LATE}it waits for PE 2 to put 1 messages; gave up after the deadline (XLA_SHMEM_DEADLINE)",
    "all_reduce": f"all-reduce{_LATE}it waits for PE 1 or PE 2; gave up after the deadline (XLA_SHMEM_DEADLINE)",
    "kernel_permute": f"permute{_LATE}it waits for PE 2 or PE 1; gave up after the deadline (XLA_SHMEM_DEADLINE)",
    "whole_kernel_permute": f"permute{_LATE}it waits for PE 2 or PE 1; gave up after the deadline (XLA_SHMEM_DEADLINE)",
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
    told, output = _killed(emulator, tmp_path, form, puts)
    assert _WAITS[form] in told["next"]
    early, described = (output.index(f"xla_shmem: {words}") for words in (_EARLY[form], _WAITS[form]))
    assert early < described or form == "whole_permute"


def test_a_killed_peer_of_a_reduction_in_the_switch_is_named(emulator: Emulator, tmp_path: Path) -> None:
    told, _ = _killed(emulator, tmp_path, "switch_all_reduce", "driver", GPU_EMULATOR_COMPUTE_CAPABILITY="90")
    assert _WAITS["all_reduce"] in told["next"]
