"""Checkpoints: which are kept, what they restore, and which are refused. Kills and several processes: tests/e2e."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from long_context.train.config import ConfigError, TrainConfig
from long_context.train.job_folder import newest_checkpoint

pytest.importorskip("orbax.checkpoint")

from long_context.train.checkpoints import Checkpoints


def job(folder: Path, **fields: Any) -> TrainConfig:
    defaults = {
        "preset": "tiny",
        "context": 1,
        "steps": 7,
        "checkpoint_every": 3,
        "resume": True,
        "output": str(folder),
    }
    return TrainConfig(**defaults | fields)


def state(steps: int) -> dict[str, jax.Array]:
    return {"step": jnp.array(steps), "weights": jnp.linspace(0, 1, 8) ** steps}


ABSTRACT = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0])),
    state(0),
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the checkpoints of a job of 7 steps."""
    folder = tmp_path_factory.mktemp("job")
    with Checkpoints(job(folder), tokens=1000) as checkpoints:
        assert checkpoints.newest is None
        for steps in range(1, 8):
            if checkpoints.due(steps):
                checkpoints.save(steps, state(steps))
    return folder


def test_every_third_and_the_last_step_are_saved_and_the_newest_two_are_kept(saved: Path) -> None:
    assert sorted(path.name for path in (saved / "checkpoints").iterdir()) == ["6", "7"]
    assert newest_checkpoint(job(saved)) == 7


def test_the_newest_is_restored_bit_for_bit(saved: Path) -> None:
    with Checkpoints(job(saved), tokens=1000) as checkpoints:
        restored = checkpoints.restore(ABSTRACT)
    jax.tree.map(np.testing.assert_array_equal, restored, state(7))


def test_folder_spacing_and_mesh_may_change(saved: Path) -> None:
    changed = job(saved, context=2, checkpoint_every=5, checkpoints_kept=4, remat="full")
    with Checkpoints(changed, tokens=1000) as checkpoints:
        assert int(checkpoints.restore(ABSTRACT)["step"]) == 7


#: Fields with which a job computes something else, each with another value than the saved job's.
KEPT = {
    "preset": "demo",
    "vocab": 512,
    "width": 32,
    "layers": 3,
    "heads": 4,
    "kv_heads": 2,
    "hidden": 64,
    "experts": 2,
    "parallel_block": True,
    "qk_norm": True,
    "batch": 2,
    "sequence": 64,
    "dtype": "bf16",
    "fp8": True,
    "steps": 9,
    "learning_rate": 0.5,
    "warmup_steps": 6,
    "seed": 1,
}

#: Fields that change how the job runs, or its tokens, whose number is compared.
FREE = {
    *("data", "fsdp", "context", "tensor", "expert", "shard_over_context", "hybrid_shard_degree"),
    *("attention", "attention_blocks", "tensor_matmul", "remat"),
    *("corpus", "token_dtype", "tokenizer", "text_field", "validation", "validation_every", "validation_batches"),
    *("output", "checkpoint_every", "checkpoints_kept", "resume", "profile_steps"),
}


def test_every_field_is_either_kept_or_free() -> None:
    assert {field.name for field in dataclasses.fields(TrainConfig)} == KEPT.keys() | FREE


@pytest.mark.parametrize("name", KEPT)
def test_a_job_that_would_compute_something_else_is_refused(saved: Path, name: str) -> None:
    changed = job(saved, **{name: KEPT[name]})
    assert getattr(changed, name) != getattr(job(saved), name)
    with Checkpoints(changed, tokens=1000) as checkpoints, pytest.raises(ConfigError, match="to resume, set the same"):
        checkpoints.restore(ABSTRACT)


@pytest.mark.parametrize(
    ("fields", "tokens", "message"),
    [
        ({"steps": 9}, 1000, "with steps 7, and this job has 9"),
        ({"learning_rate": 0.5}, 1000, "with learning-rate 0.002, and this job has 0.5"),
        ({}, 1001, "with corpus-tokens 1000, and this job has 1001"),
    ],
)
def test_the_refusal_names_the_value_and_both_jobs(
    saved: Path, fields: dict[str, Any], tokens: int, message: str
) -> None:
    with (
        Checkpoints(dataclasses.replace(job(saved), **fields), tokens) as checkpoints,
        pytest.raises(ConfigError, match=message),
    ):
        checkpoints.restore(ABSTRACT)


def test_a_checkpoint_from_before_a_field_existed_has_its_default(tmp_path: Path) -> None:
    with Checkpoints(job(tmp_path), tokens=1000) as checkpoints:
        checkpoints.save(7, state(7))
    (facts,) = (tmp_path / "checkpoints/7/job").glob("*metadata*")
    text = facts.read_text()
    assert '"experts":' in text
    older = re.sub(r'"(experts|experts_per_token|router_loss)": ?[\d.]+, ?', "", text)
    assert "experts" not in older
    facts.write_text(older)
    with Checkpoints(job(tmp_path), tokens=1000) as checkpoints:
        assert int(checkpoints.restore(ABSTRACT)["step"]) == 7
    with (
        Checkpoints(job(tmp_path, experts=2), tokens=1000) as checkpoints,
        pytest.raises(ConfigError, match="with experts 0, and this job has 2"),
    ):
        checkpoints.restore(ABSTRACT)


def test_the_same_step_is_not_written_twice(saved: Path) -> None:
    written = (saved / "checkpoints" / "7").stat().st_mtime_ns
    with Checkpoints(job(saved), tokens=1000) as checkpoints:
        checkpoints.save(7, state(3))
    assert (saved / "checkpoints" / "7").stat().st_mtime_ns == written
