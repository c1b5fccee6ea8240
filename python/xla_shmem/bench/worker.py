"""One rank of a benchmark job: executes commands that the coordinator sends over a connection.

    python -m xla_shmem.bench.worker ADDRESS JOB RANKS [COORDINATOR_ADDRESS]

The ranks of a waiting job block in `recv`, so they take no processor time from the measured job. A rank ends at once if
its coordinator ends. Commands and answers are dictionaries.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from xla_shmem.bench import variants as variant_table
from xla_shmem.bench.plan import Cell
from xla_shmem.bench.rendezvous import connect, receive, send
from xla_shmem.machine import cpu_collectives

#: Variables that hold the rank under mpirun: of Open MPI, and of the implementations with PMI.
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


class _Rank:
    """Executes commands. Each method is a command."""

    def __init__(self) -> None:
        self._programs: dict[str, Any] = {}
        self._warmups: dict[tuple[str, int], list[float]] = {}  # seconds
        self._blocks: list[tuple[Any, Any]] = []
        self._empty_call: Any = None

    def prepare(self, cell: dict[str, Any], variants: list[str], turns_per_call: int | None) -> dict[str, Any]:
        """Compiles a cell for each variant. Returns reasons of variants that cannot run it, and records of the rest."""
        from xla_shmem import plugin
        from xla_shmem.bench.programs import NotCarried, Program

        self._programs.clear()
        self._warmups.clear()
        reasons = {}
        for variant in variants:
            carried = variant_table.carried(variant)
            stock = plugin.stock_collectives() if carried is False else contextlib.nullcontext()
            try:
                with stock:
                    self._programs[variant] = Program(Cell(**cell), carried=carried, turns_per_call=turns_per_call)
            except (NotCarried, NotImplementedError) as error:
                reasons[variant] = str(error)
            except Exception as error:  # XLA has no exception type for unimplemented collectives
                if "nimplemented" not in str(error) and "UNIMPLEMENTED" not in str(error):
                    raise
                reasons[variant] = str(error).splitlines()[0]
        return {"reasons": reasons, "records": {name: program.record for name, program in self._programs.items()}}

    def check(self, variant: str) -> dict[str, Any]:
        """Counts the wrong elements of one collective."""
        return {"wrong": self._programs[variant].wrong()}

    def time(self, variant: str, warmup: int, turns: int, runs: int) -> dict[str, Any]:
        """Times `runs` programs of `warmup` untimed and `turns` timed collectives; returns µs per collective of each.

        Subtracts the time of the same program with the untimed collectives alone (the median so far). That is the fixed
        cost of a program: its start, new pages for its results, and copies of whole buffers, since jax 0.10.2 drops
        donation when the pass has changed a module. The short program also lets the ranks begin together.
        """
        program = self._programs[variant]

        def run(turns: int) -> tuple[int, float]:
            start = time.perf_counter()
            ran = program.run(turns)
            return ran, time.perf_counter() - start

        warmups = self._warmups.setdefault((variant, warmup), [])
        full = []
        for _ in range(runs):
            untimed_turns, seconds = run(warmup)
            warmups.append(seconds)
            full.append(run(warmup + turns))
        untimed = statistics.median(warmups)
        return {"us": [(seconds - untimed) / (ran - untimed_turns) * 1e6 for ran, seconds in full]}

    def fingerprint(self) -> dict[str, Any]:
        """Returns the facts by which a table of times of this host is accepted."""
        from xla_shmem.options import fingerprint, resolve

        settings = vars(resolve(overrides={"profile": "domain"}))  # so that no table is read here
        return {"fingerprint": fingerprint.fingerprint(settings, "cpu")}

    def empty_call(self, turns: int, runs: int) -> dict[str, Any]:
        """Measures µs of an FFI call whose handler does nothing."""
        from xla_shmem.bench.programs import EmptyCall

        self._empty_call = self._empty_call or EmptyCall()
        return {"us": self._empty_call.us(turns, runs)}

    def memcpy(self, size: int, seconds: float, threads: int) -> dict[str, Any]:
        """Copies blocks of `size` bytes for about `seconds` on each thread; returns the mean GB/s of a thread."""
        if len(self._blocks) != threads or self._blocks[0][0].size != size:
            self._blocks = [(np.ones(size, np.uint8), np.ones(size, np.uint8)) for _ in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            speeds = list(pool.map(lambda blocks: _copy_speed(blocks[0], blocks[1], seconds), self._blocks))
        return {"gb_per_s": statistics.mean(speeds)}


def _copy_speed(target: Any, source: Any, seconds: float) -> float:
    copied = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or not copied:
        np.copyto(target, source)  # a memcpy that does not hold the interpreter's lock
        copied += source.size
    return float(copied / elapsed / 1e9)


def _join(ranks: int, coordinator: Sequence[str]) -> int:
    """Joins JAX's distributed job of `ranks` processes and returns the rank of this process.

    Ranks whose default backend is MPI are told the address of the coordinator. Others learn it from their launcher.

    A process that is alone joins none: with `jax.distributed` stock JAX would use gloo between its devices, and without
    it XLA's own communicator, which is faster.
    """
    import jax

    from xla_shmem.bench.programs import let_cpu_broadcast

    let_cpu_broadcast()
    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
    if coordinator:
        jax.config.update("jax_cpu_collectives_implementation", "mpi")  # type: ignore[no-untyped-call]
    if cpu_collectives() == "mpi":
        # JAX creates communicators on the thread that runs the program, and requires that it is the main thread.
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]
    if coordinator:
        (address,) = coordinator
        rank = next(int(os.environ[name]) for name in _RANK_VARIABLES if name in os.environ)
        jax.distributed.initialize(address, ranks, rank)
    elif ranks > 1:
        jax.distributed.initialize()
    jax.devices()
    return jax.process_index()


def _processes() -> int:
    import jax

    return int(jax.process_count())


def main(arguments: list[str]) -> None:
    """Connects, reports its rank, and executes commands until the command `end`."""
    address, job, ranks, *coordinator = arguments
    rank = _join(int(ranks), coordinator)
    hello = {"job": job, "rank": rank, "host": socket.gethostname(), "ranks": _processes()}
    with connect(address, hello) as connection:
        commands = _Rank()
        try:
            while (name := (message := receive(connection)).pop("do")) != "end":
                send(connection, getattr(commands, name)(**message))
        except (EOFError, ConnectionError):
            # The coordinator has ended. Leaving the job in order would wait for the other ranks.
            os._exit(1)
    if cpu_collectives() == "mpi":
        # JAX finalizes MPI while XLA still holds communicators; Open MPI aborts the job then.
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
