"""Meshes that do not fit the model or the job, and the order of the tokens on them."""

import jax
import pytest

from long_context.models.llama_config import LlamaConfig
from long_context.parallel.mesh import make_mesh
from long_context.parallel.mesh_shape import MeshShape
from long_context.parallel.zigzag import zigzag_order


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (MeshShape(data=2, fsdp=2), "batch of 2 sequences does not divide over data 2 x fsdp 2.*multiple of 4"),
        (MeshShape(context=3), "sequence 1024 does not divide over context 3.*multiple of 6"),
        (MeshShape(tensor=4), "kv-heads 2 does not divide over tensor 4; choose a degree that divides 2"),
        (MeshShape(context=256, context_shards=256), "width 128 does not divide over fsdp 1 x context 256"),
    ],
    ids=str,
)
def test_the_error_names_the_size_that_does_not_divide_over_the_mesh(shape: MeshShape, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shape.check(LlamaConfig(), batch=2, sequence=1024)


def test_a_mesh_that_fits_passes() -> None:
    MeshShape(data=2, fsdp=2, context=4, tensor=2).check(LlamaConfig(), batch=8, sequence=1024)


def test_a_degree_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="tensor is 0; it must be at least 1"):
        MeshShape(tensor=0)


def test_a_mesh_of_another_size_than_the_job_says_how_to_fix_it() -> None:
    with pytest.raises(
        ValueError, match=r"fsdp 1 x context 4 x tensor 2 needs 8 devices, this job has 1; start 8 ranks"
    ):
        make_mesh(MeshShape(context=4, tensor=2), jax.devices()[:1])


def test_zigzag_gives_every_rank_an_early_and_a_late_chunk() -> None:
    assert zigzag_order(8, 2).tolist() == [0, 1, 6, 7, 2, 3, 4, 5]
    assert sorted(zigzag_order(64, 4).tolist()) == list(range(64))
    assert zigzag_order(64, 1).tolist() == list(range(64))


def test_zigzag_refuses_a_sequence_that_does_not_divide() -> None:
    with pytest.raises(ValueError, match="sequence 12 does not divide into 2 x 4 zig-zag chunks"):
        zigzag_order(12, 4)
