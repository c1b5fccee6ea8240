"""Runs one section in processes of its own, with a time limit, and ends all of them.

A section is a command. Its `Outcome` says that it passed, failed (and how), or was not run.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpu_check import records
from gpu_check.records import Record

#: Seconds between SIGTERM and SIGKILL: `xla_shmem.launch.launcher` needs five to stop its ranks.
GRACE_S = 8.0

#: Names the section in the environment of its processes.
SECTION = "GPU_CHECK_SECTION"

_LINES_KEPT = 40
_ERROR_KEPT = 300
_NAMES_KEPT = 4

#: The launcher puts the rank in front of a line.
_ERROR = re.compile(
    r"^(?:\[ *\d+\] )?(?:[\w.]+(?:Error|Exception)\b|Fatal Python error|terminate called|F\d{4} |xla_shmem: )"
    r"|(?:^|[\w\])]: )(?:fatal )?error: |CMake Error|undefined reference|ERROR: "
)
#: A line of XLA's log below an error.
_WARNING = re.compile(r"^(?:\[ *\d+\] )?[WI]\d{4} ")


@dataclass(frozen=True)
class Section:
    """One part of the check.

    Attributes:
      name: short, unique.
      title: for the report.
      command: program and arguments.
      limit_s: seconds it may take at most.
      environment: added to the environment of the check.
      why_not: why it cannot run here, "" if it can.
      counts: whether its failure fails the check.
      kept_s: seconds that earlier sections leave it, enough for it on a machine where it passes.
    """

    name: str
    title: str
    command: Sequence[str]
    limit_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""
    counts: bool = True
    kept_s: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The result of a section.

    Attributes:
      status: "passed", "failed" or "not run".
      reason: why it failed or was not run, "" if it passed.
      error: the first message of an error if it failed, "" if there is none.
      exit_status: the command's; None if it was not started or was stopped.
      output: the last lines of its output.
    """

    section: Section
    status: str
    reason: str
    seconds: float = 0.0
    exit_status: int | None = None
    records: Sequence[Record] = ()
    output: Sequence[str] = ()
    error: str = ""


def not_run(section: Section, reason: str) -> Outcome:
    """The outcome of a section that was not started."""
    return Outcome(section, "not run", reason)


def limit_of(section: Section, seconds_left: float, kept: float) -> float:
    """Returns the seconds that a section may take.

    Args:
      seconds_left: of the whole check.
      kept: seconds that the later sections need; so a section that hangs does not take theirs. If time is short, all
        get the same share of what they need.
    """
    needed = section.kept_s + kept
    share = seconds_left * section.kept_s / needed if needed else seconds_left
    return min(section.limit_s, max(seconds_left - kept, share))


def run(section: Section, log: Path, seconds_left: float, kept: float = 0.0) -> Outcome:
    """Runs a section until it ends or its time is over.

    Args:
      log: file for the output; `log.with_suffix(".jsonl")` is for the records.
      seconds_left: of the whole check.
      kept: seconds of these that the later sections need.

    Raises:
      KeyboardInterrupt: a signal came; the section's processes have been ended.
    """
    if section.why_not:
        return not_run(section, section.why_not)
    limit = limit_of(section, seconds_left, kept)
    if limit < 1:
        return not_run(section, "no time left (GPU_CHECK_SECONDS)")
    found = log.with_suffix(".jsonl")
    found.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        **section.environment,
        SECTION: section.name,
        records.VARIABLE: str(found),
    }
    began = time.monotonic()
    with log.open("wb") as sink:
        try:
            process = subprocess.Popen(
                section.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches only this process, which then ends the section
            )
        except OSError as error:
            return Outcome(section, "failed", f"cannot start {section.command[0]}: {error.strerror}")
        exit_status: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                exit_status = process.wait(limit)
        finally:
            _end(process)
    seconds = time.monotonic() - began
    output = log.read_text(errors="replace").splitlines()
    lines = records.read(found)
    reason = judge(exit_status, limit, lines)
    status = "failed" if reason else "passed"
    if not reason and not any(record["kind"] in ("check", "same", "row", "fact") for record in lines):
        left = [record["reason"] for record in lines if record["kind"] == "left out"]
        status, reason = "not run", "; ".join(dict.fromkeys(left)) or "it recorded nothing"
    error = first_error(output, lines) if status == "failed" else ""
    return Outcome(section, status, reason, seconds, exit_status, lines, output[-_LINES_KEPT:], error)


def judge(exit_status: int | None, limit: float, lines: Sequence[Record]) -> str:
    """Returns why the section failed, "" if it passed."""
    failed = list(dict.fromkeys(record["name"] for record in lines if record["kind"] == "check" and not record["ok"]))
    failed += differing(lines)
    problems = []
    if failed:
        more = f" and {len(failed) - _NAMES_KEPT} more" if len(failed) > _NAMES_KEPT else ""
        problems.append(f"failed: {', '.join(failed[:_NAMES_KEPT])}{more}")
    if exit_status is None:
        problems.append(f"stopped after {limit:.0f} s")
    elif exit_status < 0:
        problems.append(f"killed by {_signal_name(-exit_status)}")
    elif exit_status:
        problems.append(f"exit status {exit_status}")
    return "; ".join(problems)


def first_error(output: Sequence[str], lines: Sequence[Record]) -> str:
    """Returns the first message of an error in the output, else the detail of the first failed check, else ""."""
    for line in output:
        if _ERROR.search(line) and not _WARNING.match(line):
            return line.strip()[:_ERROR_KEPT]
    details = (record["detail"] for record in lines if record["kind"] == "check" and not record["ok"])
    return next((detail for detail in details if detail), "")[:_ERROR_KEPT]


def differing(lines: Sequence[Record]) -> list[str]:
    """Returns the names of digests that differ between ranks."""
    digests: dict[str, set[str]] = defaultdict(set)
    for record in lines:
        if record["kind"] == "same":
            digests[record["name"]].add(record["digest"])
    return [f"{name} differs between ranks" for name, values in digests.items() if len(values) > 1]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the section's process group. A second interrupt skips the grace time."""
    try:
        if process.poll() is None:
            _signal(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
