"""Training text: the same bytes in the same order everywhere, and any step can be asked for."""

from pathlib import Path

import numpy as np
import pytest

from xla_shmem.train.text import Windows, read_bytes, standard_library_sources


def numbered(total: int) -> np.ndarray:
    return (np.arange(total) % 251).astype(np.uint8)


def test_the_standard_library_is_real_python_text() -> None:
    sources = standard_library_sources()
    assert sources == standard_library_sources()
    text = read_bytes(sources).tobytes()
    assert len(text) > 1_000_000
    assert b"class JSONDecoder" in text


def test_sources_come_in_order_of_their_relative_path(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.py", "a.py", "c.txt", "site-packages/x.py", "test/y.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    sources = standard_library_sources(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in sources] == ["a.py", "a/z.py", "b.py"]
    assert read_bytes(sources).tobytes() == b"a.pya/z.pyb.py"


def test_a_folder_without_sources_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no Python sources to train on"):
        standard_library_sources(tmp_path)


def test_targets_are_the_next_tokens() -> None:
    inputs, targets = Windows(numbered(1000), sequence=16, batch=3, seed=0).at(4)
    assert inputs.shape == targets.shape == (3, 16)
    np.testing.assert_array_equal((inputs + 1) % 251, targets)


def test_a_resumed_job_sees_what_an_uninterrupted_one_sees() -> None:
    uninterrupted = Windows(numbered(1000), sequence=16, batch=3, seed=7)
    before = [uninterrupted.at(step) for step in range(60)]
    resumed = Windows(numbered(1000), sequence=16, batch=3, seed=7)
    for step in (59, 30, 31):
        np.testing.assert_array_equal(resumed.at(step), before[step])


def test_an_epoch_shows_every_window_once_and_the_next_in_another_order() -> None:
    windows = Windows(np.arange(97).astype(np.uint8), sequence=8, batch=3, seed=0)
    assert windows.batches_per_epoch == 4
    first, second = (
        [int(start) for step in range(epoch * 4, epoch * 4 + 4) for start in windows.at(step)[0][:, 0]]
        for epoch in (0, 1)
    )
    assert sorted(first) == sorted(second) == list(range(0, 96, 8))
    assert first != second


def test_another_seed_gives_another_order() -> None:
    a, b = (Windows(numbered(1000), sequence=16, batch=3, seed=seed).at(0)[0] for seed in (0, 1))
    assert not np.array_equal(a, b)


def test_a_text_too_short_for_a_batch_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match="the text has 32 tokens, one batch of 2 windows of 16 needs 33"):
        Windows(numbered(32), sequence=16, batch=2, seed=0)
