"""Wrong use of `xla-shmem inspect`: exit code 2 and a sentence that names what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hlo_samples import CPU_SYNC, NO_COLLECTIVE, gpu_start_done
from inspect_runs import inspect

pytestmark = pytest.mark.usefixtures("no_options")

UNKNOWN_AXIS = CPU_SYNC.replace("replica_groups=[2,2]<=[4]", "replica_groups=mesh['a'=2,'b'=2] {'c'}")

#: Arguments, and what the last line of stderr says. `{}` is the folder with the files of `files`.
WRONG: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "Missing argument 'PATH...'"),
    "no such file": (["{}/none.txt"], "{}/none.txt: cannot be read: No such file or directory."),
    "a folder without dumps": (["{}/empty"], "{}/empty: no *after_optimizations* module, no HLO files; dump with"),
    "an unknown option": (["{}/cpu.txt", "--colour"], "No such option"),
    "an unknown op": (["{}/cpu.txt", "--op", "allreduce"], "--op allreduce: no such collective; use all-reduce, "),
    "a size with a wrong unit": (["{}/cpu.txt", "--min-bytes", "4MB"], "--min-bytes 4MB: must be a size in bytes"),
    "an unknown backend": (["{}/cpu.txt", "--backend", "NCCL"], "'NCCL' is not one of"),
    "a page that cannot be written": (["{}/cpu.txt", "--html", "{}/no/p.html"], "{}/no/p.html: cannot be written"),
    "JSON and a page": (
        ["{}/cpu.txt", "--html", "{}/p.html", "--json"],
        "--json prints and --html writes a page: give one of them.",
    ),
    "overlap and a page": (["{}/cpu.txt", "--html", "{}/p.html", "--overlap"], "--overlap has no effect with --html"),
    "a layout of a table": (["{}/cpu.txt", "--num-devices", "8"], "--num-devices has no effect without --html"),
    "a layout at its default": (
        ["{}/cpu.txt", "--devices-per-process", "1"],
        "--devices-per-process has no effect without --html",
    ),
    "a rule of a table": (["{}/cpu.txt", "--threshold", "1K"], "No such option"),
    "a command that is no option": (
        ["{}/cpu.txt", "--explain", "small"],
        "explain is a command of its own and comes first: xla-shmem inspect explain …",
    ),
    "a command with a value": (["--diff=a", "b"], "diff is a command of its own and comes first"),
    "a command that comes second": (["{}/cpu.txt", "decide"], "decide is a command of its own and comes first"),
    "a text that XLA refuses": (["{}/axis.txt"], "{}/axis.txt: jaxlib "),
    "decide: two modules": (["decide", "{}/cpu.txt", "{}/gpu.txt"], "unexpected extra argument"),
    "decide: a folder of two": (["decide", "{}/dump"], "{}/dump: holds 2 modules, one is needed; name a file in it"),
    "decide: overlap": (["decide", "{}/cpu.txt", "--overlap"], "No such option"),
    "decide: a table without its profile": (
        ["decide", "{}/cpu.txt", "--tuning", "{}/t.json"],
        "--tuning has no effect without --profile tuned.",
    ),
    "decide: unknown devices": (
        ["decide", "{}/none.hlo"],
        "does not contain its number of devices; give --num-devices",
    ),
    "decide: no output format": (["decide", "{}/cpu.txt", "--output", "o.json"], "o.json: the extension must be .txt"),
    "decide: an odd layout": (["decide", "{}/cpu.txt", "--devices-per-process", "3"], "4 devices do not divide into"),
    "explain: no name": (["explain", "{}/cpu.txt"], "Missing argument 'PATH...'"),
    "explain: an unknown name": (
        ["explain", "{}/cpu.txt", "smal"],
        "smal: no such collective; there are small and others",
    ),
    "explain: the name first": (
        ["explain", "small", "{}/cpu.txt"],
        "PATH comes before NAME: xla-shmem inspect explain {}/cpu.txt small",
    ),
    "explain: a filter": (["explain", "{}/cpu.txt", "small", "--op", "permute"], "No such option"),
    "diff: one dump": (["diff", "{}/cpu.txt"], "Missing argument 'B'"),
    "diff: three dumps": (["diff", "{}/cpu.txt", "{}/cpu.txt", "{}/gpu.txt"], "unexpected extra argument"),
    "diff: a rule": (["diff", "{}/cpu.txt", "{}/cpu.txt", "--profile", "domain"], "No such option"),
    "diff: nothing in common": (["diff", "{}/dump", "{}/other"], "diff: no module is in both dumps; the first has"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, text in {"cpu.txt": CPU_SYNC, "gpu.txt": gpu_start_done(None), "none.hlo": NO_COLLECTIVE}.items():
        (folder / name).write_text(text)
    (folder / "axis.txt").write_text(UNKNOWN_AXIS)
    for dump, modules in {"empty": "", "dump": "ab", "other": "cd"}.items():
        (folder / dump).mkdir()
        for name in modules:
            (folder / dump / f"{name}.cpu_after_optimizations.txt").write_text(CPU_SYNC.replace("jit_step", name))
    return folder


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_ends_with_2_and_a_sentence(files: Path, case: str) -> None:
    arguments, sentence = WRONG[case]
    result = inspect(*(argument.replace("{}", str(files)) for argument in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert sentence.replace("{}", str(files)) in result.stderr.splitlines()[-1]


def test_a_folder_with_the_name_of_a_command_is_read_by_its_path(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "other").rename(files / "diff")
    monkeypatch.chdir(files)
    assert "6 collectives in 2 modules" in inspect("./diff").stdout
    assert "12 collectives in 4 modules" in inspect("dump", "diff").stdout
    (files / "diff").rename(files / "other")


@pytest.mark.parametrize("command", [[], ["decide"], ["explain"], ["diff"]])
def test_each_command_has_json_and_its_own_help(command: list[str]) -> None:
    result = inspect(*command, "--help")
    assert result.exit_code == 0
    assert f"Usage: xla-shmem inspect {' '.join([*command, '[OPTIONS]'])}" in " ".join(result.stdout.split())
    assert re.search(r"^  --json +Print JSON", result.stdout, re.MULTILINE)


def test_the_help_lists_the_commands() -> None:
    commands = inspect("--help").stdout.partition("\nCommands:\n")[2]
    assert [line.split()[0] for line in commands.splitlines()] == ["decide", "explain", "diff"]
