"""Which tokens a step sees, as a pure function of the step; and how a rank reads no more than its own part of them."""

from __future__ import annotations

import dataclasses

import grain
import numpy as np
from numpy.typing import NDArray

from xla_shmem.train.corpus import CorpusError, Tokens

Pair = tuple[NDArray[np.int32], NDArray[np.int32]]


@dataclasses.dataclass(frozen=True)
class Windows:
    """Batches of windows of a corpus: to resume at step `n`, ask for step `n`.

    The tokens are cut into windows of `sequence` that do not overlap. Each epoch deals all of them once, in an order
    that grain computes from (`seed`, epoch) one number at a time, so nothing grows with the corpus; a batch may begin
    in one epoch and end in the next.

    Attributes:
      tokens: the corpus.
      sequence: tokens in a window.
      batch: windows in a batch, over all ranks.
      seed: of the order.

    Raises:
      CorpusError: the corpus is too short for one window.
    """

    tokens: Tokens
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
        """Windows before they repeat."""
        return (len(self.tokens) - 1) // self.sequence  # - 1: the last token is a target only

    def read(self, step: int, rows: range, positions: NDArray[np.intp]) -> Pair:
        """Inputs and targets (the inputs shifted by one token) of a part of a step, each [rows, positions].

        Args:
          step: any, from 0.
          rows: of the batch.
          positions: in the sequence, in any order; only these are read, a run of neighbours at a time.
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
