"""Documents from parquet or JSON-lines files, through a tokenizer of Hugging Face `tokenizers`, as one token sequence.

Hugging Face `datasets` reads the files and keeps the tokens in its cache, memory-mapped, so a corpus is tokenized once.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from long_context.train.config import ConfigError
from long_context.train.corpus import CorpusError, Tokens, pieces_between

#: File endings of documents.
DOCUMENT_FILES = (".parquet", ".jsonl")


class Documents:
    """The tokens of documents, one after the other, a `Part` of a corpus.

    Args:
      path: where the documents come from, for messages.
      dataset: rows with `tokens` and their number `length`.
    """

    def __init__(self, path: Path, dataset: Any) -> None:
        self.path = path
        self._rows = dataset.with_format("numpy")
        self._ends = np.cumsum(np.asarray(self._rows["length"][:], np.int64))

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Tokens `start` to `stop`."""
        parts = [
            self._rows[index]["tokens"][first:last].astype(np.int64)
            for index, first, last in pieces_between(self._ends, start, stop)
        ]
        return np.concatenate([*parts, np.zeros(0, np.int64)])


def open_documents(
    files: Sequence[Path], tokenizer: str, field: str, vocab: int, validation: float, seed: int
) -> tuple[Tokens, Tokens | None]:
    """The tokens for training, and those for validation if there are any.

    A document is encoded with the special tokens that the tokenizer's file adds, such as a begin token.

    Args:
      files: `.parquet` or `.jsonl` files of one kind.
      tokenizer: a `tokenizer.json`.
      field: column with the text.
      vocab: number of token values of the model.
      validation: fraction of the documents, drawn at random, to keep for validation.
      seed: seed of the draw.

    Raises:
      ConfigError: packages are missing.
      CorpusError: a file, the column or the tokenizer cannot be used.
    """
    _check_packages()
    # The files are local. The package would otherwise ask its hub about them.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from filelock import FileLock

    values = _tokenizer(tokenizer, _digest(tokenizer)).get_vocab_size()
    if values > vocab:
        raise CorpusError(
            f"tokenizer {tokenizer} has {values} token values and the model {vocab}; set vocab to {values} or more."
        )
    texts = _texts(files, field)
    folder = Path(texts.cache_files[0]["filename"]).parent
    with FileLock(folder / "xla-shmem.lock"):  # the first of a machine's ranks tokenizes, the others find the result
        rows = texts.map(
            _encoded,
            batched=True,
            remove_columns=texts.column_names,
            fn_kwargs={"tokenizer": tokenizer, "digest": _digest(tokenizer), "field": field},
            desc="tokenizing",
        )
    if not validation:
        return _tokens(files, rows, vocab), None
    kept = round(len(rows) * validation)
    if not 0 < kept < len(rows):
        raise CorpusError(f"validation {validation} of {len(rows)} documents leaves one part empty; use more of them.")
    order = np.random.default_rng(seed).permutation(len(rows))
    return _tokens(files, rows, vocab, order[kept:]), _tokens(files, rows, vocab, order[:kept])


def _check_packages() -> None:
    missing = [name for name in ("tokenizers", "datasets") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"tokenizer needs {', '.join(missing)}: pip install './python/long_context[data]' in a clone."
        )


def _tokens(files: Sequence[Path], rows: Any, vocab: int, some: NDArray[np.intp] | None = None) -> Tokens:
    """The tokens of all rows, or of some, in the corpus's order."""
    if some is not None:
        rows = rows.select(np.sort(some), keep_in_memory=True)
    return Tokens([Documents(files[0], rows)], vocab)


def _texts(files: Sequence[Path], field: str) -> Any:
    """The rows of all files with the column `field`."""
    import datasets

    read = datasets.Dataset.from_parquet if files[0].suffix == ".parquet" else datasets.Dataset.from_json
    try:
        texts: Any = read([str(file.resolve()) for file in files])
    except (datasets.exceptions.DatasetGenerationError, ValueError, StopIteration) as error:
        reason = error.__cause__ or error
        raise CorpusError(f"{files[0]} or a file beside it has no documents that can be read: {reason}") from None
    if field not in texts.column_names:
        raise CorpusError(
            f"{files[0]} has no column {field!r} but {', '.join(texts.column_names)}; set text-field to the text's."
        )
    return texts.select_columns(field)


def _encoded(batch: dict[str, list[str]], tokenizer: str, digest: str, field: str) -> dict[str, list[Any]]:
    """Tokens of a batch of texts. `digest` makes the cache forget tokens of a tokenizer that has changed."""
    found = [np.array(each.ids, np.int32) for each in _tokenizer(tokenizer, digest).encode_batch(batch[field])]
    return {"tokens": found, "length": [len(each) for each in found]}


@functools.lru_cache(maxsize=1)
def _tokenizer(path: str, digest: str) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(path)
    except Exception as error:  # the package raises plain exceptions
        raise CorpusError(f"{path} is no tokenizer of Hugging Face's tokenizers (tokenizer.json): {error}") from None


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise CorpusError(f"tokenizer {path} cannot be read: {error.strerror}.") from None
