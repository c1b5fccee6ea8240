"""Starts of NVSHMEM by processes that share a GPU, one job at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_shmem.runtime import start_lock
from xla_shmem.runtime.start_lock import starting_alone


def test_a_second_job_gives_up_with_a_reason_and_starts_once_the_first_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_lock, "_FOLDER", str(tmp_path))
    reason = "another job of this host has been starting"
    with starting_alone(1), pytest.raises(RuntimeError, match=reason), starting_alone(0.05):
        pass
    with starting_alone(0):
        pass


def test_without_shared_memory_the_error_says_what_to_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_lock, "_FOLDER", str(tmp_path / "missing"))
    reason = r"need .*missing \(No such file or directory\): mount a tmpfs there"
    with pytest.raises(RuntimeError, match=reason), starting_alone(1):
        pass
