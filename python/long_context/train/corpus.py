"""A training corpus as one sequence of tokens, read in place: text files, JSON lines, memory-mapped token files."""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from long_context.train.config import TOKEN_DTYPES, ConfigError

#: Number of token values if tokens are bytes.
BYTES = 256

# Not part of the library itself, or missing from some distributions' packages.
_SKIPPED_FOLDERS = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3"})

_TOKEN_FILES = (".npy", ".bin")
_TEXT_CHECK_BYTES = 4096  # bytes at the beginning of a file that decide whether it is text


class CorpusError(ConfigError):
    """The training data cannot be used; the message names the file and the way out."""


class Part(Protocol):
    """Tokens of one file."""

    path: Path

    def __len__(self) -> int:
        """Number of tokens."""
        ...

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Tokens `start` to `stop`, which are inside the file."""
        ...


class TextFile:
    """A text file; every byte is a token."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = path.stat().st_size

    def __len__(self) -> int:
        return self._size

    def read(self, start: int, stop: int) -> NDArray[Any]:
        with self.path.open("rb") as file:
            file.seek(start)
            return np.frombuffer(file.read(stop - start), np.uint8)


class JsonLines:
    """A `.jsonl` file: the bytes of the field `text` of every line, each followed by a newline.

    Keeps only an index in memory, 16 bytes per line.

    Raises:
      CorpusError: a line is not a JSON object with a string `text`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        offsets, lengths = [], []
        with path.open("rb") as file:
            offset = 0
            for number, line in enumerate(file, start=1):
                if line.strip():
                    offsets.append(offset)
                    lengths.append(len(self._text(line, number)))
                offset += len(line)
        self._offsets = np.array(offsets, np.int64)
        self._ends = np.cumsum(np.array(lengths, np.int64))

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, start: int, stop: int) -> NDArray[Any]:
        texts = []
        with self.path.open("rb") as file:
            for index, first, last in pieces_between(self._ends, start, stop):
                file.seek(self._offsets[index])
                texts.append(self._text(file.readline(), index + 1)[first:last])
        return np.frombuffer(b"".join(texts), np.uint8)

    def _text(self, line: bytes, number: int) -> bytes:
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            raise CorpusError(f'{self.path}, line {number} is not a JSON object with a string "text".')
        return text.encode() + b"\n"


class TokenFile:
    """A memory-mapped file of tokens: a `.npy` file with one dimension, or a `.bin` file of `dtype`.

    Raises:
      CorpusError: the file is not one dimension of integers, or `dtype` is empty for a `.bin` file.
    """

    def __init__(self, path: Path, dtype: str) -> None:
        self.path = path
        self._tokens = self._map(dtype)
        if self._tokens.ndim != 1 or not np.issubdtype(self._tokens.dtype, np.integer):
            found = f"{self._tokens.dtype} of shape {self._tokens.shape}"
            raise CorpusError(f"{path} holds {found}; expected one dimension of integers.")

    def __len__(self) -> int:
        return len(self._tokens)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return np.asarray(self._tokens[start:stop])

    def _map(self, dtype: str) -> NDArray[Any]:
        if self.path.suffix == ".npy":
            try:
                mapped: NDArray[Any] = np.load(self.path, mmap_mode="r")
            except ValueError as error:
                raise CorpusError(f"{self.path} is not a NumPy file: {error}") from None
            return mapped
        if not dtype:
            raise CorpusError(
                f"{self.path} does not record the type of its tokens; set token-dtype: {', '.join(TOKEN_DTYPES)}."
            )
        size, width = self.path.stat().st_size, np.dtype(dtype).itemsize
        if size == 0 or size % width:
            raise CorpusError(f"{self.path} has {size} bytes, not a multiple of the {width} bytes of a {dtype} token.")
        return np.memmap(self.path, dtype, mode="r")


class Tokens:
    """The tokens of several files, one after the other.

    Args:
      parts: the files.
      vocab: number of token values; tokens are checked when they are read.
    """

    def __init__(self, parts: Sequence[Part], vocab: int) -> None:
        self._parts = parts
        self._vocab = vocab
        self._ends = np.cumsum([len(part) for part in parts], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __str__(self) -> str:
        files = f"{len(self._parts)} files" if len(self._parts) > 1 else self._parts[0].path.name
        return f"{len(self):,} tokens in {files}"

    def read(self, start: int, stop: int) -> NDArray[np.int32]:
        """Tokens `start` to `stop`.

        Raises:
          CorpusError: a token is outside the vocabulary.
        """
        pieces = []
        for index, first, last in pieces_between(self._ends, start, stop):
            piece = self._parts[index].read(first, last)
            wrong = np.flatnonzero((piece < 0) | (piece >= self._vocab))
            if wrong.size:
                raise CorpusError(
                    f"{self._parts[index].path}: token {first + int(wrong[0])} is {piece[wrong[0]]}; the model's "
                    f"vocabulary has {self._vocab} tokens, 0 to {self._vocab - 1}. Choose vocab or preset to match."
                )
            pieces.append(piece.astype(np.int32))
        return np.concatenate(pieces)


class TokenRange:
    """Some consecutive tokens of a corpus.

    Args:
      tokens: the corpus.
      start: index of the first token.
      stop: index after the last token.
    """

    def __init__(self, tokens: Tokens, start: int, stop: int) -> None:
        self._tokens, self._start, self._length = tokens, start, stop - start

    def __str__(self) -> str:
        return f"{self._length:,} tokens"

    def __len__(self) -> int:
        return self._length

    def read(self, start: int, stop: int) -> NDArray[np.int32]:
        """Tokens `start` to `stop` of the range."""
        return self._tokens.read(self._start + start, self._start + stop)


def open_corpus(corpus: str, token_dtype: str, vocab: int) -> Tokens:
    """The tokens of a file or folder.

    Args:
      corpus: a text, `.jsonl`, `.npy` or `.bin` file, or a folder with files of one of these kinds, read in the order
        of their relative paths without hidden files; empty for the sources of Python's standard library.
      token_dtype: element type of `.bin` files; empty if there are none.
      vocab: number of token values of the model.

    Raises:
      CorpusError: there are no files, or they cannot be used.
    """
    files = corpus_files(corpus) if corpus else standard_library_sources()
    kind = _kind(files[0])
    if kind == "parquet":
        raise CorpusError(f"{files[0]} holds documents, which need a tokenizer; set tokenizer to a tokenizer.json.")
    if kind != "tokens" and vocab < BYTES:
        raise CorpusError(f"vocab is {vocab}; text is read as bytes and needs vocab = {BYTES}.")
    parts: list[Part] = [_open(file, kind, token_dtype) for file in files]
    return Tokens(parts, vocab)


def corpus_files(corpus: str) -> list[Path]:
    """The file, or the files of a folder, all of one kind.

    Raises:
      CorpusError: there are no files, or files of several kinds.
    """
    path = Path(corpus)
    if not path.exists():
        raise CorpusError(
            f"corpus {corpus} is neither a file nor a folder; omit it to train on Python's standard library."
        )
    files = _files_of(path) if path.is_dir() else [path]
    kinds = {_kind(file): file for file in files}
    if len(kinds) > 1:
        first, second = list(kinds.values())[:2]
        raise CorpusError(
            f"corpus {corpus} mixes kinds of files ({first.name}, {second.name}); put only one kind in a folder."
        )
    return files


def standard_library_sources(root: Path | None = None) -> list[Path]:
    """Source files of the standard library, ordered by relative path.

    Args:
      root: the library's folder; by default that of the running interpreter.

    Raises:
      CorpusError: no `*.py` file under `root`.
    """
    root = root or Path(sysconfig.get_path("stdlib"))
    sources = []
    for folder, folders, files in os.walk(root):
        # Before `walk` enters them: installed packages may be many more files than the library.
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        sources += [Path(folder, name) for name in files if name.endswith(".py")]
    if not sources:
        raise CorpusError(f"{root} contains no Python sources to train on.")
    return _in_order(root, sources)


def _files_of(folder: Path) -> list[Path]:
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not files:
        raise CorpusError(f"corpus {folder} contains no files; omit it to train on Python's standard library.")
    return _in_order(folder, files)


def _in_order(root: Path, files: Sequence[Path]) -> list[Path]:
    return sorted(files, key=lambda path: path.relative_to(root).as_posix())


def _kind(path: Path) -> str:
    if path.suffix in _TOKEN_FILES:
        return "tokens"
    return path.suffix[1:] if path.suffix in (".jsonl", ".parquet") else "text"


def _open(path: Path, kind: str, token_dtype: str) -> Part:
    if kind == "tokens":
        return TokenFile(path, token_dtype)
    if kind == "jsonl":
        return JsonLines(path)
    with path.open("rb") as file:
        if b"\0" in file.read(_TEXT_CHECK_BYTES):
            raise CorpusError(
                f"{path} is not text (it contains a NUL byte); remove it. Token files end in .npy or .bin."
            )
    return TextFile(path)


def pieces_between(ends: NDArray[np.int64], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Splits `start` to `stop` at `ends`, the ends of pieces. Yields (piece, first, last) relative to the piece."""
    index = int(np.searchsorted(ends, start, side="right"))
    while start < stop:
        begin = int(ends[index - 1]) if index else 0
        last = min(stop, int(ends[index]))
        if last > start:
            yield index, start - begin, last - begin
            start = last
        index += 1
