"""MaxText's own trainer learns with the flag what it learns on stock JAX, and its collectives go where they should."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_modes import ALL_OPS, DEFAULT_OPS, STOCK
from maxtext_configs import BY_NAME, CONFIGS, MaxTextConfig
from maxtext_runs import TrainingRun, train

STEPS = 5

#: Metrics that are compared in each step.
COMPARED = ("learning/loss", "learning/raw_grad_norm", "learning/param_norm")

#: Relative tolerance where gloo adds in another order. The order does not matter for two ranks.
TOLERANCE = 1e-5

pytestmark = pytest.mark.timeout(7200)

QUICK = os.environ.get("CLIENTS") == "quick"
ON_STOCK = [BY_NAME["fsdp"]] if QUICK else [config for config in CONFIGS if config.stock]


def _trained(config: MaxTextConfig, folder: Path, **mode: Any) -> TrainingRun:
    run = train(config, folder=folder, steps=STEPS, **mode)
    # MaxText may end at once with exit code 0, so the steps are counted.
    steps = {rank: len(steps) for rank, steps in run.metrics.items()}
    assert (run.exit_code, steps) == (0, dict.fromkeys(range(config.ranks), STEPS)), run.output[-6000:]
    return run


def _executions(collectives: Iterable[Mapping[str, Any]], backend: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for collective in collectives:
        if collective["lowered"] == backend:
            assert collective["executions"] is not None, f"{collective} is in a loop of unknown length"
            found[collective["op"]] += collective["executions"]
    return found


def _assert_moved_as_counted(run: TrainingRun, ranks: int) -> None:
    """Each rank has executed in all steps what inspect counts in a step."""
    for rank in range(ranks):
        counted = _executions(run.collectives(rank), "NVSHMEM")
        assert run.calls(rank) == Counter({op: STEPS * number for op, number in counted.items()}), f"rank {rank}"


def _assert_trained_alike(stock: TrainingRun, flagged: TrainingRun, tolerance: float) -> None:
    for metric in COMPARED:
        expected, actual = stock.values(metric), flagged.values(metric)
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=0, err_msg=metric)
        print(f"{metric}: largest relative difference {_difference(expected, actual):.1e}")
    losses = stock.values("learning/loss")
    assert losses[-1] < losses[0], f"nothing was learnt: {losses}"


def _difference(expected: list[float], actual: list[float]) -> float:
    return max(abs(a - e) / abs(e) for e, a in zip(expected, actual, strict=True))


@pytest.mark.parametrize("config", ON_STOCK, ids=lambda config: config.name)
def test_trains_as_on_stock_jax(config: MaxTextConfig, tmp_path: Path) -> None:
    stock = _trained(config, tmp_path / "stock", mode=STOCK)
    for mode in (DEFAULT_OPS, ALL_OPS):
        flagged = _trained(config, tmp_path / mode.name, mode=mode)
        _assert_trained_alike(stock, flagged, 0 if config.ranks == 2 else TOLERANCE)
        _assert_moved_as_counted(flagged, config.ranks)
        moved, stayed = (_executions(flagged.collectives(0), backend) for backend in ("NVSHMEM", "DEFAULT"))
        print(f"{config.name}, {mode.name}: moved {dict(moved)}, on gloo {dict(stayed)}")
        if mode == ALL_OPS:
            assert not stayed, f"left on gloo: {stayed}"


@pytest.mark.skipif(QUICK, reason="CLIENTS=quick")
@pytest.mark.parametrize("config", [c for c in CONFIGS if not c.stock], ids=lambda config: config.name)
def test_sparse_experts_train_as_the_dense_ones_of_stock_jax(config: MaxTextConfig, tmp_path: Path) -> None:
    refused = train(config, STOCK, tmp_path / "refused", steps=STEPS)
    assert refused.exit_code != 0
    assert "ragged-all-to-all" in refused.output
    stock = _trained(BY_NAME[config.name.replace("sparse", "dense")], tmp_path / "stock", mode=STOCK)
    for mode in (DEFAULT_OPS, ALL_OPS):
        flagged = _trained(config, tmp_path / mode.name, mode=mode)
        _assert_trained_alike(stock, flagged, 1e-4)
        _assert_moved_as_counted(flagged, config.ranks)
        assert flagged.calls(0)["ragged-all-to-all"]
