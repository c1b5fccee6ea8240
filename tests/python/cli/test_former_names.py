"""Names of release 0.1: each does the same as its new name, and says that name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hlo_samples import CPU_SYNC

from xla_shmem.cli.main import main


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stops every command before it begins; holds what was parsed for it."""
    found: dict[str, Any] = {}

    def keep(self: click.Command, context: click.Context) -> None:
        if not isinstance(self, click.Group):
            found.clear()
            found.update(context.params)

    monkeypatch.setattr(click.Command, "invoke", keep)
    return found


FORMER = [
    ("bench", ["-p", "4"], ["-n", "4"], "-p/--processes is now --num-ranks"),
    ("bench", ["--processes", "4"], ["--num-ranks", "4"], "-p/--processes is now --num-ranks"),
    ("bench", ["--iters", "7"], ["--iterations", "7"], "--iters is now --iterations"),
    ("bench", ["--minbytes", "1K"], ["--min-bytes", "1K"], "--minbytes is now --min-bytes"),
    ("bench", ["--maxbytes=1K"], ["--max-bytes=1K"], "--maxbytes is now --max-bytes"),
    ("bench", ["--stepfactor", "3"], ["--step-factor", "3"], "--stepfactor is now --step-factor"),
    ("bench", ["--json", "b.json"], ["--output", "b.json"], "--json FILE is now --output"),
    ("tune", ["-p4"], ["-n4"], "-p/--processes is now --num-ranks"),
    ("tune", ["--iters", "7"], ["--iterations", "7"], "--iters is now --iterations"),
    ("tune", ["-o", "t.json"], ["--output", "t.json"], "-o/--out is now --output"),
    ("tune", ["--show", "--out", "t.json"], ["--show", "--tuning", "t.json"], "-o/--out is now --tuning"),
    (
        "tune",
        ["-o", "t.json", "--verify", "--json", "f.json"],
        ["--tuning", "t.json", "--verify", "--output", "f.json"],
        "-o/--out is now --tuning",
    ),
]


@pytest.mark.parametrize(("command", "former", "new", "line"), FORMER)
def test_a_former_option_does_what_the_new_one_does_and_names_it(
    parsed: dict[str, Any], command: str, former: list[str], new: list[str], line: str
) -> None:
    result = CliRunner().invoke(main, [command, *former])
    assert result.exit_code == 0, result.output
    assert f"{line}; this name goes in 0.3" in result.stderr.splitlines()
    by_former = dict(parsed)
    result = CliRunner().invoke(main, [command, *new])
    assert (result.exit_code, result.stderr) == (0, "")
    assert by_former == parsed


def test_a_former_option_beside_its_new_name_is_refused(parsed: dict[str, Any]) -> None:
    result = CliRunner().invoke(main, ["bench", "-p", "4", "-n", "20"])
    assert result.exit_code == 2
    assert "-p/--processes is the former name of --num-ranks; give one of them." in result.stderr


def test_assign_is_inspect_decide(tmp_path: Path, no_options: None) -> None:
    module, first, second = tmp_path / "m.txt", tmp_path / "first.txt", tmp_path / "second.txt"
    module.write_text(CPU_SYNC)
    arguments = [str(module), "--json", "--threshold", "1K", "--lowering", "cpu"]
    former = CliRunner().invoke(main, ["assign", *arguments, "-o", str(first)])
    assert (former.exit_code, former.stderr) == (0, "assign is now inspect --decide; this name goes in 0.3\n")
    new = CliRunner().invoke(main, ["inspect", "--decide", *arguments, "--output", str(second)])
    assert (new.exit_code, new.stderr) == (0, "")
    assert former.stdout == new.stdout
    assert first.read_text() == second.read_text()


def test_doctor_job_is_postmortem(tmp_path: Path) -> None:
    arguments = [f"{tmp_path}/no-records", "--json"]
    former = CliRunner().invoke(main, ["doctor", "--job", *arguments])
    new = CliRunner().invoke(main, ["postmortem", *arguments])
    assert former.exit_code == new.exit_code == 1
    assert "holds no flight records" in new.stderr
    assert former.stderr == f"doctor --job is now postmortem; this name goes in 0.3\n{new.stderr}"


@pytest.mark.parametrize("command", ["bench", "tune"])
def test_json_without_a_file_is_a_flag(parsed: dict[str, Any], command: str) -> None:
    for arguments in (["--json"], ["--json", "--rounds", "3"]):
        result = CliRunner().invoke(main, [command, *arguments])
        assert (result.exit_code, result.stderr) == (0, "")
        assert parsed["as_json"] is True
        assert parsed["output"] is None


def test_no_help_shows_a_former_name() -> None:
    shown = {word for command, *_ in FORMER for word in CliRunner().invoke(main, [command, "--help"]).stdout.split()}
    former = {word.partition("=")[0] for _, options, _, _ in FORMER for word in options if word.startswith("--")}
    now = {"--json", "--show", "--verify", "--warmup"}  # bench's --warmup is no former name
    assert shown.isdisjoint(former - now)
