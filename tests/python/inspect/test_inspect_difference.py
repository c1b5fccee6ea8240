"""`xla-shmem inspect diff`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from click.testing import Result
from hlo_samples import ALL_GATHER, CPU_SYNC, NO_COLLECTIVE, gpu_start_done, many_collectives
from inspect_runs import inspect

from xla_shmem.inspect.difference import match


def _diff(tmp_path: Path, before: str, after: str, *arguments: str) -> Result:
    (tmp_path / "a.txt").write_text(before)
    (tmp_path / "b.txt").write_text(after)
    return inspect("diff", tmp_path / "a.txt", tmp_path / "b.txt", *arguments)


def _difference(tmp_path: Path, before: str, after: str, *arguments: str) -> dict[str, Any]:
    result = _diff(tmp_path, before, after, "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    (difference,) = json.loads(result.stdout)
    return dict(difference)


def _changes(difference: dict[str, Any]) -> dict[str, list[tuple[str, str, str]]]:
    return {
        change["after"]["name"]: [(one["what"], one["before"], one["after"]) for one in change["differences"]]
        for change in difference["changed"]
    }


def test_a_module_equals_itself(tmp_path: Path) -> None:
    difference = _difference(tmp_path, CPU_SYNC, CPU_SYNC)
    assert difference == {
        "module": "jit_step",
        "only_in": None,
        "vanished": [],
        "appeared": [],
        "changed": [],
        "equal": 3,
    }
    assert _diff(tmp_path, CPU_SYNC, CPU_SYNC).stdout == "jit_step\n0 vanished, 0 appeared, 0 changed, 3 equal.\n"


def test_backend_and_size_are_compared(tmp_path: Path) -> None:
    changed = _difference(tmp_path, gpu_start_done("DEFAULT"), gpu_start_done("NVSHMEM").replace("8,1024", "4,1024"))
    names = {name: {what for what, _, _ in differences} for name, differences in _changes(changed).items()}
    assert names["reduce-start"] == {"backend", "runs on", "bytes"}
    assert ("runs on", "DEFAULT", "NVSHMEM") in _changes(changed)["reduce-start"]
    assert ("bytes", "16384", "8192") in _changes(changed)["reduce-start"]
    assert "overlaps with" in names["permute-start"]


def test_the_overlap_is_compared(tmp_path: Path) -> None:
    before = gpu_start_done(None)
    square = next(line for line in before.splitlines(keepends=True) if "%square" in line)
    done = next(line for line in before.splitlines(keepends=True) if "%permute-done =" in line)
    changed = _changes(_difference(tmp_path, before, before.replace(square + done, done + square)))
    assert changed == {"permute-start": [("overlaps with", "1 instruction, 8.2 kFLOP, 48.0 KiB", "nothing")]}


def test_groups_are_compared(tmp_path: Path) -> None:
    after = CPU_SYNC.replace("replica_groups=[2,2]<=[4]", "replica_groups=[1,4]<=[4]")
    assert _changes(_difference(tmp_path, CPU_SYNC, after)) == {"large": [("groups", "2 × 2", "1 × 4")]}


def test_new_names_of_instructions_are_no_change(tmp_path: Path) -> None:
    before = many_collectives(12, devices=8)
    after = re.sub(r"%(sum|move-start|move-done)\.(\d+)", lambda m: f"%{m[1]}.{int(m[2]) + 100}", before)
    difference = _difference(tmp_path, before, after)
    assert (difference["equal"], difference["changed"]) == (12, [])
    assert difference["vanished"] == difference["appeared"] == []


def test_collectives_that_vanished_or_appeared_are_named(tmp_path: Path) -> None:
    result = _diff(tmp_path, CPU_SYNC, ALL_GATHER)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "jit_step → jit_gather"
    assert sum(line.startswith("- ") for line in lines) == 3
    assert "+ gather  all-gather f32 64 B, 1 × 2, DEFAULT" in lines
    assert lines[-1] == "3 vanished, 1 appeared, 0 changed, 0 equal."


def test_as_few_collectives_as_possible_count_as_moved(tmp_path: Path) -> None:
    lines = CPU_SYNC.splitlines(keepends=True)
    small = next(line for line in lines if line.startswith("  %small"))
    large = next(line for line in lines if line.startswith("  %large"))
    changed = _changes(_difference(tmp_path, CPU_SYNC, CPU_SYNC.replace(small + large, large + small)))
    assert [what for differences in changed.values() for what, _, _ in differences] == ["order"]


def test_filters_apply_to_both_dumps(tmp_path: Path) -> None:
    difference = _difference(tmp_path, CPU_SYNC, ALL_GATHER, "--op", "collective-permute")
    assert [record["name"] for record in difference["vanished"]] == ["permute"]
    assert difference["appeared"] == []


def test_a_collective_is_matched_once() -> None:
    def record(name: str, size: int) -> dict[str, Any]:
        return {"name": name, "op": "all-reduce", "source_file": None, "source_line": 0, "bytes": size}

    assert match([record("a", 1), record("b", 2)], [record("b", 1), record("c", 1)]) == [(0, 1), (1, 0)]
    assert match([record("a", 1), record("b", 2)], [record("x", 2)]) == [(1, 0)]
    assert match([record("a", 1)], []) == []


def test_dumps_without_a_common_module_are_refused_in_one_sentence(tmp_path: Path) -> None:
    for folder, modules in {"a": ["f", "g"], "b": ["h"]}.items():
        (tmp_path / folder).mkdir()
        for name in modules:
            text = CPU_SYNC.replace("jit_step", name)
            (tmp_path / folder / f"module_0.{name}.cpu_after_optimizations.txt").write_text(text)
    result = inspect("diff", tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 2
    assert result.stderr == "Error: diff: no module is in both dumps; the first has f, g, the second h.\n"


def _dump(folder: Path, **modules: str) -> Path:
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"module_0.{name}.cpu_after_optimizations.txt").write_text(text.replace("jit_step", name))
    return folder


def test_modules_of_one_dump_only_have_vanished_or_appeared(tmp_path: Path) -> None:
    before = _dump(tmp_path / "a", both=CPU_SYNC, old=ALL_GATHER.replace("jit_gather", "old"), silent=NO_COLLECTIVE)
    after = _dump(tmp_path / "b", both=CPU_SYNC, new=CPU_SYNC)
    result = inspect("diff", before, after, "--json")
    modules = {one["module"]: one for one in json.loads(result.stdout)}
    assert {name: one["only_in"] for name, one in modules.items()} == {
        "both": None, "old": "before", "m": "before", "new": "after",
    }  # fmt: skip
    assert [record["name"] for record in modules["old"]["vanished"]] == ["gather"]
    assert [record["name"] for record in modules["new"]["appeared"]] == ["permute", "small", "large"]
    lines = inspect("diff", before, after).stdout.splitlines()
    assert lines[lines.index("new  only in the second dump") + 4] == "0 vanished, 3 appeared, 0 changed, 0 equal."
    assert lines[lines.index("old  only in the first dump") + 2] == "1 vanished, 0 appeared, 0 changed, 0 equal."
    assert not any(line.startswith("m  only") for line in lines), "it has no collectives in any dump"


def test_of_modules_with_one_name_the_last_is_without_a_partner(tmp_path: Path) -> None:
    before, after = _dump(tmp_path / "a", f=CPU_SYNC), _dump(tmp_path / "b", f=CPU_SYNC)
    (after / "module_1.f.cpu_after_optimizations.txt").write_text(CPU_SYNC.replace("jit_step", "f"))
    differences = json.loads(inspect("diff", before, after, "--json").stdout)
    assert [(one["only_in"], one["equal"], len(one["appeared"])) for one in differences] == [
        (None, 3, 0), ("after", 0, 3),
    ]  # fmt: skip
