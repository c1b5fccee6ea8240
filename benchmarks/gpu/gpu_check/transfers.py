"""Transfers on streams of this check, without XLA: values, stream order, many in flight, replay in CUDA graphs.

python -m gpu_check.ranks --ranks=N --gpus=G -- gpu_check.transfers [--puts=driver|nvshmem]
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable

import numpy as np

from gpu_check import compute, exchange, records
from gpu_check.kernels import TYPES
from gpu_check.world import World
from xla_shmem import _core

#: Bytes of permutes: a word, less than a slot, several slots and a ragged end.
_SIZES = (16, 4096 + 16, 1 << 20, (33 << 20) + 48)
#: Elements of all-reduces: one-shot, two-shot, several chunks.
_ELEMENTS = (5, 40_000, 3_000_001)

#: Single puts: bytes, how many, and bytes of signal words before them.
_PUT, _PUTS, _WORDS = (1 << 20) + 16, 20, 4096


def pattern(pe: int, size: int, seed: int = 0) -> np.ndarray:
    """Returns bytes that differ by PE and seed and are equal in every process."""
    return np.frombuffer(np.random.default_rng((pe, size, seed)).bytes(size), np.uint8)


def _bytes_equal(world: World, name: str, address: int, want: np.ndarray) -> None:
    got = world.cuda.download(address, want.size, np.uint8)
    wrong = int((got != want).sum())
    at = int(np.flatnonzero(got != want)[0]) if wrong else 0
    records.check(name, not wrong, f"{wrong} of {want.size} bytes wrong, first at {at}" if wrong else "")


def put_and_signal(world: World) -> None:
    """Twenty puts with their signals to the next PE; with one PE, to itself."""
    size, rounds, words = _PUT, _PUTS, _WORDS
    memory = _core.gpu_symmetric(words + size * rounds)
    world.cuda.fill(memory, 0, words, world.stream)
    world.finish()
    source, target = world.ring()
    # A word for each sender: where copies carry signals, the sender writes its own instance of the word.
    for number in range(rounds):
        operand = world.cuda.upload(pattern(world.pe, size, number))
        place = memory + words + number * size
        _core.gpu_put_signal(place, operand, size, memory + 8 * world.pe, number + 1, target, world.stream)
    _core.gpu_wait(memory + 8 * source, rounds, world.stream)
    seen = world.cuda.allocate(size * rounds)
    world.cuda.copy(seen, memory + words, size * rounds, world.stream)
    world.finish()
    want = np.concatenate([pattern(source, size, number) for number in range(rounds)])
    _bytes_equal(world, "data is there when its signal is", seen, want)


def permutes(world: World) -> None:
    """Rings of all sizes, as a pair and as one call, into another buffer and in place; an open chain."""
    source, target = world.ring()
    for size in _SIZES:
        own, want = pattern(world.pe, size), pattern(source, size)
        for whole in (False, True):
            for in_place in (False, True):
                operand = world.cuda.upload(own)
                result = operand if in_place else world.cuda.upload(np.zeros(size, np.uint8))
                operation = world.permute((source, target), [operand], [result], [size], whole)
                if not whole:
                    world.done(operation)
                world.finish()
                form = ("one call" if whole else "pair") + (", in place" if in_place else "")
                _bytes_equal(world, f"ring of {size} bytes, {form}", result, want)
    chain = (world.pe - 1, world.pe + 1 if world.pe + 1 < world.n else -1)
    operand, result = world.cuda.upload(pattern(world.pe, 4096)), world.cuda.upload(np.ones(4096, np.uint8))
    world.done(world.permute(chain, [operand], [result], [4096]))
    world.finish()
    want = pattern(world.pe - 1, 4096) if world.pe else np.zeros(4096, np.uint8)
    _bytes_equal(world, "open chain, zeros at its head", result, want)


def all_reduces(world: World) -> None:
    """Sums and maxima over all PEs and over every second one, in both forms, with equal bits on all PEs."""
    groups = [list(range(world.n))]
    if world.n >= 4:
        groups.append(list(range(world.pe % 2, world.n, 2)))
    for group in groups:
        for type_name, kind in (("f32", "sum"), ("bf16", "max"), ("s32", "sum")):
            dtype = np.dtype(TYPES[type_name])
            for elements in _ELEMENTS:
                terms = [np.random.default_rng((pe, elements)).integers(-99, 99, elements) for pe in group]
                total = np.sum(terms, 0) if kind == "sum" else np.max(terms, 0)
                operand = world.cuda.upload(terms[group.index(world.pe)].astype(dtype))
                result = world.cuda.allocate(elements * dtype.itemsize)
                for whole in (False, True):
                    size = elements * dtype.itemsize
                    operation = world.all_reduce(kind, type_name, group, operand, result, size, whole)
                    if not whole:
                        world.done(operation)
                    world.finish()
                    got = world.cuda.download(result, elements, dtype)
                    name = f"{type_name} {kind} of {elements}, {len(group)} PEs, " + ("one call" if whole else "pair")
                    records.check(name, bool((got == total.astype(dtype)).all()))
                    if len(group) == world.n:
                        records.same(name, hashlib.sha256(got.tobytes()).hexdigest())


def stream_order(world: World) -> None:
    """A slow kernel and a new source before each start; a read of the result and a write to the source after each done.
    No host waits in between, so only the order of the streams keeps the values apart."""
    size, rounds = 8 << 20, 12
    delay = compute.Compute(world.cuda)
    source = world.cuda.allocate(size)
    result, seen = world.cuda.allocate(size), world.cuda.allocate(size * rounds)
    for number in range(rounds):
        delay.enqueue(world.stream, delay.turns_of(0.0005))
        world.cuda.fill(source, 16 * world.pe + number, size, world.stream)
        operation = world.permute(world.ring(), [source], [result], [size])
        if number % 2:
            delay.enqueue(world.stream, delay.turns_of(0.0005))
        world.done(operation)
        world.cuda.copy(seen + number * size, result, size, world.stream)
        world.cuda.fill(source, 255, size, world.stream)
    world.finish()
    got = world.cuda.download(seen, (rounds, size), np.uint8)
    want = 16 * world.ring()[0] + np.arange(rounds)
    wrong = [number for number in range(rounds) if (got[number] != want[number]).any()]
    records.check(
        "a start sends what was written before, a done waits for what is read after",
        not wrong,
        f"rounds {wrong}",
    )


def many_in_flight(world: World) -> None:
    """Thirty starts before the first done; the dones are in reverse order."""
    size, count = 1 << 20, 30
    operands = [world.cuda.upload(pattern(world.pe, size, number)) for number in range(count)]
    results = [world.cuda.allocate(size) for _ in range(count)]
    pairs = zip(operands, results, strict=True)
    started = [world.permute(world.ring(), [operand], [result], [size]) for operand, result in pairs]
    for operation in reversed(started):
        world.done(operation)
    world.finish()
    wrong = [
        number
        for number, result in enumerate(results)
        if (world.cuda.download(result, size, np.uint8) != pattern(world.ring()[0], size, number)).any()
    ]
    records.check("thirty permutes in flight", not wrong, f"wrong: {wrong}" if wrong else "")


def graphs(world: World) -> None:
    """A permute and an all-reduce captured into a graph, which runs ten times on changing operands."""
    size, elements, rounds = 6 << 20, 300_000, 10
    operand, result = world.cuda.allocate(size), world.cuda.allocate(size)
    term, total = world.cuda.allocate(4 * elements), world.cuda.allocate(4 * elements)
    with world.cuda.capture(world.stream) as graph:
        world.permute(world.ring(), [operand], [result], [size], whole=True)
        world.all_reduce("sum", "s32", range(world.n), term, total, 4 * elements, whole=True)
    wrong = []
    for number in range(rounds):
        world.cuda.upload(pattern(world.pe, size, number), operand)
        world.cuda.upload(np.full(elements, 100 * world.pe + number, np.int32), term)
        graph.launch(world.stream)
        if number % 3:  # now and then two launches without the host in between
            graph.launch(world.stream)
        world.finish()
        moved = world.cuda.download(result, size, np.uint8)
        summed = world.cuda.download(total, elements, np.int32)
        sum_wanted = sum(100 * pe + number for pe in range(world.n))
        if (moved != pattern(world.ring()[0], size, number)).any() or (summed != sum_wanted).any():
            wrong.append(number)
    records.check("a captured graph, launched ten times", not wrong, f"wrong launches: {wrong}" if wrong else "")


def refused_capture(world: World) -> None:
    """The capture of an overlapping pair must be an error, not hang."""
    size = 4096
    operand, result = world.cuda.upload(pattern(world.pe, size)), world.cuda.allocate(size)
    stream, said = world.cuda.stream(), ""
    with world.cuda.capture(stream):
        try:
            world.permute(world.ring(), [operand], [result], [size], stream=stream)
        except RuntimeError as error:
            said = str(error)
    records.check("an overlapping pair refuses to be captured", "CUDA graph" in said, said)


def main() -> None:
    """Runs all parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--puts", choices=("driver", "nvshmem"), default="driver")
    world = World(parser.parse_args().puts, symmetric=_WORDS + _PUTS * _PUT)
    parts: list[Callable[[World], None]] = [permutes, all_reduces, stream_order, many_in_flight, put_and_signal, graphs]
    for part in [*parts, refused_capture]:
        part(world)
        print(f"{part.__name__}: done", flush=True)
    exchange.leave()


if __name__ == "__main__":
    main()
