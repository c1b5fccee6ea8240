"""Runs a sum and a permute, each on a line of its own, among other work that gives the module many frames."""

from __future__ import annotations


def main() -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from case_world import World
    from jax import lax

    jax.distributed.initialize()
    world = World()
    pairs = [(i, (i + 1) % world.n) for i in range(world.n)]

    def summed(x: jax.Array) -> jax.Array:
        return lax.psum(x, "x")

    def passed_on(x: jax.Array) -> jax.Array:
        return lax.ppermute(x, "x", pairs)

    def step(x: jax.Array) -> jax.Array:
        y = jnp.sin(x) * 2
        z = jnp.cumsum(jnp.sort(y))
        return passed_on(z + 1) + summed(y) * jnp.tanh(z)

    values = np.arange(world.n * 8, dtype=np.float32).reshape(world.n, 8)
    jax.block_until_ready(world.shard_map(step)(world.put(values)))


if __name__ == "__main__":
    main()
