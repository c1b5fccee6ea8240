"""Stopping a job in good order: a signal to any process reaches all of them at the same step."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType

from jax.experimental import multihost_utils


class StopRequest:
    """While it is entered, Ctrl-C and SIGTERM ask for the end of the job after a step instead of tearing it down.

    JAX's preemption service makes the processes of a job agree on the step. It listens to SIGTERM, so SIGINT is passed
    on as that; in a job of one process the request is only noted.

    Args:
      distributed: whether `jax.distributed` is initialised.
    """

    def __init__(self, distributed: bool) -> None:
        self._distributed = distributed
        self._asked = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopRequest:
        if self._distributed:
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, _pass_on)
        else:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def after(self, steps: int) -> bool:
        """Whether the job is to stop after so many steps; to be asked by all processes after every step."""
        return self._asked or multihost_utils.reached_preemption_sync_point(steps)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt  # asked twice
        self._asked = True


def _pass_on(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # asked twice means at once
    os.kill(os.getpid(), signal.SIGTERM)
