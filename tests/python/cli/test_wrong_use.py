"""Exit codes, names of commands and variables, lists and completion, of all commands alike."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from xla_shmem.cli.main import main
from xla_shmem.options.table import TABLE
from xla_shmem.options.values import OPS
from xla_shmem.xla_flags import FLAG

#: Wrong uses of each command: arguments, and words of the sentence.
WRONG_USES = [
    (["train", "--corpus", "/no/such/text", "--preset", "tiny"], "/no/such/text"),
    (["train", "--context", "3", "--sequence", "1024"], "context"),
    (["train", "--preset", "huge"], "'huge' is not one of"),
    (["train", "--attention", "star"], "'star' is not one of 'ring', 'gather'"),
    (["train", "--config", "/no/such/job.toml"], "/no/such/job.toml"),
    (["compare", "--steps", "1"], "steps is 1; step times are measured from step 3 on"),
    (["compare", "--seq", "many"], "sequence is 'many'; it must be a list of numbers"),
    (["demo", "--steps", "1"], "No such option"),
    (["postmortem", "zzz"], "no job zzz in "),
    (["postmortem", "/no/such/folder"], "/no/such/folder holds no flight records; "),
    (["predict"], "Missing PATH"),
    (["predict", "/no/such/dump"], "/no/such/dump"),
    (["predict", "--cluster", "cray", "/no/such/dump"], "cluster cray is neither a file nor one of"),
    (["bench", "--op", "permute,reduce"], "'reduce' is not one of all-reduce, collective-permute"),
    (["bench", "--vs", "XLA_SHMEM_GPU_PERMUTE=copies", "--platform", "cpu"], "because this process uses no GPU"),
    (["bench", "--vs", "XLA_SHMEM_TUNING=table.json", "--platform", "cpu"], "because only profile tuned reads it"),
    (["tune", "--dtype", "f32,f8"], "'f8' is not one of f32, f64"),
    (["tune", "--show", "--tuning", "/no/such/table"], "there is no such file; `xla-shmem tune` writes one."),
    (["options", "profile"], "Got unexpected extra argument (profile)"),
    (["launch", "-n", "1", "/no/such/program"], "cannot run '/no/such/program'"),
]


def _invoke(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(main, arguments, env={option.env: None for option in TABLE.values()} | environ)


def _said(result: Result) -> str:
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(("arguments", "words"), WRONG_USES, ids=[" ".join(each) for each, _ in WRONG_USES])
def test_wrong_use_is_a_sentence_and_exit_code_2(arguments: list[str], words: str, tmp_path: Path) -> None:
    result = _invoke(*arguments, XLA_SHMEM_RECORDS=str(tmp_path))
    assert result.exit_code == 2, result.output
    assert words in _said(result)
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["launch", "train", "inspect", "postmortem", "bench", "tune", "compare", "predict"])
def test_a_variable_that_is_no_option_is_refused_by_every_command(command: str) -> None:
    result = _invoke(command, XLA_SHMEM_TRESHOLD="4K")
    assert result.exit_code == 2
    assert _said(result) == ("Error: XLA_SHMEM_TRESHOLD is no option of xla-shmem; did you mean XLA_SHMEM_THRESHOLD?")
    assert _invoke(command, "--help", XLA_SHMEM_TRESHOLD="4K").exit_code == 0


def test_a_wrong_value_of_the_flag_is_refused_before_ranks_start() -> None:
    result = _invoke("bench", "-n", "2", "--platform", "cpu", XLA_FLAGS=f"{FLAG}=maybe")
    assert result.exit_code == 2
    assert _said(result) == f"Error: XLA_FLAGS: {FLAG}=maybe: must be true, false, 1 or 0."


def test_the_list_of_options_is_printed_before_the_variable_is_refused() -> None:
    result = _invoke("options", XLA_SHMEM_COFFEE="1")
    assert result.exit_code == 2
    assert "XLA_SHMEM_THRESHOLD" in result.stdout
    assert "XLA_SHMEM_COFFEE is no option of xla-shmem; unset it." in _said(result)


@pytest.mark.parametrize(
    ("name", "hint"), [("inspct", "did you mean inspect?"), ("xyz", "choose one of launch, train")]
)
def test_an_unknown_command_is_answered_with_the_nearest(name: str, hint: str) -> None:
    result = _invoke(name)
    assert result.exit_code == 2
    assert f"No such command '{name}'; {hint}" in _said(result)


def test_python_runs_the_package_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "xla_shmem", "inspct"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: xla-shmem [OPTIONS] COMMAND")
    assert "did you mean inspect?" in done.stderr


def test_options_as_json_are_those_of_the_table() -> None:
    found = json.loads(_invoke("options", "--json").stdout)
    assert [one["variable"] for one in found] == [option.env for option in TABLE.values()]
    assert {one["keyword"]: one["default"] or "" for one in found} == {name: row.default for name, row in TABLE.items()}


def test_every_command_that_reports_has_json() -> None:
    context = click.Context(main)
    without = [
        name
        for name in main.list_commands(context)
        if "--json" not in [one for p in main.get_command(context, name).params for one in p.opts]  # type: ignore[union-attr]
    ]
    assert without == ["launch"]


def _value(command: str, option: str, *lists: str) -> object:
    found = main.get_command(click.Context(main), command)
    assert found is not None
    arguments = [word for text in lists for word in (option, text)]
    context = found.make_context(command, arguments)
    return next(context.params[p.name] for p in found.params if option in p.opts and p.name)


@pytest.mark.parametrize("command", ["bench", "tune"])
def test_ops_are_lists_of_full_and_short_names(command: str) -> None:
    both = ("collective-permute", "all-reduce")
    assert _value(command, "--op", "permute, All-Reduce,permute") == both
    assert _value(command, "--op", "permute", "all-reduce") == both
    assert _value("bench", "--op") == ("all-reduce",)


def test_element_types_are_a_list() -> None:
    assert _value("tune", "--dtype", "f32,bf16", "f32") == ("f32", "bf16")


def _completions(*words: str) -> list[str]:
    *arguments, begun = words
    found = ShellComplete(main, {}, "xla-shmem", "_XLA_SHMEM_COMPLETE").get_completions(arguments, begun)
    return [item.value for item in found]


def test_a_shell_completes_commands_and_choices() -> None:
    assert _completions("pre") == ["predict"]
    assert _completions("train", "--attention", "r") == ["ring"]
    assert "tiny" in _completions("train", "--preset", "")
    assert set(_completions("bench", "--op", "")) == {*OPS, "all", "permute", "broadcast"}
    assert _completions("bench", "--op", "permute,all-r") == ["permute,all-reduce"]
    assert _completions("tune", "--dtype", "f32,u1") == ["f32,u16"]
    assert _completions("bench", "--vs", "stock,XLA_SHMEM_SPIN") == ["stock,XLA_SHMEM_SPIN_US="]
    assert _completions("predict", "--cluster", "h1") == ["h100-sxm"]
