"""Wrong uses of `xla-shmem launch`: a sentence on stderr, exit code 2, and no rank has run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from launched_jobs import command, environment

from xla_shmem.xla_flags import FLAG

TOO_MANY = str(len(os.sched_getaffinity(0)) + 1)
RUN = ["--", "touch", "{folder}/ran"]

WRONG: dict[str, tuple[list[str], str]] = {
    "no rank": (["-n", "0", *RUN], "0 is not in the range x>=1."),
    "fewer ranks than none": (["-n", "-1", *RUN], "-1 is not in the range x>=1."),
    "ranks in words": (["-n", "two", *RUN], "'two' is not a valid integer range."),
    "half a rank": (["-n", "1.5", *RUN], "'1.5' is not a valid integer range."),
    "ranks left out": (RUN, "Missing option '-n' / '--num-ranks'."),
    "ranks without a number": (["-n"], "Option '-n' requires an argument."),
    "no command": (["-n", "2"], "Missing argument 'COMMAND...'."),
    "no command behind the dashes": (["-n", "2", "--"], "Missing argument 'COMMAND...'."),
    "an unknown option": (["-n", "2", "--what", *RUN], "No such option"),
    "an option cut short": (["--num-rank", "2", *RUN], "Did you mean"),
    "a flag with a value": (["-n", "2", "--prefix=3", *RUN], "Option '--prefix' does not take a value."),
    "no device": (["-n", "2", "--devices-per-process", "0", *RUN], "0 is not in the range x>=1."),
    "devices in words": (["-n", "2", "--devices-per-process", "all", *RUN], "'all' is not a valid integer range."),
    "a negative grace": (["-n", "2", "--grace", "-1", *RUN], "-1.0 is not in the range x>=0."),
    "a grace in words": (["-n", "2", "--grace", "soon", *RUN], "'soon' is not a valid float range."),
    "a grace that is no number": (
        ["-n", "2", "--grace", "nan", *RUN],
        "--grace nan: must be a number of seconds, or inf.",
    ),
    "more bound ranks than processors": (
        ["-n", TOO_MANY, "--bind", *RUN],
        f"--bind: {TOO_MANY} ranks cannot have processors of their own: there are {int(TOO_MANY) - 1}.",
    ),
    "a program that is not there": (
        ["-n", "2", "{folder}/gone"],
        "cannot run '{folder}/gone': there is no such program; give its path, or add its folder to PATH.",
    ),
    "an empty program": (["-n", "2", ""], "cannot run '': there is no such program; give its path"),
    "a folder": (["-n", "2", "{folder}"], "cannot run '{folder}': it is no executable file; make it one with chmod +x"),
    "a file without permission": (
        ["-n", "2", "{folder}/data"],
        "cannot run '{folder}/data': it is no executable file;",
    ),
    "a file without a first line": (
        ["-n", "2", "{folder}/script"],
        "cannot run '{folder}/script': it is no program; give a script a first line such as #!/bin/sh",
    ),
}

WRONG_VARIABLES = {
    "a name that is no option": ({"XLA_SHMEM_TRESHOLD": "4K"}, "did you mean XLA_SHMEM_THRESHOLD?"),
    "a flag that is no bool": ({"XLA_FLAGS": f"{FLAG}=on"}, f"XLA_FLAGS: {FLAG}=on: must be true, false, 1 or 0."),
}


def _refused(folder: Path, arguments: list[str], words: str, **environ: str) -> None:
    (folder / "data").touch(0o644)
    (folder / "script").touch(0o755)
    arguments = [argument.replace("{folder}", str(folder)) for argument in arguments]
    done = subprocess.run(
        command("launch", *arguments),
        env=environment(**environ),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    error = done.stderr.splitlines()[-1]
    assert error.startswith("Error: ")
    assert words.replace("{folder}", str(folder)) in error
    assert "Traceback" not in done.stderr
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_use_is_one_sentence(what: str, tmp_path: Path) -> None:
    _refused(tmp_path, *WRONG[what])


@pytest.mark.parametrize("what", WRONG_VARIABLES)
def test_a_wrong_variable_is_one_sentence(what: str, tmp_path: Path) -> None:
    environ, words = WRONG_VARIABLES[what]
    _refused(tmp_path, ["-n", "2", *RUN], words, **environ)
