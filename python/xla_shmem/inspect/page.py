"""The report as one self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xla_shmem.hlo.files import HloFileError
from xla_shmem.inspect.decision_settings import DecisionSettings
from xla_shmem.inspect.modules import InspectedModule
from xla_shmem.inspect.overlap import overlap_as_json

if TYPE_CHECKING:
    from xla_shmem import _core

#: Parts of the script, in order.
_SCRIPTS = ("format.js", "table.js", "bars.js", "timeline.js", "topology.js", "page.js")

#: One letter for each category of instructions, so that schedules of many thousands of instructions stay small.
_LETTER = {"compute": "c", "collective": "x", "control": "f", "other": "o"}


def write_page(path: Path, modules: Sequence[InspectedModule], settings: DecisionSettings) -> None:
    """Writes the page.

    Raises:
      HloFileError: the file cannot be written, a module is malformed, or the layout of devices does not fit.
    """
    text = render_page([_module_data(module, settings) for module in modules if module.records])
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HloFileError(f"{path}: cannot be written: {error.strerror}.") from None


def render_page(modules: Sequence[Mapping[str, Any]]) -> str:
    """Returns the page, which needs no other file and no network."""
    assets = files("xla_shmem.inspect") / "assets"

    def read(name: str) -> str:
        return (assets / name).read_text(encoding="utf-8")

    parts = {
        "/*style*/": read("style.css"),
        "/*script*/": "\n".join(map(read, _SCRIPTS)),
        "/*data*/": embed_json({"modules": modules}),
    }
    page = read("page.html")
    for mark, text in parts.items():
        before, found, after = page.partition(mark)
        assert found, mark
        page = before + text + after
    return page


def embed_json(value: object) -> str:
    """Returns JSON in which names cannot be parsed as markup."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _module_data(module: InspectedModule, settings: DecisionSettings) -> dict[str, Any]:
    from xla_shmem import _core

    explanations = settings.decide(_core.explain_module, module.input, module.input.platform)
    members = _Members()
    participants = {
        (one["written"]["computation"], one["written"]["name"]): members.number(one) for one in explanations
    }
    return {
        "name": module.input.name,
        "source": module.input.source,
        "devices": [asdict(place) for place in settings.places(module.input)],
        "members": members.all,
        "collectives": [
            {
                **record,
                "members": participants.get((record["computation"], record["name"])),
                "overlap": overlap_as_json(module.overlaps.get((record["computation"], record["name"]))),
            }
            for record in module.records
        ],
        # XLA:CPU starts what is ready, in any order, so its modules have no schedule to show.
        "schedule": []
        if module.input.platform == "cpu"
        else [_schedule_data(computation) for computation in module.schedule],
    }


def _schedule_data(computation: _core.ComputationSchedule) -> dict[str, Any]:
    steps = computation["instructions"]
    return {
        "name": computation["name"],
        "executions": computation["executions"],
        "in_loop": computation["in_loop"],
        "scheduled": computation["scheduled"],
        "categories": "".join(_LETTER[step["category"]] for step in steps),
        "names": [step["name"] for step in steps],
        "flops": [step["flops"] for step in steps],
        "bytes": [step["bytes"] for step in steps],
    }


class _Members:
    """Groups and pairs without duplicates. A large module uses a few of them in thousands of collectives."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}

    def number(self, explanation: _core.Explanation) -> int:
        """Returns the index in ``all`` of the participants."""
        one = {"groups": explanation["groups"], "pairs": explanation["pairs"]}
        key = json.dumps(one)
        if key not in self._numbers:
            self._numbers[key] = len(self.all)
            self.all.append(one)
        return self._numbers[key]
