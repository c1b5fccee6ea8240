"""The decision about one collective, with the answer of each rule."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from xla_shmem.console import report_table
from xla_shmem.hlo.collective_report import decided_backend, full_reason, place, styled_backend
from xla_shmem.hlo.files import HloFileError
from xla_shmem.inspect.decision_settings import Decider
from xla_shmem.inspect.modules import InspectedModule
from xla_shmem.inspect.overlap import describe_overlap
from xla_shmem.quantities import format_bytes, plural

if TYPE_CHECKING:
    from xla_shmem import _core

#: Compared between the module and the new decision. The evidence is not: it may differ in numbers only.
_SETTLED = ("backend", "lowered", "rule", "reason", "veto")


def explain(
    modules: Sequence[InspectedModule], name: str, settings: Decider
) -> list[tuple[InspectedModule, _core.Explanation]]:
    """Returns every collective of that name with a new decision.

    Raises:
      HloFileError: there is none (the message offers similar names), or the settings do not fit the module.
    """
    from xla_shmem import _core

    found = []
    for module in modules:
        if any(record["name"] == name for record in module.records):
            explanations = settings.decide(_core.explain_module, module.input, module.input.platform)
            found += [(module, one) for one in explanations if one["written"]["name"] == name]
    if not found:
        names = sorted({record["name"] for module in modules for record in module.records})
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
        offer = f"; there are {', '.join(near)}" + (" and others" if len(names) > len(near) else "") if names else ""
        raise HloFileError(f"{name}: no such collective{offer}.")
    return found


def explanation_as_json(module: InspectedModule, explanation: _core.Explanation) -> dict[str, Any]:
    """Returns an explanation with the name and the file of its module."""
    return {**explanation, "module": module.input.name, "file": module.input.source}


@dataclass(frozen=True)
class Remark:
    """A sentence below the rules' answers.

    Attributes:
      text: the sentence, or if there is a record its beginning: backend, rule and reason of the record follow.
      record: the collective with the decision that the sentence is about.
      is_warning: whether it contradicts the rules' answers.
    """

    text: str
    record: _core.CollectiveRecord | None = None
    is_warning: bool = False


def facts(module: InspectedModule, explanation: _core.Explanation) -> dict[str, str]:
    """Returns what the module says of the collective, by title; unknown facts are left out."""
    record = explanation["written"]
    count = record["executions"]
    runs = "unknown number of runs" if count is None else f"{plural(count, 'run')} per step"
    members: Sequence[Sequence[int]] = explanation["pairs"] or explanation["groups"]
    found = {
        "op": f"{record['op']}, {explanation['shape']}, {format_bytes(record['bytes'])}, {runs}",
        "computation": place(record),
        "source": f"{record['source_file']}:{record['source_line']}" if record["source_file"] else "",
        "pairs" if explanation["pairs"] else "groups": abbreviated(members) or "unknown",
        "overlaps with": describe_overlap(module.overlaps.get((record["computation"], record["name"]))),
    }
    return {title: text for title, text in found.items() if text}


def remarks(explanation: _core.Explanation) -> list[Remark]:
    """Returns the decision, and where the module has another one."""
    written, decided = explanation["written"], explanation["decided"]
    if written["part_of"]:
        return [Remark("Runs on ", written)]
    if not explanation["trace"]:
        return [Remark("The participants are not in the module, so the rules cannot decide again.")]
    found = [Remark("Decision: ", decided)]
    if written["rule"] == "stock":
        found.append(Remark(f"The module was compiled without these rules: {written['reason']}."))
    elif any(written[key] != decided[key] for key in _SETTLED):  # type: ignore[literal-required]
        found.append(Remark("The module has another decision: ", written, is_warning=True))
        found.append(Remark("It was compiled with other options or for other devices: profile, devices per process, …"))
    return found


def describe_explanation(module: InspectedModule, explanation: _core.Explanation) -> RenderableType:
    """Returns an explanation as text and tables."""
    lines: list[RenderableType] = [
        Text.assemble((explanation["written"]["name"], "bold"), f"  {module.input.name}  {module.input.source}"),
        _facts(module, explanation),
    ]
    if explanation["trace"]:
        lines += [Text(), _trace(explanation), Text()]
    for remark in remarks(explanation):
        text = Text(remark.text, style="red" if remark.is_warning else "")
        if remark.record is None:
            lines.append(text)
        else:
            lines.append(Text.assemble(text, decided_backend(remark.record), f" by {remark.record['rule']}:"))
            lines.append(Text(f"  {full_reason(remark.record)}"))
    return Group(*lines)


def _facts(module: InspectedModule, explanation: _core.Explanation) -> Table:
    table = Table.grid(padding=(0, 2))
    for title, text in facts(module, explanation).items():
        table.add_row(Text(title, style="dim"), Text(text))  # as Text, because a path may look like rich's markup
    return table


def abbreviated(members: Sequence[Sequence[int]], most: int = 8) -> str:
    """Returns groups or pairs, ``{0,1} {2,3}``: at most `most` of them, and of each its first `most` devices."""

    def one(ids: Sequence[int]) -> str:
        shown = ",".join(map(str, ids[:most]))
        return "{" + shown + (",…" if len(ids) > most else "") + "}"

    text = " ".join(one(ids) for ids in members[:most])
    return text + (f" … {len(members)} in all" if len(members) > most else "")


def _trace(explanation: _core.Explanation) -> Table:
    table = report_table()
    for header in ("rule", "question", "evidence", "verdict"):
        table.add_column(header, overflow="fold")
    for step in explanation["trace"]:
        verdict = step["verdict"]
        names_backend = verdict in ("NVSHMEM", "DEFAULT", "HIERARCHICAL")
        style = "dim" if verdict == "not asked" else ""
        table.add_row(
            Text(step["rule"], style=style),
            Text(step["question"], style=style),
            Text(step["evidence"]),
            styled_backend(verdict) if names_backend else Text(verdict, style=style),
        )
    return table
