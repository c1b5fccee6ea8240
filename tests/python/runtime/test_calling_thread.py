"""The processes whose collectives must keep the thread that started them."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

from xla_shmem.runtime.job import _processes_of_one_thread


@pytest.mark.parametrize(
    ("implementation", "processes", "expected"),
    [
        ("gloo", (0, 1), set()),
        ("mpi", (0, 1), {0, 1}),
        ("mpi", (0, 0, 1, 1), set()),  # JAX refuses two devices of a process on MPI
        ("mpi", (0, 0, 1), {1}),
    ],
)
def test_one_device_a_process_and_mpi(implementation: str, processes: tuple[int, ...], expected: set[int]) -> None:
    devices = [SimpleNamespace(process_index=process) for process in processes]
    before = jax.config.jax_cpu_collectives_implementation
    jax.config.update("jax_cpu_collectives_implementation", implementation)
    try:
        assert _processes_of_one_thread(devices) == expected
    finally:
        jax.config.update("jax_cpu_collectives_implementation", before)
