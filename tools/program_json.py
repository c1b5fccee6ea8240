"""Programs as compact JSON: the format of the files in `table2_rows/`."""

from __future__ import annotations

import dataclasses
from typing import Any

from xla_shmem.predict.program import Collective, Program, Step


def to_json(program: Program) -> dict[str, Any]:
    """The program without the names of its kernels."""
    return {
        "entry": program.entry,
        "devices": program.devices,
        "unknown": program.unknown,
        "collectives": {name: dataclasses.astuple(each) for name, each in program.collectives.items()},
        "computations": {
            name: [program.executions[name], [_step_to_json(step) for step in steps]]
            for name, steps in program.computations.items()
        },
    }


def from_json(entries: dict[str, Any]) -> Program:
    """The inverse of `to_json`, without the names of kernels."""
    return Program(
        entry=entries["entry"],
        computations={name: tuple(map(_step_from_json, steps)) for name, (_, steps) in entries["computations"].items()},
        executions={name: runs for name, (runs, _) in entries["computations"].items()},
        collectives={name: Collective(*fields) for name, fields in entries["collectives"].items()},
        devices=entries["devices"],
        unknown=entries["unknown"],
    )


def _step_to_json(step: Step) -> Any:
    """[flops, bytes] for a kernel, else an object with the fields that are set."""
    if step.starts is step.ends is None and not step.calls:
        return [step.flops, step.bytes]
    fields = dataclasses.asdict(step)
    return {name: value for name, value in fields.items() if value and name != "name"}


def _step_from_json(entry: Any) -> Step:
    if isinstance(entry, list):
        return Step("", flops=entry[0], bytes=entry[1])
    fields: dict[str, Any] = {**entry, "calls": tuple(entry.get("calls", ()))}
    return Step("", **fields)
