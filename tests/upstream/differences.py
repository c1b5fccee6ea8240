"""The intended differences, as listed in docs/data/upstream_differences.csv.

Each row of this file describes cases in which our assigner and upstream's disagree on purpose; docs/differences.md has
the reasons. A difference must match exactly one row, and every pattern of a row must match a difference.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path

from answers import Answer

_DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = _DOCS / "differences.md"
LIST = _DOCS / "data" / "upstream_differences.csv"


@dataclass(frozen=True)
class Row:
    """A row. Cells hold shell patterns, separated by blanks; ``reason`` is a heading of the document."""

    reason: str
    stages: tuple[str, ...]
    releases: tuple[str, ...]
    placements: tuple[str, ...]
    programs: tuple[str, ...]
    upstream: str
    ours: str
    rules: tuple[str, ...]

    def fits(self, answer: Answer) -> bool:
        return (
            answer.upstream == self.upstream
            and answer.ours == self.ours
            and all(any(fnmatchcase(value, p) for p in patterns) for patterns, value in self._facets(answer))
        )

    def unused(self, answers: Iterable[Answer]) -> Iterator[str]:
        """Yields the patterns that match none of the answers. The answers are those that match the row."""
        seen = [self._facets(answer) for answer in answers]
        names = ("stage", "release", "placement", "program", "rule")
        for index, patterns in enumerate((self.stages, self.releases, self.placements, self.programs, self.rules)):
            for pattern in patterns:
                if not any(fnmatchcase(facets[index][1], pattern) for facets in seen):
                    yield f"{names[index]} {pattern}"

    def _facets(self, answer: Answer) -> tuple[tuple[tuple[str, ...], str], ...]:
        return (
            (self.stages, answer.stage),
            (self.releases, answer.release),
            (self.placements, answer.placement),
            (self.programs, answer.program),
            (self.rules, answer.rule),
        )


def read_rows(listed: str, document: str) -> list[Row]:
    """Parses the list, which is CSV.

    Raises:
      ValueError: a row has a wrong number of cells, or the document has no section with its reason.
    """
    rows = []
    for cells in list(csv.reader(listed.splitlines()))[1:]:
        if len(cells) != len(fields(Row)):
            raise ValueError(f"{len(cells)} cells, expected {len(fields(Row))}: {cells}")
        reason, stages, releases, placements, programs, upstream, ours, rules = cells
        if f"\n### {reason}\n" not in document:
            raise ValueError(f'no section "### {reason}" gives the reason for: {cells}')
        rows.append(
            Row(
                reason,
                tuple(stages.split()),
                tuple(releases.split()),
                tuple(placements.split()),
                tuple(programs.split()),
                upstream,
                ours,
                tuple(rules.split()),
            )
        )
    return rows


def complaints(rows: Iterable[Row], answers: Iterable[Answer]) -> list[str]:
    """Returns the problems: differences that match no row or several rows, and patterns that match no difference."""
    fitting: dict[Row, list[Answer]] = {row: [] for row in rows}
    problems = []
    for answer in answers:
        if not answer.differs:
            continue
        fits = [row for row in fitting if row.fits(answer)]
        for row in fits:
            fitting[row].append(answer)
        if len(fits) != 1:
            problems.append(f"{'not listed' if not fits else f'listed {len(fits)} times'}: {answer}")
    for row, found in fitting.items():
        problems += [f"listed under {row.reason}, but does not occur: {pattern}" for pattern in row.unused(found)]
    return problems
