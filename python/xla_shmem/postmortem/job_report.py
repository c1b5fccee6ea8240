"""Prints the diagnosis of a job as text or as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from rich.table import Table
from rich.text import Text

from xla_shmem.console import report_console
from xla_shmem.postmortem.who_waits import JobDiagnosis, PeStatus, Stuck
from xla_shmem.runtime.flight_records import Entry


def print_job_json(directory: Path, diagnosis: JobDiagnosis) -> None:
    """Prints the diagnosis as one JSON object."""
    json.dump({"job": directory.name, **dataclasses.asdict(diagnosis)}, sys.stdout, indent=2, default=lambda e: e.name)
    print()


def print_job_report(directory: Path, diagnosis: JobDiagnosis) -> None:
    """Prints a table of the PEs, the failures, and the collectives that do not end."""
    console = report_console()
    console.print(f"Job {directory.name}, records in {directory}", markup=False)
    table = Table("PE", "process", "state", "collectives", "in", "last finished", box=None, header_style="bold")
    for status in diagnosis.pes:
        table.add_row(*map(Text, _row(status)))
    console.print(table)
    if diagnosis.absent:
        console.print(f"Processes on this host without a record: {diagnosis.absent}. They did not reach a collective.")
    if diagnosis.first_end:
        console.print(diagnosis.first_end, markup=False)
    for failure in diagnosis.failures:
        console.print(f"Failure: {failure}", markup=False)
    for stuck in diagnosis.stuck:
        console.print(_sentence(stuck), markup=False)
    if not diagnosis.stuck and not diagnosis.failures:
        console.print("No collective is under way.")


def _row(status: PeStatus) -> tuple[str, ...]:
    inside = ", ".join(map(_name, status.under_way[:2])) + (", …" if len(status.under_way) > 2 else "")
    return (
        str(status.pe),
        f"{status.process} (pid {status.pid})",
        status.life,
        str(status.collectives),
        inside or "-",
        "-" if status.last is None else _name(status.last),
    )


def _name(entry: Entry) -> str:
    return f"{'?' if entry.site is None else entry.site.name} run {entry.run}"


def _pes(pes: tuple[int, ...]) -> str:
    return ("PE " if len(pes) == 1 else "PEs ") + ", ".join(map(str, pes))


def _sentence(stuck: Stuck) -> str:
    begun = "waited" if stuck.failed else "waits" if len(stuck.waiting) == 1 else "wait"
    at = f" at {stuck.source}" if stuck.source else ""
    on = " on the default backend" if stuck.on_default_backend else ""
    where = f"{_pes(stuck.waiting)} {begun} in {stuck.op} {stuck.name}{at}{on}, run {stuck.run}, {stuck.bytes} bytes"
    if not stuck.missing:
        return f"{where}, for {stuck.seconds:.1f} s. All its PEs have begun it."
    lines = [f"  PE {missing.pe} never arrived: {missing.why}." for missing in stuck.missing]
    return "\n".join([f"{where}, for {stuck.seconds:.1f} s:", *lines])
