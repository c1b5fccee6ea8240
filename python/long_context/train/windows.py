"""The tokens of each step as a pure function of the step; a rank reads only its own part of them."""

from __future__ import annotations

import dataclasses

import grain
import numpy as np
from numpy.typing import NDArray

from long_context.train.corpus import CorpusError, TokenRange, Tokens

Pair = tuple[NDArray[np.int32], NDArray[np.int32]]


@dataclasses.dataclass(frozen=True)
class Windows:
    """Batches of windows of a corpus. To resume at step `n`, read step `n`.

    The windows are `sequence` tokens long and do not overlap. Each epoch uses every window once, in an order that grain
    computes lazily from (`seed`, epoch), so memory does not grow with the corpus. A batch may span two epochs.

    Attributes:
      tokens: the corpus.
      sequence: tokens in a window.
      batch: windows in a batch, over all ranks.
      seed: seed of the order.

    Raises:
      CorpusError: the corpus is shorter than one window.
    """

    tokens: Tokens | TokenRange
    sequence: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if self.per_epoch < 1:
            raise CorpusError(
                f"the corpus has {len(self.tokens)} tokens, one window of {self.sequence} needs {self.sequence + 1}; "
                "choose a shorter sequence or more text."
            )

    @property
    def per_epoch(self) -> int:
        """Number of windows in an epoch."""
        return (len(self.tokens) - 1) // self.sequence  # - 1: the last token is only a target

    def read(self, step: int, rows: range, positions: NDArray[np.intp]) -> Pair:
        """Inputs and targets (the inputs shifted by one token) of a part of a step, each [rows, positions].

        Args:
          step: number of the step, from 0.
          rows: rows of the batch.
          positions: positions in the sequence, in any order; consecutive positions are read together.
        """
        runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
        order = grain.MapDataset.range(self.per_epoch).seed(self.seed).shuffle().repeat()
        inputs, targets = [], []
        for row in rows:
            start = order[step * self.batch + row] * self.sequence
            read = [self.tokens.read(start + int(run[0]), start + int(run[-1]) + 2) for run in runs]
            inputs.append(np.concatenate([tokens[:-1] for tokens in read]))
            targets.append(np.concatenate([tokens[1:] for tokens in read]))
        return np.stack(inputs), np.stack(targets)
