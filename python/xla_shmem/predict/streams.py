"""Simulates compute and communication that run at the same time."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Hashable

from xla_shmem.predict.transfers import Transfer

#: Seconds below which a remainder is rounding.
_NOTHING = 1e-15


@dataclasses.dataclass(frozen=True)
class Times:
    """Times in seconds.

    Attributes:
      compute: time of kernels at their full speed.
      slowed: additional time of kernels because transfers occupied SMs.
      exposed: time without compute, waiting for a transfer.
      transfers: sum of the times of all transfers, overlapped or not.
    """

    compute: float = 0.0
    slowed: float = 0.0
    exposed: float = 0.0
    transfers: float = 0.0

    @property
    def step(self) -> float:
        """Time from beginning to end."""
        return self.compute + self.slowed + self.exposed

    def __add__(self, other: Times) -> Times:
        return Times(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))

    def __mul__(self, count: float) -> Times:
        return Times(*(part * count for part in dataclasses.astuple(self)))


@dataclasses.dataclass
class _Flight:
    transfer: Transfer
    left: float


class Streams:
    """One stream of kernels and one stream of transfers per backend, as in XLA.

    The transfers of a backend run one after the other. Transfers of two backends share the link; if they need more than
    its bandwidth, both are slower in proportion. A kernel that overlaps with a transfer has the remaining SMs.
    """

    def __init__(self, sms: int) -> None:
        """Args: sms: streaming multiprocessors of the GPU."""
        self._sms = sms
        self._queues: dict[Hashable, deque[_Flight]] = {}
        self._flights: dict[str, _Flight] = {}
        self.times = Times()

    @property
    def idle(self) -> bool:
        """Whether no transfer is in flight."""
        return not any(self._queues.values())

    def start(self, name: str, stream: Hashable, transfer: Transfer) -> None:
        """Enqueues a transfer behind those of its stream."""
        flight = _Flight(transfer, transfer.seconds)
        self._queues.setdefault(stream, deque()).append(flight)
        self._flights[name] = flight
        self.times += Times(transfers=transfer.seconds)

    def wait(self, name: str) -> None:
        """Advances time to the end of a started transfer."""
        flight = self._flights.pop(name)
        while flight.left > 0:
            _, slow = self._rates()
            passed = self._next_end(slow)
            self._carry(passed, slow)
            self.times += Times(exposed=passed)

    def compute(self, seconds: float) -> None:
        """Advances time to the end of a kernel that takes `seconds` alone."""
        left = seconds
        while left > _NOTHING:
            rate, slow = self._rates()
            passed = min(left / rate, self._next_end(slow))
            self._carry(passed, slow)
            left -= passed * rate
            self.times += Times(compute=passed * rate, slowed=passed * (1 - rate))

    def skip(self, times: Times) -> None:
        """Adds the times of a part that starts and ends without a transfer in flight."""
        self.times += times

    def _rates(self) -> tuple[float, float]:
        """Relative speed of kernels, and factor on the time of transfers, with the transfers now in flight."""
        first = [queue[0].transfer for queue in self._queues.values() if queue]
        free = max(1 - sum(each.sms for each in first) / self._sms, 1 / self._sms)
        return free, max(1.0, sum(each.link for each in first))

    def _next_end(self, slow: float) -> float:
        return min((queue[0].left * slow for queue in self._queues.values() if queue), default=float("inf"))

    def _carry(self, passed: float, slow: float) -> None:
        for queue in self._queues.values():
            if queue:
                queue[0].left -= passed / slow
                if queue[0].left <= _NOTHING:
                    queue.popleft().left = 0.0
