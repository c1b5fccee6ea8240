"""The corpus: its tokens have a fixed order, and any part of any step can be read by itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from long_context.train.corpus import CorpusError, TokenFile, Tokens, open_corpus, standard_library_sources
from long_context.train.windows import Windows


def numbered(folder: Path, total: int, vocab: int = 251) -> Tokens:
    path = folder / f"{total}.npy"
    np.save(path, (np.arange(total) % vocab).astype(np.uint8))
    return Tokens([TokenFile(path, "")], vocab)


def step(windows: Windows, number: int) -> tuple[np.ndarray, np.ndarray]:
    return windows.read(number, range(windows.batch), np.arange(windows.sequence))


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_the_standard_library_is_real_python_text() -> None:
    sources = standard_library_sources()
    assert sources == standard_library_sources()
    tokens = open_corpus("", "", 256)
    assert len(tokens) == sum(path.stat().st_size for path in sources) > 1_000_000
    at = sources[0].stat().st_size
    assert tokens.read(0, at + 5).astype(np.uint8).tobytes() == sources[0].read_bytes() + sources[1].read_bytes()[:5]


def test_sources_come_in_order_of_their_relative_path(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.py", "a.py", "c.txt", "site-packages/x.py", "test/y.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    sources = standard_library_sources(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in sources] == ["a.py", "a/z.py", "b.py"]


def test_a_folder_of_text_is_read_in_order_without_hidden_files(tmp_path: Path) -> None:
    write(tmp_path, b_txt="two", a_md="one", _hidden="no")
    (tmp_path / "empty.txt").write_text("")
    tokens = open_corpus(str(tmp_path), "", 256)
    assert tokens.read(0, len(tokens)).astype(np.uint8).tobytes() == b"onetwo"


def test_json_lines_are_read_as_their_texts_at_any_position(tmp_path: Path) -> None:
    texts = ["first", "", "naïve\nsecond", "third"]
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts))
    tokens = open_corpus(str(path), "", 256)
    whole = "".join(text + "\n" for text in texts).encode()
    assert len(tokens) == len(whole)
    for start in range(len(whole)):
        assert tokens.read(start, len(whole)).astype(np.uint8).tobytes() == whole[start:]


@pytest.mark.parametrize("dtype", ["uint16", "int64"])
def test_a_bin_file_is_its_tokens(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    np.arange(300).astype(dtype).tofile(path)
    tokens = open_corpus(str(path), dtype, 300)
    np.testing.assert_array_equal(tokens.read(250, 300), np.arange(250, 300))


def test_token_files_of_a_folder_follow_one_another(tmp_path: Path) -> None:
    for name in ("1", "2"):
        np.save(tmp_path / f"{name}.npy", np.full(4, int(name), np.uint16))
    assert open_corpus(str(tmp_path), "", 3).read(2, 7).tolist() == [1, 1, 2, 2, 2]


def test_the_error_names_the_file_that_cannot_be_used(tmp_path: Path) -> None:
    def problem(corpus: Path, vocab: int = 256, dtype: str = "") -> str:
        with pytest.raises(CorpusError) as error:
            open_corpus(str(corpus), dtype, vocab).read(0, 3)
        return str(error.value)

    assert "neither a file nor a folder" in problem(tmp_path / "nowhere")
    assert "contains no files; omit it to train on" in problem(tmp_path)
    line = tmp_path / "broken.jsonl"
    line.write_text('{"text": "fine"}\n{"txt": "lost"}\n')
    assert 'broken.jsonl, line 2 is not a JSON object with a string "text"' in problem(line)
    raw = tmp_path / "raw.bin"
    raw.write_bytes(b"12345")
    assert "set token-dtype: uint8, uint16" in problem(raw)
    assert "has 5 bytes, not a multiple of the 2 bytes of a uint16 token" in problem(raw, dtype="uint16")
    assert "mixes kinds of files (broken.jsonl, raw.bin)" in problem(tmp_path)
    floats = tmp_path / "floats.npy"
    np.save(floats, np.ones((2, 3)))
    assert "holds float64 of shape (2, 3); expected one dimension of integers" in problem(floats)
    fake = tmp_path / "fake.npy"
    fake.write_text("text")
    assert "fake.npy is not a NumPy file" in problem(fake)
    picture = tmp_path / "picture.txt"
    picture.write_bytes(b"\x89PNG\0\0")
    assert "picture.txt is not text (it contains a NUL byte)" in problem(picture)
    words = tmp_path / "words.txt"
    words.write_text("words")
    assert "vocab is 100; text is read as bytes and needs vocab = 256" in problem(words, vocab=100)
    large = tmp_path / "large.npy"
    np.save(large, np.array([1, 2, 70_000], np.uint32))
    assert "large.npy: token 2 is 70000; the model's vocabulary has 50000 tokens" in problem(large, vocab=50_000)


def test_targets_are_the_next_tokens(tmp_path: Path) -> None:
    inputs, targets = step(Windows(numbered(tmp_path, 1000), sequence=16, batch=3, seed=0), 4)
    assert inputs.shape == targets.shape == (3, 16)
    np.testing.assert_array_equal((inputs + 1) % 251, targets)


def test_a_resumed_job_sees_what_an_uninterrupted_one_sees(tmp_path: Path) -> None:
    uninterrupted = Windows(numbered(tmp_path, 1000), sequence=16, batch=3, seed=7)
    before = [step(uninterrupted, number) for number in range(60)]
    resumed = Windows(numbered(tmp_path, 1000), sequence=16, batch=3, seed=7)
    for number in (59, 30, 31):
        np.testing.assert_array_equal(step(resumed, number), before[number])


def test_an_epoch_shows_every_window_once_and_the_next_in_another_order(tmp_path: Path) -> None:
    windows = Windows(numbered(tmp_path, 97), sequence=8, batch=3, seed=0)
    assert windows.per_epoch == 12
    first, second = (
        [int(start) for number in range(epoch * 4, epoch * 4 + 4) for start in step(windows, number)[0][:, 0]]
        for epoch in (0, 1)
    )
    assert sorted(first) == sorted(second) == list(range(0, 96, 8))
    assert first != second


def test_another_seed_gives_another_order(tmp_path: Path) -> None:
    a, b = (step(Windows(numbered(tmp_path, 1000), sequence=16, batch=3, seed=seed), 0)[0] for seed in (0, 1))
    assert not np.array_equal(a, b)


class _Counted(Tokens):
    """Counts the tokens that are read."""

    read_tokens = 0

    def read(self, start: int, stop: int) -> np.ndarray:
        self.read_tokens += stop - start
        return super().read(start, stop)


def test_a_part_of_a_step_is_read_without_the_rest(tmp_path: Path) -> None:
    numbered(tmp_path, 1000)
    counted = _Counted([TokenFile(tmp_path / "1000.npy", "")], 251)
    windows = Windows(counted, sequence=64, batch=4, seed=1)
    inputs, targets = step(windows, 2)
    zigzag = np.r_[8:16, 48:56]  # what the second of four ranks holds
    counted.read_tokens = 0
    part = windows.read(2, range(2, 3), zigzag)
    np.testing.assert_array_equal(part, (inputs[2:3, zigzag], targets[2:3, zigzag]))
    assert counted.read_tokens == 2 * (8 + 1)


def test_the_error_about_a_short_text_says_how_many_tokens_a_window_needs(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="the corpus has 16 tokens, one window of 16 needs 17"):
        Windows(numbered(tmp_path, 16), sequence=16, batch=2, seed=0)
