"""Runs Spin on the models, exhaustively."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

MODELS = Path(__file__).parent

INSTALL = "the models of the protocols need Spin and a C compiler: apt-get install spin gcc"

#: Words of a search that has not seen every state.
INCOMPLETE = ("Search not completed", "max search depth too small", "Bit statespace", "Hash-Compact", "out of memory")

#: Memory of a search, MiB.
MEMORY = 3500

#: Longest run that a search follows, in steps. A longer one makes the search incomplete, which is an error.
DEPTH = 1_000_000


@dataclass(frozen=True)
class Bounds:
    """A model with its sizes.

    Attributes:
      model: file, below this folder.
      defines: what differs from the sizes in the file.
      polls: processes look again and again for what has not come. They end only if each gets its turns.
      ends: whether the search for endless runs is made too, which takes several times the memory.
    """

    model: str
    defines: tuple[str, ...] = ()
    polls: bool = False
    ends: bool = True

    def __str__(self) -> str:
        return " ".join((self.model, *self.defines))


@dataclass(frozen=True)
class Statement:
    """A statement of a model that a search has not reached. Sizes change no numbers of statements."""

    process: str
    number: int
    text: str = field(compare=False)  # has sizes in it


class Verifier:
    """The verifier that Spin makes of a model: `text` with these bounds, in `folder`."""

    def __init__(self, folder: Path, text: str, bounds: Bounds) -> None:
        for tool in ("spin", "gcc"):
            assert shutil.which(tool) is not None, f"{tool} is missing; {INSTALL}"
        self._folder = folder
        self._bounds = bounds
        folder.mkdir(parents=True, exist_ok=True)
        name = Path(bounds.model).name
        (folder / name).write_text(text)
        self._run("spin", "-a", *(f"-D{define}" for define in bounds.defines), name)
        assert (folder / "pan.c").exists(), f"Spin made no verifier of {bounds}"

    def search(self, depth: int = DEPTH) -> str:
        """Looks at all states for failed assertions, and for processes that cannot go on. Returns what it says."""
        self._compile("search", "-DSAFETY")
        return self._run("./search", f"-m{depth}")

    def search_endless_runs(self) -> str:
        """Looks for runs without an end. No label marks progress, so each of them is a non-progress cycle."""
        self._compile("search_endless_runs", "-DNP", "-DNFAIR=3")
        return self._run("./search_endless_runs", f"-m{DEPTH}", "-l", *(["-f"] if self._bounds.polls else []))

    def _compile(self, name: str, *options: str) -> None:
        self._run("gcc", "-O1", "-w", f"-DMEMLIM={MEMORY}", *options, "-o", name, "pan.c")

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"{' '.join(command)} of {self._bounds}: {output[-4000:]}"
        return output


def error_of(output: str) -> str:
    """The mistake that a search has found, empty if there is none."""
    found = re.search(r"^pan:\d+: (.*)$", output, re.MULTILINE)
    return found.group(1) if found else ""


def check_complete(output: str) -> None:
    """Fails unless the search saw every state and found nothing."""
    assert not error_of(output), output
    assert "Full statespace search for:" in output, output
    assert re.search(r"errors: 0$", output, re.MULTILINE), output
    for words in INCOMPLETE:
        assert words not in output, f"{words}: the search is not exhaustive\n{output}"


def unreached(output: str) -> set[Statement]:
    """The statements that a complete search has not reached."""
    statements = set()
    process = ""
    for line in output.splitlines():
        if found := re.match(r"unreached in (.*)", line):
            process = found.group(1)
        elif found := re.match(r"\t(.*), state (\d+), (.*)", line):
            statements.add(Statement(process, int(found.group(2)), f"{found.group(1)}: {found.group(3)}"))
    return statements
