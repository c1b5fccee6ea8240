"""Estimates of the GPU path's kernels, which no GPU has timed: blocks, bytes in flight and time, by size and members.

    python tools/kernel_estimate.py [--table | --multimem]     # --table: that of docs/gpu.md; --multimem: in the switch

The constants are read from compiled kernels (SASS) and from the sources of NCCL, NVSHMEM and MSCCL++ of 2026; none was
timed. `nccl_us` is the pass's cost model, which is fitted to NCCL's times in XLA. Needs no GPU.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from xla_shmem import _core

#: µs of a launch, of a store that another GPU answers, and of the fence and the look behind it that packets save.
LAUNCH_US, EXCHANGE_US, FENCE_US = 3.0, 2.5, 1.0
#: µs of a team of warps for one peer behind another: addresses, the range, a dependent load.
PEER_US = 0.7
#: µs of a reduction beside its bytes.
REDUCE_US = 1.0
#: µs of the counts that a kernel loads and stores: two accesses of its own memory.
COUNTS_US = 1.4
#: GB/s of a block, to another GPU or within one.
BLOCK_GB_PER_S = 45.0
#: Peers that a block of `move` (512 threads), or another one (256), serves at once: a warp for each.
WARP = 32


@dataclass(frozen=True)
class Gpu:
    """GPUs of an NVLink domain.

    Attributes:
      name: of the table.
      link_gb_per_s: of NVLink in one direction, as kernels may reach it: 400 of 450 on H100, and the same share of
        the 900 of a GB200.
      generation: of the cost model.
    """

    name: str
    link_gb_per_s: float
    generation: str


H100, GB200 = Gpu("8 H100", 400.0, "hopper"), Gpu("72 GB200", 800.0, "blackwell")


@dataclass(frozen=True)
class Estimate:
    """One collective.

    Attributes:
      form: "packets", "slots", "two-shot", "switch", or "shared" for slots that all senders to a GPU share.
      blocks, threads: of the launch.
      turns: chunks that a block moves one after another.
      in_flight: bytes that a GPU may have on their way to all peers: two chunks of each block.
      steps: peers that a team of warps serves one after another in a chunk.
      accesses: loads and stores of system scope, one behind the other, until the result of a chunk is there.
      fences: of them that wait for earlier stores.
      us: estimated time.
      nccl_us: of NCCL, by the fit to XLA's table; None without one.
    """

    form: str
    blocks: int
    threads: int
    turns: int
    in_flight: int
    steps: int
    accesses: int
    fences: int
    us: float
    nccl_us: float | None


def message_bytes(op: str, size: int, members: int) -> int:
    """Bytes of a message to a member. `size`: of the operand or the result, whichever is larger."""
    return size // members if op in ("all-gather", "reduce-scatter", "all-to-all") else size


def estimate(op: str, size: int, members: int, gpu: Gpu, multimem: bool = False) -> Estimate:
    """Estimates a collective of all GPUs of a domain.

    Args:
      op: "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-broadcast" or "collective-permute".
      size: bytes of the operand or the result, whichever is larger.
      members: GPUs.
      gpu: their kind.
      multimem: with XLA_SHMEM_GPU_REDUCE=multimem.
    """
    form = _core.kernel_form(op, message_bytes(op, size, members), members, multimem)
    peers = 1 if op == "collective-permute" else members - 1
    share = form["bytes_of_block"]
    chunk = share if form["in_packets"] else min(share, form["chunk_bytes"])
    turns = math.ceil(share / chunk)
    steps = math.ceil((members if form["in_switch"] else peers) / max(form["threads"] // WARP, 1))
    # The bytes of a chunk take the link of all blocks, and the block's own speed. Packets carry each byte twice.
    sent = peers * chunk * (2 if form["in_packets"] else 1)
    block_speed = min(BLOCK_GB_PER_S, gpu.link_gb_per_s / form["blocks"])
    send_us, take_us = _us(sent, block_speed), _us(peers * chunk, BLOCK_GB_PER_S)
    # A lane that moves sends a chunk while the one before it and its word are on their way. One that reduces takes or
    # reduces meanwhile. The last chunk overlaps with nothing.
    exchange_us = EXCHANGE_US - (FENCE_US if form["in_packets"] else 0)
    serial_us = PEER_US * steps
    reduces = op in ("all-reduce", "reduce-scatter")
    sending_us = send_us + serial_us
    turn_us = sending_us + max(exchange_us, take_us) if reduces else max(sending_us, exchange_us) + take_us
    tail_us = exchange_us + take_us + serial_us
    exchanges = 2 if form["two_shot"] else 1
    us = LAUNCH_US + COUNTS_US + exchanges * ((turns - 1) * turn_us + sending_us + tail_us)
    if form["shares_slots"]:
        us += EXCHANGE_US  # of the message without data
    if form["in_switch"]:
        us = _in_switch_us(op, chunk, turns, members, form["threads"], gpu.link_gb_per_s / form["blocks"], serial_us)
    result = size // members if op == "reduce-scatter" else size
    times = _core.expected_times(op, result, members, members, gpu.generation)
    return Estimate(
        form=_name(form),
        blocks=form["blocks"],
        threads=form["threads"],
        turns=turns,
        in_flight=min(turns, 2) * (1 if form["in_switch"] else peers) * chunk * form["blocks"],
        steps=steps,
        # A packet: its store, and the look that finds it. A word: the same and the acquire, behind the message's store.
        accesses=2 if form["in_packets"] else 3 * exchanges,
        fences=0 if form["in_packets"] else exchanges,
        us=us + (REDUCE_US if reduces else 0),
        nccl_us=None if times is None else times[1],
    )


def _name(form: _core.KernelForm) -> str:
    if form["in_switch"]:
        return "switch"
    if form["shares_slots"]:
        return "shared"
    return "packets" if form["in_packets"] else "two-shot" if form["two_shot"] else "slots"


def _in_switch_us(
    op: str, chunk: int, turns: int, members: int, threads: int, link_gb_per_s: float, serial_us: float
) -> float:
    """Estimates a kernel with the switch, but for REDUCE_US. `link_gb_per_s`: of NVLink, a block's share."""
    all_us = _us(members * chunk, BLOCK_GB_PER_S) + serial_us  # copies of all members' parts, within the GPU
    if op == "all-gather":
        # The switch brings the parts of all members while the block, which has stored its own, takes others.
        arriving_us, storing_us = _us(members * chunk, link_gb_per_s), _us(chunk, BLOCK_GB_PER_S)
        turn_us = max(EXCHANGE_US, arriving_us, storing_us + all_us)
        return LAUNCH_US + COUNTS_US + (turns - 1) * turn_us + storing_us + EXCHANGE_US + arriving_us + all_us
    # Every GPU sends what all members load of it; each thread waits for two loads of 16 bytes at once. An all-reduce
    # stores what it has loaded, which arrives at all.
    stores = op == "all-reduce"
    loading_us = math.ceil(chunk / (2 * 16 * threads)) * (EXCHANGE_US - FENCE_US)
    reducing_us = max(loading_us, _us((members + stores) * chunk, link_gb_per_s))
    turn_us = max(EXCHANGE_US, (1 + stores) * all_us) + reducing_us
    tail_us = EXCHANGE_US + reducing_us + stores * (EXCHANGE_US + all_us)
    return LAUNCH_US + COUNTS_US + all_us + (turns - 1) * turn_us + tail_us


def _us(size: float, gb_per_s: float) -> float:
    return size / (gb_per_s * 1e3)


SIZES = tuple(1 << power for power in (10, 16, 20, 24, 28))
#: Of the table: at 64 KiB the times are those of 1 KiB.
SHOWN = tuple(size for size in SIZES if size != 1 << 16)
IN_SWITCH = ("all-reduce", "all-gather", "reduce-scatter")
OPS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
DOMAINS = ((8, H100), (72, GB200))

#: What the best kernels of other libraries should take on eight H100s, µs: MSCCL++ and NCCL's NVLS, by their sources.
BEST_KNOWN = {
    ("all-reduce", 1 << 10): 6,
    ("all-reduce", 1 << 16): 9,
    ("all-reduce", 1 << 20): 16,
    ("all-reduce", 1 << 24): 65,
    ("all-reduce", 1 << 28): 1000,
    ("all-gather", 1 << 20): 12,
    ("all-gather", 1 << 24): 47,
    ("all-gather", 1 << 28): 640,
    ("reduce-scatter", 1 << 28): 640,
    ("all-to-all", 1 << 28): 640,
    ("collective-permute", 1 << 28): 730,
}


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def table() -> list[str]:
    """The lines of the table in docs/gpu.md: a cell is ours/NCCL/best known."""
    lines = ["| estimated µs | " + " | ".join(map(_size, SHOWN)) + " |", "|---" * (len(SHOWN) + 1) + "|"]
    for members, gpu in DOMAINS:
        for op in OPS:
            cells = [_cell(estimate(op, size, members, gpu), BEST_KNOWN.get((op, size)), gpu) for size in SHOWN]
            lines.append(f"| {op}, {gpu.name} | " + " | ".join(cells) + " |")
    return lines


def _cell(row: Estimate, best: int | None, gpu: Gpu) -> str:
    times = [row.us, row.nccl_us, best if gpu is H100 else None]
    return "/".join("–" if time is None else f"{time:,.0f}" for time in times)


def main(arguments: Sequence[str]) -> int:
    """Prints the rows or the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="Estimates of the GPU path's kernels.")
    parser.add_argument("--table", action="store_true", help="the table of docs/gpu.md")
    parser.add_argument("--multimem", action="store_true", help="rows of XLA_SHMEM_GPU_REDUCE=multimem")
    chosen = parser.parse_args(arguments)
    if chosen.table:
        print("\n".join(table()))
        return 0
    print("op                 members   bytes     form blocks threads turns  in-flight ", end="")
    print("steps accesses fences     us   NCCL")
    for members, gpu in DOMAINS:
        for op in IN_SWITCH if chosen.multimem else OPS:
            for size in SIZES:
                row = estimate(op, size, members, gpu, chosen.multimem)
                nccl = "-" if row.nccl_us is None else f"{row.nccl_us:.1f}"
                launch = f"{row.form:>8} {row.blocks:>6} {row.threads:>7} {row.turns:>5} {row.in_flight:>10}"
                counted = f"{row.steps:>5} {row.accesses:>8} {row.fences:>6} {row.us:>6.1f} {nccl:>6}"
                print(f"{op:<18} {members:>7} {_size(size):>7} {launch} {counted}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
