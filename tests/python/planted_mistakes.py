"""Mistakes planted in a copy of our sources, to see that tests find them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mutant:
    """A mistake.

    Attributes:
      file: under xla_patch/.
      original: stands in it once.
      replacement: what is written instead.
    """

    file: str
    original: str
    replacement: str


def without_a_place(mutants: Mapping[str, Mutant]) -> list[str]:
    """Returns the names of mistakes whose original does not stand in its file once."""
    return [
        name
        for name, mutant in mutants.items()
        if (ROOT / "xla_patch" / mutant.file).read_text().count(mutant.original) != 1
    ]


class SourceCopy:
    """A copy of xla_patch/ in `folder`. Only changed files are written, so that the others are not compiled again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for source in (ROOT / "xla_patch").rglob("*"):
            if source.is_file():
                self._write(source.relative_to(ROOT), source.read_bytes())

    def plant(self, mutant: Mutant) -> None:
        """Writes a mistake into the copy. Its original must stand there once."""
        path = Path("xla_patch") / mutant.file
        text = (ROOT / path).read_text()
        assert text.count(mutant.original) == 1, f"{path} does not have this text once: {mutant.original!r}"
        self._write(path, text.replace(mutant.original, mutant.replacement).encode())

    def restore(self, mutant: Mutant) -> None:
        path = Path("xla_patch") / mutant.file
        self._write(path, (ROOT / path).read_bytes())

    def _write(self, path: Path, content: bytes) -> None:
        target = self.folder / path
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def run(*command: str, limit: float = 900) -> None:
    """Runs a build step, which must succeed within `limit` seconds."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
