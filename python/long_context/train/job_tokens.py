"""The tokens of a job: for training, and for validation if the job keeps some."""

from __future__ import annotations

from typing import NamedTuple

from long_context.train.config import TrainConfig
from long_context.train.corpus import CorpusError, TokenRange, Tokens, corpus_files, open_corpus
from long_context.train.documents import DOCUMENT_FILES, open_documents
from long_context.train.windows import Windows


class Data(NamedTuple):
    """The corpus of a job in two parts."""

    training: Tokens | TokenRange
    validation: Tokens | TokenRange | None

    def __str__(self) -> str:
        kept = "" if self.validation is None else f", {len(self.validation):,} more for validation"
        return f"{self.training}{kept}"

    def windows(self, config: TrainConfig) -> Windows:
        """The batches to train on.

        Raises:
          CorpusError: there is no whole window.
        """
        return Windows(self.training, config.sequence, config.batch, config.seed)

    def validation_windows(self, config: TrainConfig) -> tuple[Windows, int]:
        """The batches to measure on, and how many of them the job uses, in which no window is twice.

        Raises:
          CorpusError: there is not one whole batch.
        """
        assert self.validation is not None
        windows = Windows(self.validation, config.sequence, config.batch, config.seed)
        batches = min(config.validation_batches, windows.per_epoch // config.batch)
        if not batches:
            raise CorpusError(
                f"validation keeps {windows.per_epoch} windows of {config.sequence} tokens and a batch has "
                f"{config.batch}; keep more (validation), or choose a smaller batch or a shorter sequence."
            )
        return windows, batches


def open_data(config: TrainConfig) -> Data:
    """Opens a job's corpus.

    Documents are split at random; of any other corpus the last tokens are for validation.

    Raises:
      ConfigError: the corpus or the tokenizer cannot be used, or packages are missing.
    """
    vocab = config.model().vocab
    if config.tokenizer:
        files = corpus_files(config.corpus)
        if files[0].suffix not in DOCUMENT_FILES:
            raise CorpusError(
                f"{files[0]} is no file of documents ({', '.join(DOCUMENT_FILES)}), and only these go through a "
                "tokenizer; omit tokenizer to read bytes or tokens."
            )
        parts = open_documents(files, config.tokenizer, config.text_field, vocab, config.validation, config.seed)
        return Data(*parts)
    tokens = open_corpus(config.corpus, config.token_dtype, vocab)
    if not config.validation:
        return Data(tokens, None)
    cut = round(len(tokens) * (1 - config.validation))
    return Data(TokenRange(tokens, 0, cut), TokenRange(tokens, cut, len(tokens)))
