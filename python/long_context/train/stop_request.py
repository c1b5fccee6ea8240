"""Stops a job in order: after a signal to any process, all processes stop at the same step."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType

from jax.experimental import multihost_utils


class StopRequest:
    """A context in which Ctrl-C and SIGTERM request a stop after a step instead of killing the job.

    JAX's preemption service makes the processes of a job agree on the step. It handles SIGTERM, so SIGINT is forwarded
    as SIGTERM. In a job of one process the request is only recorded.

    Args:
      distributed: whether `jax.distributed` is initialised.
    """

    def __init__(self, distributed: bool) -> None:
        self._distributed = distributed
        self._requested = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopRequest:
        if self._distributed:
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, _forward_as_sigterm)
        else:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def after(self, steps: int) -> bool:
        """Whether to stop after this number of steps. All processes must call this after every step."""
        return self._requested or multihost_utils.reached_preemption_sync_point(steps)

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt  # the second signal stops at once
        self._requested = True


def _forward_as_sigterm(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the second Ctrl-C stops at once
    os.kill(os.getpid(), signal.SIGTERM)
