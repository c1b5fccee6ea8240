"""Runs a sum and a permute and reports their compilation and the state of the process.

Arguments: changes to the environment of single ranks, as JSON (`{"1": {"XLA_FLAGS": ""}}`), and words (see below).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

RANK = os.environ.get("XLA_SHMEM_LOCAL_RANK", "0")
IS_ACTIVE = "import jax; jax.devices(); from xla_shmem import plugin; print(plugin.active())"


def _change_environment() -> None:
    os.environ.update(json.loads(sys.argv[1]).get(RANK, {}))
    if "taken" in sys.argv and RANK == "1":
        # The name of this rank's future segment.
        key = os.environ["XLA_SHMEM_JOB"][:16] + "0" * 16
        Path(f"/dev/shm/xla_shmem.{os.getuid()}.{key}.1").touch(0o600)
    if "taken" in sys.argv:
        import secrets

        secrets.token_hex = lambda size: "0" * (2 * size)
    if "another release" in sys.argv and RANK == "1":
        import jax  # noqa: F401  (it checks the release)
        import jaxlib.version

        jaxlib.version.__version__ = "0.0.1"
    if "uninstalled" in sys.argv:
        sys.modules["xla_shmem"] = None  # type: ignore[assignment]


def _child(results: multiprocessing.Queue[bool]) -> None:
    import jax

    jax.devices()
    from xla_shmem import plugin

    results.put(plugin.active())


def main() -> None:
    import jax
    import numpy as np
    from case_world import World
    from jax import lax
    from job_runs import report

    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    world = World()
    values = np.arange(world.n * 8, dtype=np.int32).reshape(world.n, 8)
    pairs = [(i, (i + 1) % world.n) for i in range(world.n)]
    function = world.shard_map(lambda x: lax.psum(x, "x") + lax.ppermute(x, "x", pairs))
    operand = world.put(values)
    text = function.lower(operand).compile().as_text()
    world.equals(function(operand), values.sum(0, dtype=np.int32) + np.roll(values, 1, 0))
    facts: dict[str, object] = {
        "lowered": len(re.findall(r'custom_call_target="xla_shmem\.(?!(?:begin|end)")', text)),
        "vetoes": sorted(set(re.findall(r'xla_shmem\.veto="([^"]*)"', text))),
        "text": text,
        "core": "xla_shmem._core" in sys.modules,
        "xla_flags": os.environ.get("XLA_FLAGS"),
        "marker": os.environ.get("XLA_SHMEM_ENABLED"),
    }
    if "configure" in sys.argv:
        import xla_shmem

        try:
            xla_shmem.configure(threshold="1MiB")
        except RuntimeError as error:
            facts["configure"] = str(error)
    if "children" in sys.argv:
        for name in list(os.environ):
            if name.startswith(("OMPI_", "JAX_COORDINATOR")):
                del os.environ[name]
        child = subprocess.run([sys.executable, "-c", IS_ACTIVE], capture_output=True, text=True, check=True)
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        process = context.Process(target=_child, args=(results,))
        process.start()
        facts["children"] = [child.stdout.strip() == "True", results.get(timeout=30)]
        process.join()
    report(facts)


if __name__ == "__main__":
    if "stdout" in sys.argv:
        stdout = os.open(Path(os.environ["E2E_RESULTS"]) / f"stdout-{RANK}.txt", os.O_CREAT | os.O_WRONLY)
        os.dup2(stdout, 1)
    _change_environment()
    main()
