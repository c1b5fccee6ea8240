"""The decision about one collective, with the answer of each rule."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from xla_shmem.console import report_table
from xla_shmem.hlo.collective_report import decided_backend, full_reason, styled_backend
from xla_shmem.hlo.files import HloFileError
from xla_shmem.inspect.decision_settings import DecisionSettings
from xla_shmem.inspect.modules import InspectedModule
from xla_shmem.inspect.overlap import describe_overlap
from xla_shmem.quantities import format_bytes, plural

if TYPE_CHECKING:
    from xla_shmem import _core

#: Compared between the module and the new decision. The evidence is not: it may differ in numbers only.
_SETTLED = ("backend", "lowered", "rule", "reason", "veto")


def explain(
    modules: Sequence[InspectedModule], name: str, settings: DecisionSettings
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
        raise HloFileError(f"explain {name}: no such collective{offer}.")
    return found


def explanation_as_json(module: InspectedModule, explanation: _core.Explanation) -> dict[str, Any]:
    """Returns an explanation with the name and the file of its module."""
    return {**explanation, "module": module.input.name, "file": module.input.source}


def describe_explanation(module: InspectedModule, explanation: _core.Explanation) -> RenderableType:
    """Returns an explanation as text and tables."""
    written, decided = explanation["written"], explanation["decided"]
    lines: list[RenderableType] = [
        Text.assemble((written["name"], "bold"), f"  {module.input.name}  {module.input.source}"),
        _facts(module, explanation),
    ]
    if written["part_of"]:
        lines.append(Text.assemble("Runs on ", decided_backend(written), f" by {written['rule']}: "))
        lines.append(Text(f"  {full_reason(written)}"))
        return Group(*lines)
    if not explanation["trace"]:
        lines.append(Text("The participants are not in the module, so the rules cannot decide again."))
        return Group(*lines)
    lines += [
        Text(),
        _trace(explanation),
        Text(),
        Text.assemble("Decision: ", decided_backend(decided), f" by {decided['rule']}: "),
    ]
    lines.append(Text(f"  {full_reason(decided)}"))
    if written["rule"] == "stock":
        lines.append(Text.assemble("The module was compiled without these rules: ", written["reason"], "."))
    elif any(written[key] != decided[key] for key in _SETTLED):  # type: ignore[literal-required]
        lines.append(
            Text.assemble(
                ("The module has another decision: ", "red"), decided_backend(written), f" by {written['rule']}: "
            )
        )
        lines.append(Text(f"  {full_reason(written)}"))
        lines.append(
            Text("It was compiled with other options or for other devices: see --profile, --devices-per-process, …")
        )
    return Group(*lines)


def _facts(module: InspectedModule, explanation: _core.Explanation) -> Table:
    record = explanation["written"]
    count = record["executions"]
    runs = "unknown number of runs" if count is None else f"{plural(count, 'run')} per step"
    members: Sequence[Sequence[int]] = explanation["pairs"] or explanation["groups"]
    facts = {
        "op": f"{record['op']}, {record['dtype']}, {format_bytes(record['bytes'])}, {runs}",
        "computation": record["computation"] + (" (loop)" if record["in_loop"] else ""),
        "source": f"{record['source_file']}:{record['source_line']}" if record["source_file"] else "",
        "pairs" if explanation["pairs"] else "groups": _abbreviated(members) or "unknown",
        "overlaps with": describe_overlap(module.overlaps.get((record["computation"], record["name"]))),
    }
    table = Table.grid(padding=(0, 2))
    for title, text in facts.items():
        if text:
            table.add_row(Text(title, style="dim"), Text(text))  # as Text, because a path may look like rich's markup
    return table


def _abbreviated(members: Sequence[Sequence[int]], most: int = 8) -> str:
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
