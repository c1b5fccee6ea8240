"""Runs programs whose all-gathers the pass gives to NCCL's put and signal; reports wrong elements and NCCL's counts.

Argument: the folder for the tuning table. One process has all GPUs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jax
import numpy as np
from case_world import World
from gathering_programs import PROGRAMS, jitted, specs_of, write_table
from job_runs import report
from worker_nccl import counts

from xla_shmem import _core


def _expected(name: str, n: int, x: np.ndarray, weights: np.ndarray | None) -> np.ndarray | list[np.ndarray]:
    """The results that are compared, in the order of the program's."""
    gathered = np.tile(x, (n, 1))
    if name == "scanned":
        assert weights is not None
        for layer in weights:
            x = np.tanh(x @ layer)
        return x
    branches = np.repeat(x.reshape(n, -1)[:, 0] > 0, len(x))
    every: dict[str, np.ndarray | list[np.ndarray]] = {
        "alone": gathered,
        "between": gathered * 6,
        "kept": [gathered * 2, x * 2, np.tile(x[:8] * 2, (n, 1))],
        "repeated": np.full(n, 3 * x.sum(dtype=np.float64)),
        "branch": np.where(branches[:, None], gathered, 0),
        "donated": [gathered, x + 1],
    }
    return every[name]


def main(folder: str) -> None:
    table = Path(folder, "table.json")
    n = int(os.environ["GPU_EMULATOR_DEVICES"])
    write_table(table, {"all-gather": "one-sided"}, n)
    os.environ |= {"XLA_SHMEM_PROFILE": "tuned", "XLA_SHMEM_TUNING": str(table)}
    world = World()
    assert world.n == n
    for name in (name for name in PROGRAMS if not name.startswith("reduced")):
        function = jitted(name, world.mesh)
        for run in range(3):  # with what the run before has left in the buffers
            values = [world.random.integers(1, 9, shape).astype(np.float32) / 16 for shape in PROGRAMS[name][1]]
            values[0] += run if run < 2 else -9  # negative takes the other branch
            operands = [world.put(one, *spec) for one, spec in zip(values, specs_of(name), strict=True)]
            compiled = function.lower(*operands).compile()
            (module,) = compiled.runtime_executable().hlo_modules()
            records = _core.inspect_module(module.as_serialized_hlo_module_proto())
            before = counts()
            found = [np.asarray(one) for one in jax.tree.leaves(function(*operands))]
            wanted = _expected(name, n, values[0], values[1] if len(values) > 1 else None)
            wanted = wanted if isinstance(wanted, list) else [wanted]
            same = [np.allclose(one, other, rtol=1e-4) for one, other in zip(found, wanted, strict=True)]
            report(
                {
                    "program": name,
                    "right": all(same),
                    "backends": sorted({record["lowered"] for record in records}),
                    **{what: count - before[what] for what, count in counts().items()},
                }
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
