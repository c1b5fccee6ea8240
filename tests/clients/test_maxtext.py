"""MaxText's own trainer learns with the flag what it learns on stock JAX, and its collectives go where they should."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from client_modes import ALL_OPS, DEFAULT_OPS, STOCK, Mode
from maxtext_configs import BY_NAME, CONFIGS, MaxTextConfig
from maxtext_runs import Training, TrainingJob, train

STEPS = 5

#: Metrics that are compared in each step.
COMPARED = ("learning/loss", "learning/raw_grad_norm", "learning/param_norm")

#: Relative tolerance for more than two ranks, where gloo adds in another order, and for sparse experts, which compute
#: in another order than the dense ones.
TOLERANCE = 1e-5

# A job trains all models of its number of ranks, in the first test that needs it.
pytestmark = pytest.mark.timeout(3600)

# MAXTEXT_CONFIGS=fsdp,tensor trains only these models.
_NAMES = os.environ.get("MAXTEXT_CONFIGS") or ("fsdp" if os.environ.get("CLIENTS") == "quick" else ",".join(BY_NAME))
_CHOSEN = [config for config in CONFIGS if config.name in _NAMES.split(",")]
_RANKS = sorted({config.ranks for config in _CHOSEN})

#: Returns the job of a number of ranks in a mode.
Jobs = Callable[[int, Mode], TrainingJob]

flagged = pytest.mark.parametrize("mode", [DEFAULT_OPS, ALL_OPS], ids=lambda mode: mode.name)


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    """Runs each job once."""
    done: dict[tuple[int, Mode], TrainingJob] = {}

    def job(ranks: int, mode: Mode) -> TrainingJob:
        if (ranks, mode) not in done:
            configs = [config for config in _CHOSEN if config.ranks == ranks]
            # The stock twins of the sparse models.
            configs += [t for c in configs if not c.stock for t in [_dense_twin(c)] if t not in configs]
            done[ranks, mode] = train(configs, mode, tmp_path_factory.mktemp(f"{mode.name}-{ranks}"), steps=STEPS)
        return done[ranks, mode]

    return job


def _dense_twin(config: MaxTextConfig) -> MaxTextConfig:
    return BY_NAME[config.name.replace("sparse", "dense")]


def _trained(job: TrainingJob, config: MaxTextConfig) -> Training:
    training = job.trainings[config.name]
    assert not training.error, training.error
    # MaxText may end at once without an error, so the steps are counted.
    steps = {rank: len(found) for rank, found in training.metrics.items()}
    assert steps == dict.fromkeys(range(config.ranks), STEPS), job.output[-6000:]
    return training


def _assert_trained_alike(expected: Training, actual: Training, tolerance: float) -> None:
    for metric in COMPARED:
        before, after = np.array(expected.values(metric)), np.array(actual.values(metric))
        print(f"{actual.folder}: {metric}: differs by at most {np.max(np.abs(after - before) / np.abs(before)):.1e}")
        np.testing.assert_allclose(after, before, rtol=tolerance, atol=0, err_msg=metric)
    losses = expected.values("learning/loss")
    assert losses[-1] < losses[0], f"nothing was learnt: {losses}"


def _moved_and_stayed(training: Training, mode: Mode) -> tuple[Counter[str], Counter[str]]:
    """How often rank 0 ran each collective of a step on SHMEM and on gloo."""
    moved, stayed = training.executions(0, "NVSHMEM"), training.executions(0, "DEFAULT")
    print(f"{training.folder.name}, {mode.name}: moved {dict(moved)}, on gloo {dict(stayed)}")
    return moved, stayed


@flagged
@pytest.mark.parametrize("config", [c for c in _CHOSEN if c.stock], ids=lambda config: config.name)
def test_trains_as_on_stock_jax(config: MaxTextConfig, mode: Mode, jobs: Jobs) -> None:
    stock = _trained(jobs(config.ranks, STOCK), config)
    training = _trained(jobs(config.ranks, mode), config)
    _assert_trained_alike(stock, training, 0 if config.ranks == 2 else TOLERANCE)
    moved, stayed = _moved_and_stayed(training, mode)
    assert moved
    assert moved + stayed == stock.executions(0, "DEFAULT")
    assert mode != ALL_OPS or not stayed


@flagged
@pytest.mark.parametrize("config", [c for c in _CHOSEN if not c.stock], ids=lambda config: config.name)
def test_sparse_experts_train_as_the_dense_ones_of_stock_jax(config: MaxTextConfig, mode: Mode, jobs: Jobs) -> None:
    stock = jobs(config.ranks, STOCK)
    assert "ragged-all-to-all" in stock.trainings[config.name].error
    training = _trained(jobs(config.ranks, mode), config)
    moved, _ = _moved_and_stayed(training, mode)
    assert moved["ragged-all-to-all"]
    _assert_trained_alike(_trained(stock, _dense_twin(config)), training, TOLERANCE)


@flagged
@pytest.mark.parametrize("ranks", _RANKS)
def test_collectives_run_as_often_as_inspect_counts(ranks: int, mode: Mode, jobs: Jobs) -> None:
    job = jobs(ranks, mode)
    assert job.exit_code == 0, job.output[-6000:]
    for rank in range(ranks):
        counted: Counter[str] = Counter()
        for training in job.trainings.values():
            counted += training.executions(rank, "NVSHMEM")
        assert job.calls(rank) == Counter({op: STEPS * number for op, number in counted.items()}), f"rank {rank}"
