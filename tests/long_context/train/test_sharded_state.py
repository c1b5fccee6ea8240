"""Parameters and optimizer state are created in shards (delayed parameter initialization), and the step keeps them."""

import math
import re

import jax
import jax.numpy as jnp
import pytest

from long_context.parallel import sharding
from long_context.parallel.mesh import make_mesh
from long_context.train.config import ConfigError, TrainConfig
from long_context.train.step import abstract_state, init_state, make_init, make_train_step

SIZES = {"width": 256, "layers": 2, "heads": 4, "kv_heads": 4, "hidden": 512, "batch": 8, "sequence": 32}
DEVICES = 8


def job(**axes):
    config = TrainConfig(**SIZES, **({"context": 1} | axes))
    return config, make_mesh(config.mesh(), jax.devices()[:DEVICES])


def held_bytes(state) -> int:
    """Bytes of a state on one device, from its shardings."""
    return sum(math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(state))


@pytest.mark.parametrize(
    ("axes", "shards"),
    [
        ({"fsdp": 8}, 8),
        ({"data": 2, "fsdp": 4}, 4),
        ({"fsdp": 4, "tensor": 2}, 8),
        ({"fsdp": 4, "context": 2, "shard_over_context": True}, 8),
        *(({"data": 2, "context": 4, "hybrid_shard_degree": degree}, degree) for degree in (1, 2, 4, 8)),
        ({"data": 2, "context": 2, "tensor": 2, "hybrid_shard_degree": 4}, 4),
        ({"data": 2, "expert": 2, "experts": 4, "hybrid_shard_degree": 4, "context": 2}, 4),
    ],
    ids=str,
)
def test_every_parameter_and_moment_is_split_over_the_group_that_shards_it(axes, shards: int) -> None:
    config, mesh = job(**axes)
    state = abstract_state(config, mesh)
    leaves = jax.tree_util.tree_leaves_with_path((state.params, state.optimizer))
    arrays = {jax.tree_util.keystr(path): x for path, x in leaves if x.ndim}
    assert len(arrays) == 3 * len(jax.tree.leaves(state.params)), "each parameter has two moments"
    for name, x in arrays.items():
        # A norm's scale has no axis that tensor parallelism splits.
        parts = shards // config.tensor if "scale" in name else shards
        assert math.prod(x.sharding.shard_shape(x.shape)) * parts == math.prod(x.shape), name


def test_the_groups_of_a_shard_degree_are_neighbours() -> None:
    config, mesh = job(data=2, context=4, hybrid_shard_degree=2)
    kernel = abstract_state(config, mesh).params["layers"]["gate"]
    holders: dict[object, list[int]] = {}
    for device, index in kernel.sharding.devices_indices_map(kernel.shape).items():
        holders.setdefault(str(index), []).append(device.id)
    assert sorted(holders.values()) == [[0, 2, 4, 6], [1, 3, 5, 7]]


@pytest.mark.parametrize(
    ("degree", "axes", "possible"),
    [(3, {"data": 8}, "1, 2, 4, 8"), (1, {"data": 4, "tensor": 2}, "2, 4, 8"), (16, {"data": 8}, "1, 2, 4, 8")],
)
def test_a_shard_degree_that_does_not_divide_the_devices_is_refused(degree: int, axes, possible: str) -> None:
    with pytest.raises(
        ConfigError, match=f"hybrid-shard-degree is {degree}; on .* it is one of {possible}: it divides"
    ):
        job(hybrid_shard_degree=degree, **axes)


def test_a_shard_degree_beside_fsdp_is_refused() -> None:
    with pytest.raises(ConfigError, match="fsdp or shard-over-context say how to shard too"):
        job(fsdp=8, hybrid_shard_degree=8)


@pytest.mark.parametrize(
    "axes",
    [
        {"fsdp": 8},
        {"data": 2, "context": 4, "hybrid_shard_degree": 4},
        {"expert": 4, "context": 2, "shard_over_context": True, "experts": 4},
    ],
    ids=str,
)
def test_initialisation_holds_no_whole_parameter_on_any_device(axes) -> None:
    config, mesh = job(**axes)
    state = abstract_state(config, mesh)
    compiled = make_init(config, mesh).lower(jax.random.key(0)).compile()
    assert compiled.memory_analysis().output_size_in_bytes == pytest.approx(held_bytes(state), rel=0.01)
    shapes = re.findall(r"= \(?\w+\[([\d,]+)\]", compiled.as_text())
    largest = max(math.prod(map(int, shape.split(","))) for shape in shapes)
    shard = max(math.prod(x.sharding.shard_shape(x.shape)) for x in jax.tree.leaves(state.params))
    whole = config.model().width * config.model().hidden * (config.model().experts or 1)
    assert shard < whole, "else one layer's whole matrix could pass for a shard"
    assert largest == shard, f"an array of {largest} numbers, the largest shard has {shard}"


@pytest.mark.usefixtures("quick_compilation")
def test_initial_values_do_not_depend_on_the_mesh() -> None:
    split, whole = (init_state(*job(**axes)) for axes in ({"fsdp": 4, "tensor": 2}, {"data": 8}))
    for a, b in zip(jax.tree.leaves(split.params), jax.tree.leaves(whole.params), strict=True):
        assert not a.is_fully_replicated
        assert b.is_fully_replicated
        assert jnp.array_equal(jax.device_get(a), jax.device_get(b))


def test_a_step_reuses_the_buffers_of_the_state_and_keeps_its_shards() -> None:
    config, mesh = job(fsdp=8)
    state = abstract_state(config, mesh)
    tokens = jax.ShapeDtypeStruct((config.batch, config.sequence), jnp.int32, sharding=sharding.tokens(mesh))
    compiled = make_train_step(config, mesh).lower(state, tokens, tokens).compile()
    memory = compiled.memory_analysis()
    assert memory.alias_size_in_bytes == pytest.approx(held_bytes(state), rel=0.01)
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(compiled.output_shardings[0]), strict=True):
        assert after.is_equivalent_to(before.sharding, before.ndim)
