"""A sum over all ranks. With FOREIGN_FLAGS=1 the primary context has CU_CTX_SYNC_MEMOPS before XLA starts."""

from __future__ import annotations

import ctypes
import os

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from job_runs import report

_SYNC_MEMOPS = 0x80


def set_foreign_flags() -> None:
    """Sets the flag on the context of this rank's GPU, as a library would that XLA does not know."""
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    for code in (
        cuda.cuInit(0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), int(os.environ["XLA_SHMEM_LOCAL_RANK"])),
        cuda.cuCtxPushCurrent_v2(context),
        cuda.cuCtxSetFlags(_SYNC_MEMOPS),
        cuda.cuCtxPopCurrent_v2(ctypes.byref(context)),
    ):
        assert code == 0, code


def main() -> None:
    if os.environ.get("FOREIGN_FLAGS") == "1":
        set_foreign_flags()
    jax.distributed.initialize()
    mesh = jax.make_mesh((jax.device_count(),), ("x",))
    values = jax.make_array_from_callback((8,), NamedSharding(mesh, P("x")), np.arange(8, dtype=np.float32).__getitem__)
    total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
    report({"total": float(total(values).addressable_shards[0].data)})


main()
