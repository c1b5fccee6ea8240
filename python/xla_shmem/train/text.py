"""Byte-level training data from text that every machine has: the sources of Python's standard library."""

from __future__ import annotations

import dataclasses
import sysconfig
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Not the library's own text, or left out by some distributions' packages.
_SKIPPED_FOLDERS = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3"})


def standard_library_sources(root: Path | None = None) -> list[Path]:
    """Source files of the standard library in a fixed order (by relative path).

    Args:
      root: folder to look in; by default the running interpreter's standard library.

    Raises:
      FileNotFoundError: no `*.py` file under `root`.
    """
    root = root or Path(sysconfig.get_path("stdlib"))
    sources = [path for path in root.rglob("*.py") if not _SKIPPED_FOLDERS.intersection(path.relative_to(root).parts)]
    if not sources:
        raise FileNotFoundError(f"{root} holds no Python sources to train on.")
    return sorted(sources, key=lambda path: path.relative_to(root).as_posix())


def read_bytes(sources: list[Path]) -> NDArray[np.uint8]:
    """All files' bytes one after the other, [total]; every byte is a token."""
    return np.frombuffer(b"".join(path.read_bytes() for path in sources), dtype=np.uint8)


@dataclasses.dataclass(frozen=True)
class Windows:
    """Batches of text windows as a pure function of the step: to resume at step `n`, ask for step `n`.

    The text is cut into windows of `sequence` tokens that do not overlap; each epoch deals all of them once
    in an order drawn from (`seed`, epoch). An incomplete batch at the end of an epoch is left out.

    Attributes:
      text: [total] tokens.
      sequence: tokens in a window.
      batch: windows in a batch, over all ranks.
      seed: of the order.

    Raises:
      ValueError: the text is too short for one batch.
    """

    text: NDArray[np.uint8]
    sequence: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if self.batches_per_epoch < 1:
            raise ValueError(
                f"the text has {len(self.text)} tokens, one batch of {self.batch} windows of {self.sequence} "
                f"needs {self.batch * self.sequence + 1}."
            )

    @property
    def batches_per_epoch(self) -> int:
        """Batches before windows repeat."""
        return (len(self.text) - 1) // self.sequence // self.batch  # - 1: the last token is a target only

    def at(self, step: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Inputs and targets (the inputs shifted by one token) of a step, each [batch, sequence]."""
        epoch, index = divmod(step, self.batches_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation((len(self.text) - 1) // self.sequence)
        starts = order[index * self.batch : (index + 1) * self.batch] * self.sequence
        windows = self.text[starts[:, None] + np.arange(self.sequence + 1)].astype(np.int32)
        return windows[:, :-1], windows[:, 1:]
