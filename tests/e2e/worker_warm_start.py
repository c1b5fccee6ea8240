"""Reports what a rank is given, and ends in the way that the first argument names."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from pathlib import Path

import jax
from job_runs import processes_of, report

RANKS = int(os.environ["OMPI_COMM_WORLD_SIZE"])


def _stat(*names: str) -> dict[str, str]:
    lines = (line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: value.strip() for name, value in lines if name in names}


def _ignored() -> list[int]:
    """The ignored signals, but for 32 and 33: glibc handles them when a process starts threads."""
    mask = int(_stat("SigIgn")["SigIgn"], 16)
    return [number for number in range(1, 65) if mask >> (number - 1) & 1 and number not in (32, 33)]


def _descriptors() -> list[str]:
    """What is open, but for the two files by which a fork is known."""
    found = []
    for number in sorted(os.listdir("/proc/self/fd"), key=int):
        with_target = Path(f"/proc/self/fd/{number}")
        if with_target.exists():
            target = os.readlink(with_target)
            if target != os.environ["E2E_RESULTS"] and _job_key() not in target.encode():
                found.append(target.partition(":[")[0])
    return found


def _job_key() -> bytes:
    return f"XLA_SHMEM_JOB={os.environ['XLA_SHMEM_JOB']}".encode()


def _facts() -> dict[str, object]:
    return {
        "argv": sys.argv,
        "path": sys.path,
        "main": [__name__, __file__, sys.modules["__main__"] is sys.modules[__name__]],
        "executable": sys.executable,
        "environ": dict(os.environ),
        "folder": os.getcwd(),
        "leads its group": os.getpgid(0) == os.getpid(),
        "session is its launcher's": os.getsid(0) == os.getsid(os.getppid()),
        "descriptors": _descriptors(),
        "signals": {number.name: str(signal.getsignal(number)) for number in signal.valid_signals() if number < 32},
        "status": _stat("SigBlk", "Cpus_allowed"),
        "ignored": _ignored(),
        "streams": [[s.encoding, s.errors, s.line_buffering, s.write_through] for s in (sys.stdout, sys.stderr)],
        "standard input": sys.stdin.read(),
        "package": sorted(name for name in sys.modules if name.partition(".")[0] == "xla_shmem"),
        "threads": [thread.name for thread in threading.enumerate()],
        "backends": jax._src.xla_bridge.backends_are_initialized(),
        "is a fork": f"E2E_RESULTS={os.environ['E2E_RESULTS']}" not in Path("/proc/self/environ").read_text(),
        "names its job": any(_job_key() in Path(f"/proc/self/{file}").read_bytes() for file in ("environ", "maps")),
        "processes of the job": len(processes_of(Path(os.environ["E2E_RESULTS"]))) if RANKS == 1 else 0,
        "precision": jax.config.jax_default_matmul_precision,
        "x64": jax.config.jax_enable_x64,
        "platforms": jax.config.jax_platforms,
        "devices": str(jax.devices()),
        "program": jax.jit(lambda x: x + 1).lower(1.0).compile().as_text(),
    }


def _raises() -> None:
    raise ValueError("a wrong value")


def _ends(way: str) -> None:
    if way == "an error":
        _raises()
    elif way == "a signal":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    elif way == "Ctrl-C":
        os.kill(os.getpid(), signal.SIGINT)
    elif way == "a sentence":
        sys.exit("the reason")
    elif way == "a code":
        sys.exit(5)


if __name__ == "__main__":
    report(_facts())
    atexit.register(print, "at the end")
    threading.Thread(target=lambda: (time.sleep(0.2), print("in a thread"))).start()
    print("in the program", end="")  # not flushed
    _ends(sys.argv[1])
