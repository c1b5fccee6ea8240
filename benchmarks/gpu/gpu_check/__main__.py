"""Runs the sections one after the other and writes the report: ``python -m gpu_check OUT_DIR [SECTION ...]``."""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpu_check import plan, records
from gpu_check.report import Report
from gpu_check.runner import Outcome, Section, not_run, run

ROOT = Path(__file__).resolve().parents[3]

#: Seconds for all sections. One call then ends within nine minutes, even if the last section uses its grace time.
TOTAL_S = 525.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Check:
    """One call of the check: outcomes so far, time left, and the output files."""

    def __init__(self, out: Path, work: Path, total_s: float, say: Callable[[str], None] = print) -> None:
        self._out = out
        self._logs = work / "logs"
        self._began = time.monotonic()
        self._total_s = total_s
        # More time for everything is more time for each.
        self.stretch = max(total_s / TOTAL_S, 1.0)
        self._say = say
        self.report = Report(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), _commit())
        out.mkdir(parents=True, exist_ok=True)
        os.environ[records.OUT] = str(out)  # for all sections
        shutil.rmtree(self._logs, ignore_errors=True)
        self._logs.mkdir(parents=True)
        (out / "output.log").write_text("")
        self.save("")

    def save(self, ended: str) -> None:
        """Writes the report so far."""
        self.report.ended = ended
        self.report.seconds = time.monotonic() - self._began
        self.report.write(self._out)

    def run(self, section: Section, later: Sequence[Section] = ()) -> Outcome:
        """Runs one section and adds it to the report; the `later` ones keep their share of the time."""
        kept = sum(other.kept_s for other in later if not other.why_not)
        log = self._logs / f"{section.name}.log"
        try:
            outcome = run(section, log, self._total_s - (time.monotonic() - self._began), kept)
        except KeyboardInterrupt:
            self.add(not_run(section, "stopped by a signal"), log)
            raise
        self.add(outcome, log)
        return outcome

    def add(self, outcome: Outcome, log: Path | None = None) -> None:
        """Adds an outcome to the report, and its output to `output.log`."""
        self.report.outcomes.append(outcome)
        self.save("")
        with (self._out / "output.log").open("ab") as sink:
            sink.write(f"=== {outcome.section.name}: {outcome.status} {outcome.reason}\n".encode())
            if log is not None and log.is_file():
                sink.write(log.read_bytes()[-(2 << 20) :] + b"\n")
        name = outcome.section.name
        self._say(f"{outcome.seconds:6.1f} s  {outcome.status:8}{name}: {outcome.section.title}  {outcome.reason}")


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__)
    parser.add_argument("out", type=Path, help="folder for report.json, report.md and output.log")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="run these only: " + ", ".join(plan.NAMES))
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.sections) - set(plan.NAMES):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(plan.NAMES)}")
    return arguments


def _run_all(check: Check, chosen: Sequence[str], work: Path) -> None:
    installed = os.environ.get("GPU_CHECK_PYTHON")
    python = installed or str(work / "venv" / "bin" / "python")

    def sections(gpus: int, why_not: str) -> list[Section]:
        return [
            plan.stretched(section, check.stretch)
            for section in plan.on_gpu(python, gpus, why_not, check.report.emulated)
            if not chosen or section.name in chosen
        ]

    machine = check.run(plan.machine(ROOT), sections(1, ""))
    gpus = plan.gpu_count(machine.records)
    if plan.is_emulated(machine.records):
        os.environ[records.EMULATED] = "1"  # for all sections
        check.report.emulated = True
    # Without a GPU no section needs the build.
    why_not = "" if gpus else plan.no_gpu(machine.records)
    if installed:
        check.add(not_run(plan.build(ROOT, work, ""), f"GPU_CHECK_PYTHON names an installation: {installed}"))
    elif check.run(plan.build(ROOT, work, why_not), sections(gpus, why_not)).status == "failed":
        why_not = "the build failed"
    left = sections(gpus, why_not)
    while left:
        check.run(left.pop(0), left)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 if all sections that count passed, 1 if not, 128 plus the signal's number after a signal."""
    arguments = _arguments(argv)
    work = Path(os.environ.get("GPU_CHECK_WORK", ROOT / "build" / "gpu-check"))
    got: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        got.append(number)
        raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, interrupt)
    check = Check(arguments.out.resolve(), work, float(os.environ.get("GPU_CHECK_SECONDS", TOTAL_S)))
    ended = "an error stopped it; see the output"
    try:
        _run_all(check, arguments.sections, work)
        ended = "complete"
    except KeyboardInterrupt:
        ended = f"stopped by {signal.Signals(got[0]).name}"
    finally:
        check.save(ended)
        print("\n" + "\n".join(check.report.summary()))
        print(f"{'passed' if check.report.passed else 'not passed'}: {arguments.out / 'report.md'}", flush=True)
    if got:
        return 128 + got[0]
    return 0 if check.report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
