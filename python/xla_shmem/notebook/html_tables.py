"""What notebooks show: tables as HTML that needs no script and no file.

Text has the colour of the notebook, and backends have a colour of their own behind white letters. So both are readable
on light and on dark pages, however the notebook marks its theme.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from xla_shmem.hlo.collective_report import full_reason, group_count, place, source_line
from xla_shmem.inspect.difference import Difference, describe_collective
from xla_shmem.inspect.explanation import abbreviated, facts, remarks
from xla_shmem.inspect.modules import InspectedModule
from xla_shmem.notebook.decision_rows import Decision
from xla_shmem.quantities import format_bytes

if TYPE_CHECKING:
    from xla_shmem import _core

#: Rows of a table that are shown; a notebook becomes slow with thousands.
MOST_ROWS = 500

#: Colours behind white text: each has a contrast of at least 4.5 to white.
_COLOURS = {"NVSHMEM": "#1a7f37", "DEFAULT": "#9a6700", "HIERARCHICAL": "#0969da"}
_VETO = "#cf222e"

_STYLE = """<style>
.xla-shmem { font-size: 13px; line-height: 1.4; color: inherit; overflow-x: auto; }
.xla-shmem table { border-collapse: collapse; margin: 6px 0; font-size: inherit; color: inherit;
  background: transparent; }
.xla-shmem tr, .xla-shmem tr:nth-child(even), .xla-shmem tr:hover { background: transparent; }
.xla-shmem th, .xla-shmem td { text-align: left; vertical-align: top; padding: 3px 10px 3px 0; color: inherit;
  background: transparent; border: 0; border-bottom: 1px solid rgba(128, 128, 128, 0.35); max-width: 36em;
  overflow-wrap: break-word; white-space: normal; }
.xla-shmem th { font-weight: 600; }
.xla-shmem .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.xla-shmem .name { font-family: monospace; }
.xla-shmem .unasked { opacity: 0.65; }
.xla-shmem .backend { color: #ffffff; border-radius: 4px; padding: 0 6px; white-space: nowrap; }
.xla-shmem p { margin: 4px 0; }
.xla-shmem ul { margin: 4px 0; padding-left: 1.4em; list-style: none; }
</style>"""


def table(rows: Sequence[Decision], summary: str) -> str:
    """Returns a table of the collectives, module by module, and the summary below it."""
    heads = ("HLO name", "op", "shape", "bytes", "groups", "backend", "rule", "reason", "computation", "source")
    parts = []
    for module in dict.fromkeys(row.module for row in rows[:MOST_ROWS]):
        body = [_row(row) for row in rows[:MOST_ROWS] if row.module == module]
        parts.append(f"<p><b>{escape(module)}</b></p>" + _table(heads, body))
    if len(rows) > MOST_ROWS:
        parts.append(f"<p>{len(rows) - MOST_ROWS} more; to_pandas() has all.</p>")
    return _page(*parts, f"<p>{escape(summary)}</p>")


def explanations(found: Sequence[tuple[InspectedModule, _core.Explanation]]) -> str:
    """Returns the rules' answers for each collective."""
    parts = []
    for module, explanation in found:
        title = f"<b>{escape(explanation['written']['name'])}</b>"
        parts.append(f"<p>{title} {escape(module.input.name)}, {escape(module.input.source)}</p>")
        parts.append(_table((), [[_cell(name), _cell(text)] for name, text in facts(module, explanation).items()]))
        if explanation["trace"]:
            steps = [_step(step) for step in explanation["trace"]]
            parts.append(_table(("rule", "question", "evidence", "verdict"), steps))
        for remark in remarks(explanation):
            decided = remark.record and (
                f"{_decided(remark.record)} by {escape(remark.record['rule'])}: {escape(full_reason(remark.record))}"
            )
            parts.append(f"<p>{escape(remark.text)}{decided or ''}</p>")
    return _page(*parts)


def differences(found: Iterable[Difference]) -> str:
    """Returns the collectives of each module that vanished, appeared or changed, and their numbers."""
    parts = []
    for one in found:
        items = [_item("−", _VETO, describe_collective(record)) for record in one.vanished]
        items += [_item("+", _COLOURS["NVSHMEM"], describe_collective(record)) for record in one.appeared]
        for change in one.changed:
            details = "".join(
                f"<li>{escape(what)}: {escape(before)} → {escape(after)}</li>"
                for what, before, after in change.differences
            )
            items.append(_item("~", _COLOURS["DEFAULT"], change.describe(), f"<ul>{details}</ul>"))
        parts.append(f"<p><b>{escape(one.module)}</b></p><ul>{''.join(items)}</ul><p>{escape(one.summary())}</p>")
    return _page(*parts)


def _page(*parts: str) -> str:
    return f'{_STYLE}<div class="xla-shmem">{"".join(parts)}</div>'


def _table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th{_NUMBER if name == 'bytes' else ''}>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if heads else ''}<tbody>{body}</tbody></table>"


_NUMBER = ' class="number"'


def _cell(text: str, attributes: str = "") -> str:
    return f"<td{attributes}>{escape(text)}</td>"


def _row(row: Decision) -> list[str]:
    record = vars(row)
    return [
        _cell(row.name, ' class="name"'),
        _cell(row.op),
        _cell(row.shape),
        _cell(format_bytes(row.bytes), _NUMBER),
        _cell(abbreviated(row.pairs or row.groups, most=4) or group_count(record)),
        f"<td>{_decided(record)}</td>",
        _cell(row.rule),
        _cell(full_reason(record)),
        _cell(place(record)),
        _cell(source_line(record)),
    ]


def _step(step: _core.RuleStep) -> list[str]:
    style = ' class="unasked"' if step["verdict"] == "not asked" else ""
    verdict = step["verdict"]
    last = f"<td>{_backend(verdict)}</td>" if verdict in _COLOURS else _cell(verdict, style)
    return [_cell(step["rule"], style), _cell(step["question"], style), _cell(step["evidence"]), last]


def _decided(record: Mapping[str, Any]) -> str:
    """The decision, and after an arrow the backend that runs it if that differs."""
    shown = _backend(record["backend"])
    if record["lowered"] != record["backend"]:
        shown += f" → {_backend(record['lowered'], _VETO)}"
    return shown


def _backend(name: str, colour: str = "") -> str:
    return f'<span class="backend" style="background: {colour or _COLOURS.get(name, "#57606a")}">{escape(name)}</span>'


def _item(mark: str, colour: str, text: str, details: str = "") -> str:
    return f'<li><span class="backend" style="background: {colour}">{mark}</span> {escape(text)}{details}</li>'
