"""A peer that is killed: an error that names it, no result, and no hang."""

from __future__ import annotations

import signal
from pathlib import Path

import doubled_jobs
import pytest

pytestmark = pytest.mark.timeout(180, func_only=True)

_PERMUTE, _ALL_REDUCE = "jit_step/collective-permute.1", "jit_step/all-reduce.1"
_LATE = " on PE 0 has not finished within the deadline; "
_WAITS = {
    "permute": f"{_PERMUTE}{_LATE}PE 2 has put 0 of 1 messages (XLA_SHMEM_DEADLINE)",
    "all_reduce": f"{_ALL_REDUCE}{_LATE}PE 2 has put 0 of 1 messages (XLA_SHMEM_DEADLINE)",
    # Its signal words cannot distinguish a peer that is done from one that has not arrived.
    "self_joined": f"{_PERMUTE}{_LATE}it waits for PE 1 to grant its slot or PE 2 to put (XLA_SHMEM_DEADLINE)",
}

_EARLY = _WAITS | {
    "permute": f"{_PERMUTE}{_LATE}it waits for PE 2 to put 1 messages (XLA_SHMEM_DEADLINE)",
    "all_reduce": f"{_ALL_REDUCE}{_LATE}it waits for PE 1 to put 1 messages or PE 2 to put 1 messages",
}


@pytest.mark.parametrize("puts", ["nvshmem", "driver"])
@pytest.mark.parametrize("form", _WAITS)
def test_a_killed_peer_is_named(double: Path, tmp_path: Path, form: str, puts: str) -> None:
    first, second, killed = doubled_jobs.run_job(double, "worker_deadline.py", 3, tmp_path, form, puts)
    assert killed.exit_code == -signal.SIGKILL
    told, _ = doubled_jobs.reports([first, second])
    assert told["synchronize"] == "cuEventQuery failed with 719"
    assert _WAITS[form] in told["next"]
    # The first line does not wait for the GPU, which may not answer; the second has the counters.
    early, described = (first.output.index(f"xla_shmem: {words}") for words in (_EARLY[form], _WAITS[form]))
    assert early < described or form == "self_joined"
    assert told["result"] == 3
