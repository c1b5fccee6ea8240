"""Event-timed speed of copies, put+signal, permutes and all-reduces between two PEs, without XLA.

Each measurement is enqueued behind a gate, which the host then opens: so it includes no time of the host. The first
transfer is not counted, since the PEs open their gates at different times. GB/s are bytes of the operand over time,
10^9 a second; a copy counts its bytes once.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from gpu_check import exchange, records
from gpu_check.world import World
from xla_shmem import _core

SIZES = records.sizes([1 << exponent for exponent in range(10, 29, 3)])  # 1 KiB to 256 MiB
_ROUNDS = 5
_MARGIN = 4096  # before the data in the symmetric memory: signal words


def repeats(size: int) -> int:
    """Returns the number of operations in one measurement."""
    return 20 if size <= 1 << 20 else 4


class Clock:
    """Times commands on this PE's stream."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._gate = world.cuda.gate()

    def seconds(self, enqueue: Callable[[], None], count: int) -> float:
        """Returns the median time of one call of `enqueue` over several rounds of `count` calls."""
        cuda, stream, times = self._world.cuda, self._world.stream, []
        for _ in range(_ROUNDS + 1):
            self._gate.shut(stream)
            enqueue()
            begin = cuda.event(stream)
            for _ in range(count):
                enqueue()
            end = cuda.event(stream)
            exchange.barrier()
            self._gate.open()
            self._world.finish()
            times.append(cuda.seconds(begin, end) / count)
        return statistics.median(times[1:])  # the first one warms up


def copy_limit(world: World, clock: Clock) -> float:
    """Returns the bytes a second of the fastest copy within PE 0's GPU, with a row for each size. Other PEs wait."""
    source, target, fastest = world.cuda.allocate(SIZES[-1]), world.cuda.allocate(SIZES[-1]), 0.0

    def copy(size: int) -> None:
        if world.pe == 0:
            world.cuda.copy(target, source, size, world.stream)

    for size in SIZES:
        each = clock.seconds(lambda size=size: copy(size), repeats(size))
        fastest = max(fastest, size / each)
        if world.pe == 0:
            row("copy within the GPU", size, each, None)
    return fastest


def row(what: str, size: int, seconds: float, limit: float | None) -> None:
    """Records one row of the table."""
    share = {} if limit is None else {"% of the copy limit": 100 * size / seconds / limit}
    times = {"µs": seconds * 1e6, "GB/s": size / seconds / 1e9}
    records.measured_row("Speed without XLA", times | share, what=what, bytes=size)


class Puts:
    """Measures put+signal between PE 0 and PE 1, in symmetric memory of this check."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._peer = 1 - world.pe
        memory = _core.gpu_symmetric(_MARGIN + SIZES[-1])
        # A word for each sender: where copies carry signals, the sender writes its own instance of the word.
        self._sent, self._arrived = memory + 8 * world.pe, memory + 8 * self._peer
        self._data = memory + _MARGIN
        self._source = world.cuda.allocate(SIZES[-1])
        self._value = 0
        world.cuda.fill(memory, 0, _MARGIN, world.stream)
        world.finish()

    def _put(self, size: int) -> None:
        _core.gpu_put_signal(self._data, self._source, size, self._sent, self._value, self._peer, self._world.stream)

    def _wait(self) -> None:
        _core.gpu_wait(self._arrived, self._value, self._world.stream)

    def round_trip(self, size: int) -> None:
        """Enqueues a put to PE 1 and one back."""
        self._value += 1
        if self._world.pe == 0:
            self._put(size)
            self._wait()
        else:
            self._wait()
            self._put(size)


def transfers(world: World, clock: Clock, limit: float) -> None:
    """Measures permutes in both forms, and all-reduces."""
    size = SIZES[-1]
    operand, result = world.cuda.allocate(size), world.cuda.allocate(size)
    group = list(range(world.n))

    def permute(size: int, whole: bool) -> None:
        operation = world.permute(world.ring(), [operand], [result], [size], whole)
        if not whole:
            world.done(operation)

    def all_reduce(size: int, whole: bool) -> None:
        operation = world.all_reduce("sum", "f32", group, operand, result, size, whole)
        if not whole:
            world.done(operation)

    for what, run in (("permute", permute), ("all-reduce", all_reduce)):
        for whole in (False, True):
            for size in SIZES:
                each = clock.seconds(lambda run=run, size=size, whole=whole: run(size, whole), repeats(size))
                if world.pe == 0:
                    row(f"{what}, {'one call' if whole else 'pair'}", size, each, limit)


def main() -> None:
    """Measures; rank 0 records."""
    world = World(symmetric=_MARGIN + SIZES[-1])
    clock = Clock(world)
    limit = copy_limit(world, clock)
    if world.n == 2:
        puts = Puts(world)
        for size in SIZES:
            each = clock.seconds(lambda size=size: puts.round_trip(size), repeats(size)) / 2
            if world.pe == 0:
                row("put + signal, one way of a round trip", size, each, limit)
    transfers(world, clock, limit)
    exchange.leave()


if __name__ == "__main__":
    main()
