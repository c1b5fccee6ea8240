"""`xla-shmem inspect explain`, and the data of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hlo_samples import CPU_SYNC
from inspect_runs import inspect

from xla_shmem import _core
from xla_shmem.hlo.files import read_module
from xla_shmem.inspect.page import embed_json

pytestmark = pytest.mark.usefixtures("no_options")


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    path = tmp_path / "stock.txt"
    path.write_text(CPU_SYNC)
    return path


@pytest.fixture
def rewritten(stock: Path, tmp_path: Path) -> Path:
    path = tmp_path / "rewritten.pb"
    result = inspect("decide", stock, "--output", path)
    assert result.exit_code == 0, result.stderr
    return path


def _explanation(*arguments: str | Path) -> dict[str, Any]:
    result = inspect("explain", "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    (explanation,) = json.loads(result.stdout)
    return dict(explanation)


def _message(field: int, data: bytes) -> bytes:
    """Returns a length-delimited field of a protobuf message, for data of less than 128 bytes."""
    return bytes([field << 3 | 2, len(data)]) + data


def test_every_rule_shows_its_evidence(stock: Path) -> None:
    output = inspect("explain", stock, "large", "--devices-per-process", "2").stdout
    assert re.search(r"single-device\t.*\tup to 2 devices per process \(2 processes\)\tpassed", output)
    assert re.search(r"single-partition\t.*all 2 groups within one process each.*\tNVSHMEM", output)
    assert re.search(r"nvlink-domain\t.*\tnot asked", output)
    assert re.search(r"size\t.*all-reduce of 16.0 MiB ≥ threshold 16.0 MiB\tDEFAULT", output)
    assert "Decision: DEFAULT by size" in output
    assert "{0,1} {2,3}" in output


def test_a_stock_module_was_compiled_without_the_rules(stock: Path) -> None:
    assert "compiled without these rules: no backend is recorded" in inspect("explain", stock, "small").stdout


def test_names_that_look_like_markup_are_printed_unchanged(tmp_path: Path) -> None:
    path = "/app/[/red]/train[bold].py"
    (tmp_path / "m.txt").write_text(
        CPU_SYNC.replace("to_apply=%sum", f'to_apply=%sum, metadata={{source_file="{path}" source_line=7}}')
    )
    assert f"{path}:7" in inspect("explain", tmp_path / "m.txt", "small").stdout
    assert "train[bold].py:7" in inspect(tmp_path / "m.txt").stdout


def test_a_rewritten_collective_has_the_same_explanation_as_the_original(stock: Path, rewritten: Path) -> None:
    for name in ("small", "permute", "large"):
        before, after = _explanation(stock, name), _explanation(rewritten, name)
        assert after["trace"] == before["trace"]
        assert (after["groups"], after["pairs"]) == (before["groups"], before["pairs"])
        assert after["decided"]["reason"] == after["written"]["reason"]
        assert "another decision" not in inspect("explain", rewritten, name).stdout


def test_a_decision_that_differs_from_that_of_the_options_is_shown(rewritten: Path) -> None:
    output = inspect("explain", rewritten, "small", "--threshold", "1K").stdout
    assert "Decision: DEFAULT by size" in output
    assert "The module has another decision: NVSHMEM by single-device" in output


def test_an_unknown_collective_offers_similar_names(stock: Path) -> None:
    result = inspect("explain", stock, "permut")
    assert result.exit_code == 2
    assert result.stderr == "Error: permut: no such collective; there are permute and others.\n"


def test_a_layout_that_does_not_fit_is_an_error_of_one_sentence(stock: Path) -> None:
    result = inspect("explain", stock, "small", "--devices-per-process", "3")
    assert result.exit_code == 2
    assert result.stderr == f"Error: {stock}: 4 devices do not divide into processes of 3 devices\n"


def test_devices_of_cpu_processes_are_used_in_their_order(tmp_path: Path) -> None:
    """In XLA:CPU the first device of process p has the number 2048 p."""
    (tmp_path / "m.txt").write_text(CPU_SYNC)
    module = read_module(str(tmp_path / "m.txt")).proto
    partitions = [b"\0", b"\x80\x10", b"\x80\x20", b"\x80\x30"]  # 0, 2048, 4096, 6144
    assignment = b"\x08\x01\x10\x04" + b"".join(_message(3, _message(1, device)) for device in partitions)
    dump = tmp_path / "m.cpu_after_optimizations.hlo.pb"
    dump.write_bytes(module.removesuffix(_core.with_default_assignment(b"", 1, 4)) + _message(15, assignment))
    explanation = _explanation(dump, "small")
    assert explanation["groups"] == [[0, 2048, 4096, 6144]]
    assert explanation["decided"]["reason"].startswith("one device per process (4 processes)")


def test_only_terminals_get_colours(stock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in inspect("explain", stock, "small").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32m" in inspect("explain", stock, "small").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in inspect("explain", stock, "small").stdout


def test_a_half_written_dump_is_an_error_of_one_sentence(rewritten: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.pb"
    half.write_bytes(rewritten.read_bytes()[:-20])
    page = str(tmp_path / "page.html")
    for arguments in (
        ["explain", half, "small"],
        ["decide", half],
        [half, "--html", page],
        [half, "--overlap"],
        [half],
    ):
        result = inspect(*arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"Error: {half}: ")
        assert result.stderr.count("\n") == 1


def test_a_page_that_cannot_be_written_is_an_error_of_one_sentence(stock: Path, tmp_path: Path) -> None:
    result = inspect(stock, "--html", tmp_path / "no" / "page.html")
    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path}/no/page.html: cannot be written: No such file or directory.\n"


def test_the_page_contains_everything_it_needs(stock: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert inspect(stock, "--html", page).exit_code == 0
    text = page.read_text()
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(["']?(?!#)""", text)
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    (module,) = data["modules"]
    assert [one["name"] for one in module["collectives"]] == ["permute", "small", "large"]
    assert module["schedule"] == [], "XLA:CPU does not follow the order of its modules"
    assert module["members"][module["collectives"][2]["members"]]["groups"] == [[0, 1], [2, 3]]


def test_embedded_text_cannot_end_its_element() -> None:
    text = embed_json(["</script><!--", "&lt;", "\u2028"])
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == ["</script><!--", "&lt;", "\u2028"]


def test_explanations_are_in_the_order_of_the_records(stock: Path) -> None:
    module = read_module(str(stock)).proto
    topology = _core.Topology([(device, 0, 0, 0, device) for device in range(4)])
    explanations = _core.explain_module(module, topology, _core.cpu_transport({}))
    assert [one["written"] for one in explanations] == _core.inspect_module(module)
