"""The share of a permute that overlaps with compute of equal duration, by events on a stream in the place of XLA's.

Three times are measured: the transfer alone (start, done), the compute alone, and the compute between start and done.
The hidden share is (transfer + compute - both) / min(transfer, compute). With one PE the transfer is a copy to itself.
If PEs share a GPU, only PE 0 computes; the GPU then time-slices their contexts, so the result says little about
separate GPUs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from gpu_check import exchange, records
from gpu_check.compute import Compute
from gpu_check.world import World

_SIZES = records.sizes((16 << 20, 64 << 20, 256 << 20))
_ROUNDS = 7
_BAR = 80.0  # per cent


def seconds(world: World, enqueue: Callable[[], None]) -> float:
    """Returns the median time of the commands that `enqueue` enqueues."""
    times = []
    for _ in range(_ROUNDS + 1):
        exchange.barrier()
        begin = world.cuda.event(world.stream)
        enqueue()
        end = world.cuda.event(world.stream)
        world.finish()
        times.append(world.cuda.seconds(begin, end))
    return statistics.median(times[1:])


def main() -> None:
    """Measures; PE 0 records."""
    world = World()
    compute = Compute(world.cuda)
    computes = world.pe == 0 or not world.shared
    operand, result = world.cuda.allocate(_SIZES[-1]), world.cuda.allocate(_SIZES[-1])
    for size in _SIZES:

        def start(size: int = size) -> int:
            return world.permute(world.ring(), [operand], [result], [size])

        def busy(turns: int) -> None:
            if computes:
                compute.enqueue(world.stream, turns)

        def both(turns: int, start: Callable[[], int] = start) -> None:
            operation = start()
            busy(turns)
            world.done(operation)

        transfer = seconds(world, lambda start=start: world.done(start()))
        turns = compute.turns_of(transfer)
        alone = seconds(world, lambda turns=turns: busy(turns))
        together = seconds(world, lambda turns=turns, both=both: both(turns))
        if world.pe == 0:
            hidden = 100 * (transfer + alone - together) / min(transfer, alone)
            times = {
                "transfer µs": transfer * 1e6,
                "compute µs": alone * 1e6,
                "both µs": together * 1e6,
                "hidden %": hidden,
                f"≥ {_BAR:.0f} %": "yes" if hidden >= _BAR else "no",
            }
            shared = {"shared GPU": "yes" if world.shared else "no"}
            records.measured_row("Overlap", times, PEs=world.n, **shared, bytes=size)
    exchange.leave()


if __name__ == "__main__":
    main()
