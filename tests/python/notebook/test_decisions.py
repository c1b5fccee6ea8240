"""`xla_shmem.decisions`: rows, explanations and differences of dumps and of live programs."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hlo_samples import ALL_GATHER, CPU_SYNC, NO_COLLECTIVE, gpu_start_done
from inspect_runs import inspect
from jaxlib import _hlo
from live_programs import PROGRAM, run

import xla_shmem
from xla_shmem import _core
from xla_shmem.hlo.files import read_module
from xla_shmem.notebook.decision_rows import LEFT_OUT

pytestmark = pytest.mark.usefixtures("no_options")


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    (tmp_path / "m.txt").write_text(CPU_SYNC)
    return tmp_path / "m.txt"


@pytest.fixture
def rewritten(dump: Path) -> Path:
    path = dump.with_name("rewritten.txt")
    assert inspect("decide", dump, "--output", path).exit_code == 0
    return path


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_rows_have_what_inspect_prints_as_json(rewritten: Path) -> None:
    rows = xla_shmem.decisions(rewritten)
    records = json.loads(inspect(rewritten, "--json").stdout)
    assert len(rows) == len(records) == 3
    for row, record in zip(rows, records, strict=True):
        fields = dataclasses.asdict(row)
        assert {name: fields[name] for name in record.keys() - LEFT_OUT - {"file"}} == {
            name: value for name, value in record.items() if name not in LEFT_OUT | {"file"}
        }
        assert set(fields) == set(record) - LEFT_OUT - {"file"} | {"shape", "groups", "pairs"}


def test_rows_have_shape_groups_and_pairs(dump: Path, rewritten: Path) -> None:
    for path in (dump, rewritten):
        rows = {row.name: row for row in xla_shmem.decisions(str(path))}
        assert (rows["small"].shape, rows["small"].groups, rows["small"].pairs) == ("f32[1024]", ((0, 1, 2, 3),), ())
        assert rows["large"].groups == ((0, 1), (2, 3))
        assert rows["permute"].pairs == ((0, 1), (1, 2), (2, 3), (3, 0))
        assert rows["permute"].groups == ()
    assert {row.rule for row in xla_shmem.decisions(dump)} == {"stock"}
    assert rows["large"].lowered == "DEFAULT"
    assert (rows["small"].lowered, rows["small"].rule) == ("NVSHMEM", "single-device")


def test_groups_that_the_module_does_not_say_are_empty(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(ALL_GATHER.replace(", num_partitions=2", "").replace("{{0,1}}", "{}"))
    (row,) = xla_shmem.decisions(tmp_path / "m.txt")
    assert (row.shape, row.groups, row.num_groups) == ("f32[16]", (), 0)


def test_it_is_a_sequence_that_never_changes(dump: Path) -> None:
    rows = xla_shmem.decisions(dump)
    assert [row.name for row in rows] == [rows[i].name for i in range(3)] == [row.name for row in rows[:]]
    with pytest.raises(dataclasses.FrozenInstanceError):
        rows[0].backend = "NVSHMEM"  # type: ignore[misc]


def test_print_and_the_command_show_the_same(dump: Path, rewritten: Path) -> None:
    rows = xla_shmem.decisions(rewritten)
    shown = _lines(inspect(rewritten).stdout)
    assert _lines(repr(rows))[-1] == shown[-1] == "3 collectives in 1 module: 2 NVSHMEM, 1 DEFAULT."
    assert _lines(str(rows))[1].split()[:3] == shown[1].split()[:3]
    explained = inspect("explain", rewritten, "small").stdout  # its tables have tabs, no line and no padding
    assert repr(rows.explain("small")).replace("─", "").split() == explained.split()
    (dump.parent / "a").mkdir()
    assert _lines(repr(xla_shmem.decisions(dump).diff(rewritten))) == _lines(inspect("diff", dump, rewritten).stdout)


def test_explain_goes_by_the_settings_that_it_is_given(dump: Path) -> None:
    rows = xla_shmem.decisions(dump)
    assert rows.explain("small").collectives[0]["decided"]["rule"] == "single-device"
    settings = xla_shmem.DecisionSettings(devices_per_process=2, devices_per_host=2)
    (one,) = rows.explain("small", settings).collectives
    assert (one["decided"]["rule"], one["decided"]["backend"]) == ("hierarchical", "HIERARCHICAL")
    with pytest.raises(xla_shmem.UserError, match="smal: no such collective; there are small"):
        rows.explain("smal")
    with pytest.raises(xla_shmem.UserError, match="4 devices do not divide into processes of 3"):
        rows.explain("small", xla_shmem.DecisionSettings(devices_per_process=3))


def test_diff_has_typed_differences(tmp_path: Path) -> None:
    for backend in ("DEFAULT", "NVSHMEM"):
        (tmp_path / f"{backend}.txt").write_text(gpu_start_done(backend))
    before, after = (xla_shmem.decisions(tmp_path / f"{name}.txt") for name in ("DEFAULT", "NVSHMEM"))
    (one,) = before.diff(after)
    assert ("runs on", "DEFAULT", "NVSHMEM") in one.changed[0].differences
    assert (len(one.changed), one.equal) == (2, 0)
    assert before.diff(tmp_path / "DEFAULT.txt")[0].equal == 2


def test_pandas_gets_a_row_for_each_collective(dump: Path) -> None:
    pytest.importorskip("pandas")
    rows = xla_shmem.decisions(dump)
    frame = rows.to_pandas()
    assert list(frame["name"]) == [row.name for row in rows]
    assert list(frame.columns) == [field.name for field in dataclasses.fields(xla_shmem.Decision)]
    assert frame.groupby("op")["bytes"].sum()["all-reduce"] == 4096 + (16 << 20)
    assert list(frame["groups"]) == [row.groups for row in rows]


def test_a_missing_pandas_is_a_sentence(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(xla_shmem.UserError, match="needs pandas, which is not installed; run `pip install pandas`"):
        xla_shmem.decisions(dump).to_pandas()


def test_a_module_without_collectives_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(NO_COLLECTIVE)
    rows = xla_shmem.decisions(tmp_path / "m.txt")
    assert (len(rows), repr(rows)) == (0, "No collectives in 1 module.")


class _Executable:
    """What JAX gives: some plugins of PJRT cannot return HLO."""

    def __init__(self, modules: list[Any]) -> None:
        self._modules = modules

    def runtime_executable(self) -> Any:
        return self

    def hlo_modules(self) -> list[Any]:
        if not self._modules:
            raise RuntimeError("UNIMPLEMENTED: no HLO")
        return self._modules


def test_an_executable_for_described_devices_has_no_client_and_is_read_by_its_form(tmp_path: Path) -> None:
    program = _Executable([_hlo.hlo_module_from_text(gpu_start_done("NVSHMEM"))])
    rows = xla_shmem.decisions(program)
    assert [(row.name, row.lowered) for row in rows] == [("permute-start", "NVSHMEM"), ("reduce-start", "NVSHMEM")]
    (one,) = rows.explain("permute-start").collectives
    assert (one["decided"]["lowered"], one["decided"]["rule"]) == ("NVSHMEM", "single-device")


def _inputs(tmp_path: Path) -> Iterator[tuple[Any, str]]:
    yield tmp_path / "missing.txt", "missing.txt: cannot be read: No such file or directory"
    yield _Executable([]), r"does not give its HLO \(UNIMPLEMENTED: no HLO\); compile with XLA_FLAGS=--xla_dump_to"
    yield len, r"decisions\(builtin_function_or_method\): give a compiled program"
    yield None, r"decisions\(NoneType\): give a compiled program"


def test_a_wrong_option_of_the_environment_is_an_error_at_once(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_SHMEM_OPS", "everything")
    with pytest.raises(xla_shmem.OptionError, match="XLA_SHMEM_OPS='everything': must be"):
        xla_shmem.decisions(dump)


def test_other_inputs_are_refused_with_a_sentence(tmp_path: Path) -> None:
    for source, words in _inputs(tmp_path):
        with pytest.raises(xla_shmem.UserError, match=words):
            xla_shmem.decisions(source)


_REPORT = """
found = xla_shmem.decisions(SOURCE)
explained = found.explain(found[-1].name).collectives[0]
print(json.dumps([
    [[row.op, row.lowered, row.rule, row.groups, row.pairs, row.shape, row.in_loop] for row in found],
    explained["decided"]["rule"], explained["written"] == explained["decided"], found[0].source_file,
]))
"""


@pytest.mark.parametrize("source", ["lowered().compile()", "lowered()"])
def test_a_live_program_is_decided_as_this_job_does(source: str) -> None:
    start = "import xla_shmem\nxla_shmem.enable(threshold='2KiB')\n"
    rows, rule, same, _ = run(start + PROGRAM + _REPORT.replace("SOURCE", source))
    ring = [[0, 1], [1, 2], [2, 3], [3, 0]]
    assert rows == [
        ["collective-permute", "NVSHMEM", "single-partition", [], ring, "f32[1,1024]", True],
        ["all-reduce", "DEFAULT", "size", [[0, 1, 2, 3]], [], "f32[1,1024]", False],
    ]
    assert (rule, same) == ("size", True)  # by the threshold of this process, which no module holds


def test_a_live_program_of_stock_jax_is_explained_by_its_devices() -> None:
    rows, rule, same, file = run("import xla_shmem\n" + PROGRAM + _REPORT.replace("SOURCE", "lowered(2).compile()"))
    assert [row[:3] for row in rows] == [
        ["collective-permute", "DEFAULT", "stock"],
        ["all-reduce", "DEFAULT", "stock"],
    ]
    assert [row[3:5] for row in rows] == [[[], [[0, 1], [1, 0]]], [[[0, 1]], []]]
    assert (rule, same) == ("single-partition", False)  # one process has all devices
    assert file == "<string>"


def test_stock_collectives_compile_anew_what_was_compiled_before_and_the_pass_does_so_after_them() -> None:
    found = run(f"""
import xla_shmem
xla_shmem.enable()
{PROGRAM}
function, x = step()
backends = lambda: xla_shmem.decisions(function.lower(x))[0].lowered
text = lambda: function.lower(x).compile().as_text().count("xla_shmem.")
found = [backends(), text() > 0]
with xla_shmem.stock_collectives():
    found += [backends(), text()]
print(json.dumps(found + [backends(), text() > 0]))
""")
    assert found == ["NVSHMEM", True, "DEFAULT", 0, "NVSHMEM", True]


def test_explanations_name_the_shape_as_the_module_does(dump: Path) -> None:
    module = read_module(str(dump)).proto
    explained = _core.explain_module(module, _core.Topology([(0, 0, 0, 0, 0)]), _core.cpu_transport({}))
    assert {one["written"]["name"]: one["shape"] for one in explained} == {
        "small": "f32[1024]",
        "large": "f32[4194304]",
        "permute": "f32[1024]",
    }
