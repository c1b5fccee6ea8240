"""The end of a process of a job, and what it tells the others.

JAX ends a process in this order: exit handlers of the program, then JAX's own, which destroys the backends and waits
for all processes in a barrier. A process that has come so far begins no further collective, so the others must not wait
for it. It says so before the barrier, and not earlier: runs that were dispatched last may still need it.

The barrier waits in vain for a process that has exited or is stopped: after about 100 s JAX aborts all others. Then a
process leaves without the barrier. Process 0 has JAX's coordination service, without which JAX aborts the others, so it
first waits for those that still run.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
import threading
import time
from types import FrameType
from typing import Any

import jax
import numpy as np
from jax._src import distributed

from xla_shmem import _core
from xla_shmem.launch.first_end import tell_launcher

# As long as JAX's barrier waits.
_PATIENCE_S = 300.0


class JobEnd:
    """Accompanies this process to its end. Create one in a process, after `_core.create_segment`."""

    def __init__(self) -> None:
        self._one_host = False
        self._pid = os.getpid()
        self._exiting = False
        self._questions = threading.Thread(target=_answer_questions, name="xla_shmem questions", daemon=True)
        state: Any = distributed.global_state
        self._shut_down_jax = state.shutdown
        state.shutdown = self._leave
        # Handlers run last in, first out: this one before JAX's.
        atexit.register(self._begin)

    def connected(self, *, one_host: bool) -> None:
        """Takes part in the job from now on: other processes may ask what this one does.

        Args:
          one_host: whether all processes of the job are on this host, so that the state of each is known.
        """
        self._one_host = one_host
        self._questions.start()

    def _begin(self) -> None:
        if os.getpid() != self._pid:
            return  # of a forked child
        self._exiting = True
        _core.begin_end()
        tell_launcher(os.environ)
        _core.stop_questions()
        if self._questions.ident is not None:
            self._questions.join()
        if _core.connected() and not _core.failure():
            with contextlib.suppress(Exception):  # a run that fails now has been reported, or nobody asked for it
                _wait_for_runs()

    def _leave(self) -> None:
        """Takes the place of `shutdown` of JAX's distributed state."""
        if self._exiting:
            _core.mark_at_end()
            if self._one_host and _any_lost():
                _leave_without_barrier()
        self._shut_down_jax()


def _any_lost() -> bool:
    return _core.count_peers()[2] > 0


def _leave_without_barrier() -> None:
    state: Any = distributed.global_state
    if state.service is not None:
        give_up = time.monotonic() + _PATIENCE_S
        while _core.count_peers()[0] and time.monotonic() < give_up:
            time.sleep(0.05)
        time.sleep(0.2)  # the others let go of the service
    for held in (state.client, state.service):
        # The reference is never released, because their destructors wait too.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
    state.client = state.service = None


def _wait_for_runs() -> None:
    """Waits for all runs that have been dispatched.

    XLA:CPU runs the programs of a process one after the other, so a program on all devices comes behind them all.
    """
    untyped: Any = jax
    devices = np.array(jax.local_devices(backend="cpu"))
    sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(devices, "i"), untyped.P("i"))
    last = jax.jit(lambda x: x + 1, out_shardings=sharding)(jax.device_put(np.zeros(len(devices)), sharding))
    untyped.block_until_ready(last)


def _answer_questions() -> None:
    while question := _core.await_question():
        _core.answer(question, _what_main_thread_does())


def _what_main_thread_does() -> str:
    """Returns what the main thread does, as a text that follows "it"."""
    innermost = sys._current_frames().get(threading.main_thread().ident or 0)
    compiles = False
    jax_folder = os.path.dirname(jax.__file__) + os.sep
    frame: FrameType | None = innermost
    while frame is not None and frame.f_code.co_filename.startswith(jax_folder):
        compiles |= frame.f_code.co_filename.endswith(os.path.join("_src", "compiler.py"))
        frame = frame.f_back
    shown = frame or innermost
    if shown is None:
        return "runs no Python"
    place = f"{shown.f_code.co_filename}:{shown.f_lineno} in {shown.f_code.co_name}"
    return f"compiles a program for {place}" if compiles else f"runs Python at {place}"
