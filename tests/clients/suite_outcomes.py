"""Outcomes of other projects' tests, and how those of two runs differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

#: Outcome of each test of a rank: "passed", "failed" or "skipped".
Outcomes = dict[str, str]

# What absltest prints when a test has ended: outcome, class and method, and sometimes its parameters.
_ABSL_RESULT = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+)", re.MULTILINE)
_ABSL_WORDS = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}


def read_junit(file: Path) -> Outcomes:
    """Reads what `pytest --junitxml` wrote; {} if pytest did not come to its end."""
    if not file.exists():
        return {}
    outcomes = {}
    for case in ElementTree.parse(file).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            outcomes[name] = "failed"
        else:
            outcomes[name] = "skipped" if case.find("skipped") is not None else "passed"
    return outcomes


def read_absl(log: str) -> Outcomes:
    """Reads the output of a program that ended with `absltest.main()`."""
    return {name: _ABSL_WORDS[word] for word, name in _ABSL_RESULT.findall(log)}


def differences(stock: Mapping[int, Outcomes], flagged: Mapping[int, Outcomes]) -> list[str]:
    """Compares the outcomes of each rank, test by test; returns a line for each difference."""
    found = []
    for rank in sorted({*stock, *flagged}):
        before, after = stock.get(rank, {}), flagged.get(rank, {})
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                words = f"{before.get(name, 'not run')} on stock JAX, {after.get(name, 'not run')} with the flag"
                found.append(f"rank {rank}: {name}: {words}")
    return found


def counted(outcomes: Mapping[int, Outcomes]) -> str:
    """Says how many tests of all ranks passed, failed and were skipped."""
    counts = Counter(outcome for tests in outcomes.values() for outcome in tests.values())
    return ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "skipped"))
