"""The report: `report.json` for programs and `report.md` for readers, from the same outcomes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_check.records import Record
from gpu_check.runner import Outcome

_MARK = {"passed": "passed", "failed": "**failed**", "not run": "not run"}


@dataclass
class Report:
    """The findings of one call of the check.

    Attributes:
      date: ISO 8601, UTC.
      commit: the tree's, "" if unknown.
      ended: how the check ended; "" while it runs.
      emulated: whether the GPU is emulated; then no times are written.
    """

    date: str
    commit: str
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0
    ended: str = ""
    emulated: bool = False

    @property
    def passed(self) -> bool:
        """Whether the check is complete, a section on a GPU has checks, and no section that counts failed."""
        return (
            self.ended == "complete"
            and any(
                outcome.status == "passed" and any(record["kind"] in ("check", "same") for record in outcome.records)
                for outcome in self.outcomes
                if outcome.section.name not in ("machine", "build", "doctor")
            )
            and not any(outcome.status == "failed" and outcome.section.counts for outcome in self.outcomes)
        )

    def summary(self) -> list[str]:
        """How many sections passed, and one line for each that failed, with its first error."""
        counts = {
            status: sum(outcome.status == status for outcome in self.outcomes)
            for status in ("passed", "failed", "not run")
        }
        lines = [", ".join(f"{count} {status}" for status, count in counts.items())]
        for outcome in self.outcomes:
            if outcome.status == "failed":
                error = f" -- {outcome.error}" if outcome.error and outcome.error not in outcome.reason else ""
                lines.append(f"FAILED {outcome.section.name}: {outcome.reason}{error}")
        return lines

    def facts(self) -> dict[str, Any]:
        """All facts; a later section's overwrites an earlier one's."""
        return {
            record["name"]: record["value"]
            for outcome in self.outcomes
            for record in outcome.records
            if record["kind"] == "fact"
        }

    def write(self, folder: Path) -> None:
        """Writes both files, each in one step."""
        _replace(folder / "report.json", json.dumps(self.to_json(), indent=1) + "\n")
        _replace(folder / "report.md", "\n".join(self.to_markdown()) + "\n")

    def _seconds(self, value: float) -> float | None:
        return None if self.emulated else round(value, 1)

    def to_json(self) -> dict[str, Any]:
        """The report as data."""
        return {
            "passed": self.passed,
            "emulated": self.emulated,
            "ended": self.ended or "still running, or killed",
            "date": self.date,
            "commit": self.commit,
            "seconds": self._seconds(self.seconds),
            "summary": self.summary(),
            "facts": self.facts(),
            "sections": [
                {
                    "name": outcome.section.name,
                    "title": outcome.section.title,
                    "status": outcome.status,
                    "counts": outcome.section.counts,
                    "reason": outcome.reason,
                    "error": outcome.error,
                    "seconds": self._seconds(outcome.seconds),
                    "exit_status": outcome.exit_status,
                    "records": list(outcome.records),
                    "output": list(outcome.output) if outcome.status == "failed" else [],
                }
                for outcome in self.outcomes
            ],
        }

    def to_markdown(self) -> Iterator[str]:
        """The report as lines of Markdown."""
        facts = self.facts()
        yield f"# GPU check: {'passed' if self.passed else 'not passed'}{' (emulated GPU)' if self.emulated else ''}"
        yield ""
        if self.emulated:
            yield "**Emulated: this ran on tests/gpu_emulator, without hardware.** It shows that calls and values are"
            yield "right there, and nothing about speed, memory ordering or NVIDIA's libraries. It has no times."
            yield ""
        took = "" if self.emulated else f", {self.seconds:.0f} s"
        yield f"{self.date}, commit {self.commit or 'unknown'}{took}. {_ending(self.ended)}"
        count, *failures = self.summary()
        yield ""
        yield f"Sections: {count}."
        if failures:
            yield ""
            yield from (f"* {line}" for line in failures)
        if facts:
            yield ""
            yield from _table(["fact", "value"], [[name, _text(value)] for name, value in facts.items()])
        yield ""
        yield from _table(
            ["section", "status", "s", "why"],
            [
                [
                    f"`{outcome.section.name}`: {outcome.section.title}",
                    _MARK[outcome.status] + ("" if outcome.section.counts else " (does not count)"),
                    f"{outcome.seconds:.0f}" if outcome.seconds and not self.emulated else "",
                    outcome.reason,
                ]
                for outcome in self.outcomes
            ],
        )
        for outcome in self.outcomes:
            yield from _section(outcome)


def _replace(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def _ending(ended: str) -> str:
    return {"complete": "", "": "The check was still running, or was killed, when this was written."}.get(
        ended, f"The check is not complete: {ended}."
    )


def _section(outcome: Outcome) -> Iterator[str]:
    lines = [*_checks(outcome.records), *_tables(outcome.records)]
    if outcome.status == "failed" and outcome.output:
        lines += ["", "Last lines of its output:", "", "```", *outcome.output, "```"]
    if lines:
        yield ""
        yield f"## {outcome.section.title}"
        yield from lines


def _checks(records: Sequence[Record]) -> Iterator[str]:
    checks: dict[str, list[Record]] = {}
    for record in records:
        if record["kind"] == "check":
            checks.setdefault(record["name"], []).append(record)
    good = [name for name, made in checks.items() if all(record["ok"] for record in made)]
    bad = [
        [name, f"{sum(not record['ok'] for record in made)} of {len(made)}", _first_failure(made)]
        for name, made in checks.items()
        if name not in good
    ]
    if bad:
        yield ""
        yield from _table(["failed check", "ranks", "detail"], bad)
    if good:
        yield ""
        yield f"{len(good)} checks ok: {'; '.join(good)}."
    left = [f"* left out: {record['name']}: {record['reason']}" for record in records if record["kind"] == "left out"]
    if left:
        yield ""
        yield from dict.fromkeys(left)


def _first_failure(made: Sequence[Record]) -> str:
    return next((record["detail"] for record in made if not record["ok"] and record["detail"]), "")


def _tables(records: Sequence[Record]) -> Iterator[str]:
    tables: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record["kind"] == "row":
            tables.setdefault(record["table"], []).append(record["columns"])
    for name, rows in tables.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        yield ""
        yield f"### {name}"
        yield ""
        yield from _table(columns, [[_text(row.get(column, "")) for column in columns] for row in rows])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(_cell(value) for value in row)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)
