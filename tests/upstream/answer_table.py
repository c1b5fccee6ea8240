"""Prints the table of each release's answers for docs/data: answer_table.py ANSWERS."""

from __future__ import annotations

import csv
import io
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from answers import Answer, read_answers

TABLE = Path(__file__).parents[2] / "docs" / "data" / "upstream_answers.csv"

_PLACEMENTS = ("8x1x1", "1x1x8", "2x1x4", "1x2x4", "2x2x2")
_PROGRAMS = (
    ("all_reduce_4096_bytes", "assigner"),
    ("all_reduce_float32_below", "assigner"),
    ("all_reduce_float32_at", "assigner"),
    ("permute_ring_67108864_bytes", "assigner"),
    ("permute_ring_in_process", "assigner"),
    ("groups_per_process_small", "assigner"),
    ("groups_across_small", "assigner"),
    ("groups_unlike", "assigner"),
    ("all_gather_small", "assigner"),
    ("reduce_scatter_small", "assigner"),
    ("all_to_all_small", "assigner"),
    ("auto_data_parallel_gradient", "assigner"),
    ("loop_ring", "assigner"),
    ("permuted_strided_groups", "assigner"),
    ("permuted_strided_across", "assigner"),
    ("subset_straddling_all_reduce", "assigner"),
    ("subset_far_apart_all_reduce", "assigner"),
    ("replicas_of_partitions", "assigner"),
    ("combined_small", "final"),
    ("combined_past_threshold", "final"),
)


def table(answers: Iterable[Answer]) -> str:
    """Returns the table as CSV: a row per program, a column per placement.

    A cell of one word means that all releases and we agree; otherwise it names those with other answers.
    """
    given: dict[tuple[str, str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for answer in answers:
        cell = given[answer.program, answer.stage, answer.placement]
        cell[answer.release].add(answer.upstream)
        cell["ours"].add(answer.ours)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["program", "stage", *_PLACEMENTS])
    for program, stage in _PROGRAMS:
        writer.writerow([program, stage, *(_cell(given[program, stage, placement]) for placement in _PLACEMENTS)])
    return text.getvalue()


def _cell(backends: dict[str, set[str]]) -> str:
    answers = {source: "/".join(sorted(found)) for source, found in backends.items()}
    first = next(iter(answers.values()))
    others: dict[str, list[str]] = defaultdict(list)
    for source, answer in answers.items():
        if answer != first:
            others[answer].append(source)
    return "; ".join([first, *(f"{', '.join(sources)}: {answer}" for answer, sources in others.items())])


if __name__ == "__main__":
    print(table(read_answers(Path(sys.argv[1]))), end="")
