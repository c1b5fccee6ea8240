"""The answers of upstream's assigner and our decisions for the same modules, collective by collective."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placements import RELEASES, Placement, placements_for

from xla_shmem import _core
from xla_shmem.hlo.regular_topology import core_topology, regular_places

THRESHOLD = 16 << 20

#: Input and output files of a stage. The assigner runs before collectives are combined; "final" is the compiled module.
STAGES = {"assigner": ("given.hlo.pb", "answered.txt"), "final": ("final.hlo.pb", "final.txt")}

_INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?(?P<name>[\w.-]+) = .*?(?<![\w%.-])(?P<opcode>[a-z][a-z0-9-]*)\(")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?(?P<name>[\w.-]+) \(.*\{$")
_CALLS = re.compile(r" calls=%?([\w.-]+)")
_OPS = ("all-reduce", "collective-permute", "all-gather", "reduce-scatter", "all-to-all", "collective-broadcast")
_COLLECTIVES = frozenset(op + form for op in _OPS for form in ("", "-start"))


@dataclass(frozen=True)
class Answer:
    """One collective. ``upstream`` is NVSHMEM, DEFAULT, or refused if the program did not compile."""

    release: str
    placement: str
    program: str
    stage: str
    collective: str
    op: str
    bytes: int
    upstream: str
    ours: str
    rule: str
    reason: str

    @property
    def differs(self) -> bool:
        return self.upstream != self.ours

    def __str__(self) -> str:
        return (
            f"{self.release} {self.placement} {self.program} ({self.stage}), {self.collective}: "
            f"upstream {self.upstream}, ours {self.ours} [{self.rule}: {self.reason}]"
        )


def read_answers(root: Path, threshold: int = THRESHOLD) -> Iterator[Answer]:
    """Yields the answers below ``root``, in the folders RELEASE/PLACEMENT/ that compile_family.py writes.

    Args:
      root: folder of the answers.
      threshold: bytes, for our assigner.

    Raises:
      ValueError: a dump is missing or cannot be read.
    """
    for release in RELEASES:
        for placement in placements_for(release):
            directory = root / release / placement.name
            for program, complaint in programs(directory).items():
                for stage in STAGES:
                    yield from _compare(release, placement, directory, program, complaint, stage, threshold)


def programs(directory: Path) -> dict[str, str]:
    outcome: dict[str, str] = json.loads((directory / "programs.json").read_text())
    return outcome


def _compare(
    release: str,
    placement: Placement,
    directory: Path,
    program: str,
    complaint: str,
    stage: str,
    threshold: int,
) -> Iterator[Answer]:
    proto, printed = (directory / f"{program}.{kept}" for kept in STAGES[stage])
    if not proto.exists():
        if complaint and stage == "final":
            return  # refused before there was a final module; the other stage has the answer
        raise ValueError(f"{proto} is missing although the program compiled; XLA may have renamed its dumps")
    refused = complaint and (stage == "final" or not printed.exists())
    tagged = None if refused else upstream_backends(printed.read_text())
    records = ours(proto.read_bytes(), placement, threshold)
    if tagged is not None and tagged.keys() != records.keys():
        raise ValueError(f"{printed} has the collectives {sorted(tagged)}, but our pass lists {sorted(records)}")
    for name, record in records.items():
        yield Answer(
            release,
            placement.name,
            program,
            stage,
            name,
            record["op"],
            record["bytes"],
            "refused" if tagged is None else tagged[name],
            record["backend"],
            record["rule"],
            record["reason"],
        )


def upstream_backends(text: str) -> dict[str, str]:
    """Returns the backend of each collective of a HLO text. XLA prints ``backend`` only if it was assigned.

    A collective in the computation of an async-start has the name of that async-start.
    """
    found: list[tuple[str, str, str]] = []  # computation, name, backend
    wrapped_by: dict[str, str] = {}  # computation -> its async-start
    computation = ""
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            computation = header["name"]
        match = _INSTRUCTION.match(line)
        if match and match["opcode"] in _COLLECTIVES:
            found.append((computation, match["name"], "NVSHMEM" if '"backend":"NVSHMEM"' in line else "DEFAULT"))
        elif match and match["opcode"] == "async-start" and (callee := _CALLS.search(line)):
            wrapped_by[callee[1]] = match["name"]
    return {wrapped_by.get(computation, name): backend for computation, name, backend in found}


def ours(proto: bytes, placement: Placement, threshold: int) -> dict[str, Mapping[str, Any]]:
    """Returns the records of our pass, profile upstream on GPUs, by collective. XLA calls an NVLink domain a slice."""
    places = regular_places(placement.num_devices, placement.devices, placement.devices, placement.nvlink_domain)
    result = _core.run_pass(
        _core.unwrap_module(proto),
        core_topology(places),
        _core.gpu_transport({place.device_id: place.nvlink_domain for place in places}),
        profile="upstream",
        threshold=threshold,
        lowering="none",
    )
    return {record["name"]: record for record in result.records}
