"""Each device sends its number to the next one. Run: xla-shmem launch -n 4 -- python examples/ring.py"""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

jax.distributed.initialize()
n = jax.device_count()
mesh, ring = Mesh(jax.devices(), ("ring",)), PartitionSpec("ring")


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=ring, out_specs=ring)
def shift(x):
    return jax.lax.ppermute(x, "ring", [(i, (i + 1) % n) for i in range(n)])


received = shift(jnp.arange(n)).addressable_shards
print(f"rank {jax.process_index()} received", *(shard.data for shard in received))
