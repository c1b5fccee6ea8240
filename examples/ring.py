"""Each device sends its number to the next one. Run: xla-shmem launch -n 4 -- python examples/ring.py"""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

jax.distributed.initialize()
n, ring = jax.device_count(), PartitionSpec("ring")
mesh = Mesh(jax.devices(), ("ring",))
pairs = [(i, (i + 1) % n) for i in range(n)]
shift = jax.shard_map(lambda x: jax.lax.ppermute(x, "ring", pairs), mesh=mesh, in_specs=ring, out_specs=ring)
received = jax.jit(shift)(jnp.arange(n)).addressable_shards
print(f"rank {jax.process_index()} received", *(shard.data for shard in received))
