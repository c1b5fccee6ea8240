"""Runs jobs whose ranks are forks of this process, which has imported JAX but has no backend yet.

`warm_start.py` starts it, with a socket as its stdin. A request has the descriptors of the job's output and of its
results folder. The answers are the launcher's process id and, later, its exit code. At the end of the socket it ends.

A rank gets what `subprocess.Popen` and a new Python would give it, but all have one seed for the hashes of strings and
one layout of addresses, unlike ranks that start cold.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: Variables that JAX reads at its import, but whose options may change until the first backend.
SET_LATER: dict[str, Callable[[str], object]] = {
    "JAX_PLATFORMS": str,
    "JAX_ENABLE_X64": lambda text: bool(int(text)),
    "JAX_NUM_CPU_DEVICES": int,
}


class _ForkedRank:
    """What the launcher uses of `subprocess.Popen`; the process is a fork of this one."""

    #: Descriptor of the results folder. A process of the job is known by it (`job_runs.processes_of`).
    mark: int

    #: Variables that the import of JAX sets if they are not set.
    set_by_jax: dict[str, str]

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        bufsize: int,
        process_group: int,
    ) -> None:
        streams = (subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE)
        assert (stdin, stdout, stderr, bufsize, process_group) == (*streams, 0, 0)
        self.returncode: int | None = None
        (out, out_of_rank), (errors, errors_of_rank) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            _set_streams(out_of_rank, errors_of_rank)
            _close_all_but({0, 1, 2, self.mark, *pass_fds})
            self.job = _file_that_names(env["XLA_SHMEM_JOB"])
            _end_like_python(lambda: _run_program(command, env))
        with contextlib.suppress(OSError):  # the rank has ended, or has done it itself
            os.setpgid(self.pid, self.pid)
        os.close(out_of_rank)
        os.close(errors_of_rank)
        self.stdout, self.stderr = (os.fdopen(source, "rb", buffering=0) for source in (out, errors))

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        return self._wait(0)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _set_streams(out: int, errors: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number, source in enumerate((null, out, errors)):
        os.dup2(source, number)
    os.close(null)


def _close_all_but(kept: set[int]) -> None:
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in kept:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(number)


def _set_environment(environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)


def _import_jax() -> dict[str, str]:
    """Returns the variables that the import sets."""
    before = dict(os.environ)
    import jax

    assert not jax._src.xla_bridge.backends_are_initialized()
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"a fork would lose all but one of {threads} threads"
    return {name: value for name, value in os.environ.items() if before.get(name) != value}


def _file_that_names(job: str) -> mmap.mmap:
    """Maps a file with the job's key in its name, since /proc/PID/environ of a fork stays that of this server."""
    file = os.memfd_create(f"XLA_SHMEM_JOB={job}")
    try:
        os.truncate(file, mmap.PAGESIZE)
        return mmap.mmap(file, mmap.PAGESIZE)
    finally:
        os.close(file)


def _run_program(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Does what `python program arguments` does, in this process."""
    import jax

    for file in (__file__, sys.modules["xla_shmem.launch.launcher"].__file__):
        # Frames below the program's; XLA's source lines would have them.
        jax._src.source_info_util.register_exclusion(file)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):  # handlers of the launcher
        signal.signal(number, signal.SIG_DFL)
    _set_environment(_ForkedRank.set_by_jax | dict(environ))
    for name, read in SET_LATER.items():
        if name in environ:
            jax.config.update(name.lower(), read(environ[name]))
    for name in [name for name in sys.modules if name.partition(".")[0] == "xla_shmem"]:
        del sys.modules[name]  # the launcher's; the rank imports the package itself
    _, program, *_ = sys.argv = list(command)
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.realpath(program))
    module = types.ModuleType("__main__")
    module.__file__ = program
    sys.modules["__main__"] = module
    exec(compile(Path(program).read_bytes(), program, "exec"), module.__dict__)


def _end_like_python(run: Callable[[], None]) -> None:
    """Ends this process as Python ends after `run`, the program, with its exit code."""
    code = 0
    try:
        run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        of_program = error.__traceback__
        for _ in range(3):  # frames of this file
            of_program = of_program.tb_next if of_program and of_program.tb_next else of_program
        sys.excepthook(type(error), error.with_traceback(of_program), of_program)
        code = 1
        if isinstance(error, KeyboardInterrupt):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    ctypes.pythonapi.Py_Exit(code)


def _launch(request: Mapping[str, Any], output: int, results: int) -> None:
    """Runs a job as `xla-shmem launch` does, and ends this process with its exit code."""
    code = 1
    try:
        os.chdir(request["folder"])
        _set_environment(request["environ"])
        _set_streams(output, output)
        _close_all_but({0, 1, 2, results})
        _ForkedRank.mark = results
        from xla_shmem.launch import launcher

        launcher.subprocess = types.SimpleNamespace(  # type: ignore[assignment, attr-defined]
            Popen=_ForkedRank, DEVNULL=subprocess.DEVNULL, PIPE=subprocess.PIPE
        )
        code = launcher.launch(
            request["command"], request["ranks"], devices_per_process=request["devices"], grace=request["grace"]
        )
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(code)


def main() -> None:
    requests = socket.socket(fileno=os.dup(0))
    interrupts = signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ForkedRank.set_by_jax = _import_jax()
    gc.collect()
    gc.freeze()
    while True:
        text, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 2)
        if not text:
            os._exit(0)  # at once: the end of pytest waits for it
        launcher = os.fork()
        if launcher == 0:
            requests.close()
            signal.signal(signal.SIGINT, interrupts)
            _launch(json.loads(text), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        requests.send(b"%d" % launcher)
        requests.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1]))


if __name__ == "__main__":
    main()
