"""When a collective must keep the thread that started it."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

from xla_shmem.runtime.job import _only_one_thread


@pytest.mark.parametrize(
    ("implementation", "processes", "expected"),
    [
        ("gloo", (0, 1), False),
        ("mpi", (0, 1), True),
        ("mpi", (0, 0, 1, 1), False),  # JAX refuses two devices of a process on MPI
    ],
)
def test_one_device_a_process_and_mpi(implementation: str, processes: tuple[int, ...], expected: bool) -> None:
    devices = [SimpleNamespace(process_index=process) for process in processes]
    before = jax.config.jax_cpu_collectives_implementation
    jax.config.update("jax_cpu_collectives_implementation", implementation)
    try:
        assert _only_one_thread(devices, 0) is expected
    finally:
        jax.config.update("jax_cpu_collectives_implementation", before)
