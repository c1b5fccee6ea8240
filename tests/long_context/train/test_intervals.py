"""What a job does every few steps, it does after its last step too, also if that is none of them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from long_context.parallel.mesh import make_mesh
from long_context.train import trainer
from long_context.train.config import TrainConfig
from long_context.train.job_tokens import open_data
from long_context.train.progress import JobProgress
from long_context.train.step_log import StepRecord


@pytest.mark.parametrize(("every", "due"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (7, [5])])
def test_validation_is_due_at_each_interval_and_after_the_last_step(
    every: int, due: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "tokens.npy", np.zeros(1000, np.uint8))
    config = TrainConfig(corpus=str(tmp_path), context=1, sequence=32, steps=5, validation=0.2, validation_every=every)
    monkeypatch.setattr(trainer, "make_evaluation", lambda config, mesh: lambda state, inputs, targets: 1.5)
    mesh = make_mesh(config.mesh(), jax.devices()[:1])
    validate = trainer._validation(config, mesh, open_data(config), np.arange(32))
    state: Any = None
    found = {done: validate(state, done) for done in range(1, 6)}
    assert [done for done, loss in found.items() if loss is not None] == due
    assert {found[done] for done in due} == {1.5}


def test_progress_without_a_terminal_shows_some_steps_and_the_last() -> None:
    console = Console(file=io.StringIO(), width=200)
    with JobProgress(console) as progress:
        follow = progress.follow("train", 50)
        for step in range(50):
            follow(StepRecord(step, 1.0, 0.1, 64))
    assert isinstance(console.file, io.StringIO)
    shown = [int(line.split()[2].rstrip(":")) for line in console.file.getvalue().splitlines()]
    assert shown == [*range(0, 50, 2), 49]
