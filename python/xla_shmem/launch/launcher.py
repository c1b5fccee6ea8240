"""Runs a program as several local ranks and stops all of them when one fails.

Each rank leads its own process group, so that its children end with it. At the end of the job, the shared memory of
its job key is always unlinked; :mod:`xla_shmem.launch.guard` does it if this process is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from xla_shmem.gpu.chosen_gpus import local_gpu_count
from xla_shmem.launch.first_end import FirstEnd
from xla_shmem.launch.guard import JobGuard
from xla_shmem.launch.huge_pages import huge_page_variables
from xla_shmem.launch.processor_shares import processor_shares
from xla_shmem.launch.rank_environment import platform_note, rank_environment, reserve_port
from xla_shmem.launch.rank_output import RankOutput, rank_prefix
from xla_shmem.launch.segments import unlink_job_segments
from xla_shmem.launch.shared_buffers import shared_buffer_variables

#: Seconds between the first signal to the ranks and SIGKILL.
GRACE = 5.0

# Seconds that ranks get to exit which had come to their end before the first that failed. JAX lets all exit at once.
_ORDER_TIME = 2.0

#: Beginning of each line that the launcher itself prints.
SAYS = "xla-shmem launch: "

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(f"{SAYS}{text}", file=sys.stderr, flush=True)


@dataclass
class _Rank:
    index: int
    process: subprocess.Popen[bytes]
    group_alive: bool = True

    def signal_group(self, number: int) -> None:
        """Signals the rank's process group; number 0 only checks whether a process of it is left."""
        if not self.group_alive:
            return
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            self.group_alive = False

    def reap_orphans(self) -> None:
        """Reaps grandchildren that became our children when their rank ended."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-self.process.pid, os.WNOHANG)[0]:
                pass

    @property
    def running(self) -> bool:
        return self.process.poll() is None


class _Job:
    def __init__(self, num_ranks: int, grace: float, prefix: bool) -> None:
        self._num_ranks = num_ranks
        self._grace = grace
        self._prefix = prefix
        self._ranks: list[_Rank] = []
        self._selector = selectors.DefaultSelector()
        self._exit_code: int | None = None  # of the first failure or signal
        self._ends = FirstEnd()
        self._failed: dict[int, int] = {}  # ranks that failed: how many had come to their end before
        self._blame_at = float("inf")
        self._kill_at: float | None = None
        self._leave_at = float("inf")
        self._seen_exits: set[int] = set()
        self._signals: list[int] = []

    def start(
        self,
        command: Sequence[str],
        environments: Sequence[Mapping[str, str]],
        guard: JobGuard,
        processors: Sequence[set[int]] | None,
    ) -> None:
        for index, environment in enumerate(environments):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**environment, **self._ends.environment()},
                pass_fds=(self._ends.write_end,),
                bufsize=0,
                process_group=0,
            )
            guard.watch(process.pid)
            if processors is not None:
                with contextlib.suppress(ProcessLookupError):  # the rank has already ended
                    os.sched_setaffinity(process.pid, processors[index])
            self._ranks.append(_Rank(index, process))
            for source, sink in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
                assert source is not None
                colour = sink.isatty() and not os.environ.get("NO_COLOR")
                prefix = rank_prefix(index, self._num_ranks, colour=colour) if self._prefix else b""
                output = RankOutput(source.fileno(), sink.buffer, prefix)
                self._selector.register(source, selectors.EVENT_READ, output)

    def run(self, wakeup: int) -> int:
        """Forwards output until every process of every rank has ended; returns the exit code."""
        self._selector.register(wakeup, selectors.EVENT_READ, None)
        while True:
            self._take_signals()
            self._take_exits()
            if not any(rank.running for rank in self._ranks):
                self._stop(signal.SIGTERM, self._grace)  # children of ranks that have ended
                if not self._anything_left() or time.monotonic() >= self._leave_at:
                    break
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill()
            for key, _ in self._selector.select(self._timeout()):
                if key.data is None:
                    os.read(wakeup, 4096)
                else:
                    self._forward(key)
        self._forward_rest()
        return self._exit_code or 0

    def end(self) -> None:
        """Kills processes that are left, if :meth:`run` did not come to its end."""
        for rank in self._ranks:
            rank.signal_group(signal.SIGKILL)
            rank.process.wait()
        self._ends.close()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _take_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if self._exit_code is None:
                self._exit_code = 128 + number
                _say(f"{signal.Signals(number).name}; stopping the ranks.")
                self._stop(number, self._grace)
            else:
                self._kill_at = time.monotonic()  # a second signal: no more grace

    def _take_exits(self) -> None:
        for rank in self._ranks:
            if rank.index in self._seen_exits or rank.running:
                continue
            self._seen_exits.add(rank.index)
            if rank.process.returncode == 0 or self._exit_code is not None:
                continue
            order = self._ends.order()
            if not self._failed:
                self._blame_at = time.monotonic() + _ORDER_TIME
            self._failed[rank.index] = order.index(rank.index) if rank.index in order else len(order)
        if self._failed and self._exit_code is None:
            self._blame_first()

    def _blame_first(self) -> None:
        """Takes the exit code of the failed rank that came to its end first, and stops the others."""
        first = min(self._failed, key=lambda index: self._failed[index])
        earlier = self._ends.order()[: self._failed[first]]
        if any(self._ranks[index].running for index in earlier) and time.monotonic() < self._blame_at:
            return
        code = self._ranks[first].process.returncode
        self._exit_code = 128 - code if code < 0 else code
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        later = ", ".join(str(index) for index in sorted(set(self._failed) - {first}))
        after = f", before rank {later}" if later else ""
        others = "; stopping the others" if any(other.running for other in self._ranks) else ""
        _say(f"rank {first} {how}{after}{others}.")
        # The others wait for the rank that has ended, so a longer grace would not help.
        self._stop(signal.SIGTERM, min(self._grace, GRACE))

    def _stop(self, number: int, grace: float) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + grace
            for rank in self._ranks:
                rank.signal_group(number)

    def _kill(self) -> None:
        slow = [str(rank.index) for rank in self._ranks if rank.running]
        if slow:
            _say(f"rank {', '.join(slow)} did not stop in time; sending SIGKILL.")
        for rank in self._ranks:
            rank.signal_group(signal.SIGKILL)
        self._kill_at = float("inf")
        self._leave_at = time.monotonic() + 1.0  # a zombie that is never reaped would count as left for ever

    def _anything_left(self) -> bool:
        for rank in self._ranks:
            rank.reap_orphans()
            rank.signal_group(0)
        return any(rank.group_alive for rank in self._ranks)

    def _timeout(self) -> float | None:
        if self._kill_at is None:
            return None if self._exit_code is not None or not self._failed else 0.02
        # Grandchildren send us no SIGCHLD, so poll at short intervals while stopping.
        return max(0.0, min(0.02, self._kill_at - time.monotonic()))

    def _forward(self, key: selectors.SelectorKey) -> None:
        try:
            more = key.data.forward()
        except BrokenPipeError:
            more = False
            if self._exit_code is None:
                self._exit_code = 128 + signal.SIGPIPE
                self._stop(signal.SIGTERM, self._grace)
        if not more:
            self._selector.unregister(key.fileobj)

    def _forward_rest(self) -> None:
        """Forwards what is in the pipes, without waiting: a process that left its group may hold them open."""
        for key in list(self._selector.get_map().values()):
            if key.data is None:
                continue
            while key.fd in self._selector.get_map() and self._selector.select(0) and _readable(key.fd):
                self._forward(key)


def _readable(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _adopt_orphans() -> None:
    """Makes orphaned grandchildren our children, because in containers init may be slow to reap them, or missing."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


@contextlib.contextmanager
def _signals_to(job: _Job) -> Iterator[int]:
    """Routes signals to the job, SIGCHLD too; yields the descriptor that wakes its loop."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    old_wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    old = {number: signal.signal(number, job.on_signal) for number in _FORWARDED}
    old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
    try:
        yield read_end
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(old_wakeup)
        os.close(read_end)
        os.close(write_end)


def launch(
    command: Sequence[str],
    num_ranks: int,
    *,
    devices_per_process: int | None = None,
    prefix: bool = True,
    grace: float = GRACE,
    bind: bool = False,
) -> int:
    """Runs ``command`` as ``num_ranks`` local ranks and returns the exit code of the job.

    Args:
      command: program and arguments.
      num_ranks: number of processes, at least 1.
      devices_per_process: devices of each rank; see :func:`xla_shmem.launch.rank_environment.rank_environment`.
      prefix: print ``[rank] `` before each line of output.
      grace: seconds between the first signal and SIGKILL when the ranks are stopped; at most `GRACE` after a rank has
        failed.
      bind: give each rank processors of its own.

    Returns:
      0 if all ranks returned 0. Otherwise the code of the first rank that failed, or 128 plus the number of the
      signal that killed that rank or reached this process.

    Raises:
      OSError: the program cannot be started (not found, not executable).
      ValueError: ``bind`` with more ranks than processors.
    """
    shares = processor_shares(num_ranks) if bind else None
    job_key = secrets.token_hex(16)
    environ = {**os.environ, **huge_page_variables(os.environ)}
    if note := platform_note(environ, num_ranks * (devices_per_process or 1), local_gpu_count()):
        _say(note)
        environ["JAX_PLATFORMS"] = "cpu"
    environ |= shared_buffer_variables(environ)
    holder, port = reserve_port()
    environments = [
        rank_environment(
            environ,
            rank=rank,
            num_ranks=num_ranks,
            devices_per_process=devices_per_process,
            port=port,
            job=job_key,
        )
        for rank in range(num_ranks)
    ]
    guard = JobGuard(job_key)
    _adopt_orphans()
    job = _Job(num_ranks, grace, prefix)
    with holder, _signals_to(job) as wakeup:
        try:
            job.start(command, environments, guard, shares)
            return job.run(wakeup)
        finally:
            job.end()
            unlink_job_segments(job_key)
            guard.dismiss()
