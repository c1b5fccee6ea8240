"""Documents through a tokenizer, validation, and what a job reports about them."""

import importlib.util
import json
from pathlib import Path

import datasets
import jax
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from long_context.train import step, trainer
from long_context.train.config import ConfigError, TrainConfig
from long_context.train.corpus import CorpusError
from long_context.train.job_tokens import open_data

WORDS = ["the", "ring", "sends", "a", "block", "of", "keys", "while", "ranks", "attend", "to", "others"]
#: Words in an order that can be learnt: each is followed by the next or the one after.
VOCAB = 64


def documents(count: int) -> list[str]:
    random, texts = np.random.default_rng(0), []
    for _ in range(count):
        at = np.cumsum(random.integers(1, 3, random.integers(20, 60)))
        texts.append(" ".join(WORDS[i % len(WORDS)] for i in at))
    return texts


TEXTS = documents(50)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    """A tokenizer file that puts a begin token before every document."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=["<s>"], show_progress=False))
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return str(path)


def write(folder: Path, kind: str, texts: list[str], field: str = "text") -> str:
    """Two files of documents in a folder."""
    folder = folder / kind
    folder.mkdir()
    for name, part in (("a", texts[:20]), ("b", texts[20:])):
        path = folder / f"{name}.{kind}"
        if kind == "parquet":
            pyarrow.parquet.write_table(pyarrow.table({"id": list(range(len(part))), field: part}), path)
        else:
            path.write_text("".join(json.dumps({"id": i, field: text}) + "\n" for i, text in enumerate(part)))
    return str(folder)


def job(corpus: str, tokenizer: str, **options: object) -> TrainConfig:
    defaults = {"preset": "tiny", "vocab": VOCAB, "context": 1, "sequence": 32, "batch": 2, "text_field": "body"}
    return TrainConfig(corpus=corpus, tokenizer=tokenizer, **(defaults | options))


def encoded(tokenizer: str, texts: list[str]) -> list[list[int]]:
    return [Tokenizer.from_file(tokenizer).encode(text).ids for text in texts]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_documents_are_encoded_one_after_the_other(tmp_path: Path, tokenizer: str, kind: str) -> None:
    found = open_data(job(write(tmp_path, kind, TEXTS, "body"), tokenizer))
    want = np.concatenate(encoded(tokenizer, TEXTS))
    assert found.validation is None
    assert found.training.read(0, len(found.training)).tolist() == want.tolist()
    assert found.training.read(77, 1234).tolist() == want[77:1234].tolist()
    windows = found.windows(job("x", tokenizer, sequence=100))
    assert windows.per_epoch == (len(want) - 1) // 100


def test_validation_keeps_whole_documents_that_training_never_sees(tmp_path: Path, tokenizer: str) -> None:
    found = open_data(job(write(tmp_path, "parquet", TEXTS, "body"), tokenizer, validation=0.2))

    def split(tokens) -> set[tuple[int, ...]]:
        whole = tokens.read(0, len(tokens))
        return {tuple(each) for each in np.split(whole, np.flatnonzero(whole == 0))[1:]}  # at begin tokens

    training, validation = split(found.training), split(found.validation)
    assert (len(training), len(validation)) == (40, 10)
    assert training | validation == {tuple(ids) for ids in encoded(tokenizer, TEXTS)}


def test_of_other_corpora_the_end_is_kept_for_validation(tmp_path: Path) -> None:
    np.save(tmp_path / "tokens.npy", np.arange(250, dtype=np.uint8))
    found = open_data(TrainConfig(corpus=str(tmp_path), validation=0.2, context=1))
    assert found.training.read(0, len(found.training)).tolist() == list(range(200))
    assert found.validation.read(10, 50).tolist() == list(range(210, 250))


def test_a_sequence_of_tokenized_documents_has_16384_tokens_by_default(tokenizer: str) -> None:
    assert TrainConfig(corpus="papers", tokenizer=tokenizer).sequence == 16384
    assert TrainConfig().sequence == 1024


def test_a_changed_tokenizer_does_not_find_the_old_tokens(tmp_path: Path, tokenizer: str) -> None:
    corpus = write(tmp_path, "parquet", TEXTS, "body")
    before = open_data(job(corpus, tokenizer)).training
    made = Tokenizer.from_file(tokenizer)
    made.post_processor = processors.TemplateProcessing(single="$A <s>", special_tokens=[("<s>", 0)])
    made.save(tokenizer)
    after = open_data(job(corpus, tokenizer)).training
    assert (before.read(0, 1)[0], after.read(len(after) - 1, len(after))[0]) == (0, 0)
    assert after.read(0, 1)[0] != 0


@pytest.mark.slow
def test_training_on_documents_lowers_the_validation_loss(tmp_path: Path, tokenizer: str) -> None:
    mesh = {"data": 2, "context": 2, "batch": 4}
    options = {"steps": 30, "learning_rate": 5e-3, "validation": 0.2, "validation_every": 10, "validation_batches": 4}
    config = job(write(tmp_path, "parquet", TEXTS, "body"), tokenizer, **mesh, **options)
    data, shape = open_data(config), config.mesh()

    def small(shape, devices=None):
        return make_mesh(shape, jax.devices()[: shape.devices])

    make_mesh, trainer.make_mesh = trainer.make_mesh, small
    try:
        records = list(trainer.train(config, data))
        state = step.init_state(config, small(shape))
    finally:
        trainer.make_mesh = make_mesh
    validated = {record.step: record.validation_loss for record in records if record.validation_loss is not None}
    assert list(validated) == [9, 19, 29]
    assert validated[29] < 0.5 * np.log(VOCAB), "the order of the words was not learnt"
    assert abs(validated[29] - records[29].loss) < 0.5
    # The loss of the fresh model on the same batches, computed on one device without a mesh.
    windows, batches = data.validation_windows(config)
    assert batches == min(4, (len(data.validation) - 1) // 32 // 4)
    from long_context.models.llama import Llama, next_token_loss

    losses = []
    for number in range(batches):
        inputs, targets = windows.read(number, range(4), np.arange(32))
        scores = Llama(config.model()).apply({"params": jax.device_get(state.params)}, inputs, np.arange(32))
        losses.append(float(next_token_loss(scores, targets)))
    validate = trainer._validation(config, small(shape), data, trainer.zigzag_order(32, 2))
    assert validate(state, 10) == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_field": "text"}, "no column 'text' but id, body; set text-field"),
        ({"vocab": 32}, r"has (\d+) token values and the model 32; set vocab to \1 or more"),
        ({"validation": 0.001}, "validation 0.001 of 50 documents leaves one part empty"),
    ],
    ids=str,
)
def test_the_error_about_documents_says_what_to_change(tmp_path, tokenizer, options, message) -> None:
    with pytest.raises(CorpusError, match=message):
        open_data(job(write(tmp_path, "jsonl", TEXTS, "body"), tokenizer, **options))


def test_missing_packages_are_named_with_the_command_that_installs_them(tmp_path, tokenizer, monkeypatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tokenizers" else find(name))
    with pytest.raises(ConfigError, match=r"tokenizers: pip install './python/long_context\[data\]' in a clone"):
        open_data(job(write(tmp_path, "jsonl", TEXTS, "body"), tokenizer))


@pytest.mark.parametrize(("kind", "text"), [("jsonl", ""), ("jsonl", "no json"), ("parquet", "no parquet")])
def test_a_file_without_documents_is_named(tmp_path: Path, tokenizer: str, kind: str, text: str) -> None:
    path = tmp_path / f"wrong.{kind}"
    path.write_text(text)
    with pytest.raises(CorpusError, match=rf"wrong\.{kind} or a file beside it has no documents that can be read"):
        open_data(job(str(path), tokenizer))


@pytest.mark.parametrize("text", ["{}", "not json"])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(CorpusError, match=r"wrong\.json is no tokenizer"):
        open_data(job(write(tmp_path, "jsonl", TEXTS, "body"), str(path)))


def test_parquet_without_a_tokenizer_and_a_tokenizer_without_documents_are_refused(tmp_path, tokenizer) -> None:
    with pytest.raises(CorpusError, match="holds documents, which need a tokenizer"):
        open_data(TrainConfig(corpus=write(tmp_path, "parquet", TEXTS), context=1))
    with pytest.raises(ConfigError, match="tokenizer needs documents; set corpus"):
        TrainConfig(tokenizer=tokenizer)
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(CorpusError, match=r"a\.txt is no file of documents"):
        open_data(job(str(tmp_path / "a.txt"), tokenizer))


def test_too_few_windows_for_a_validation_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "tokens.npy", np.zeros(1000, np.uint8))
    config = TrainConfig(corpus=str(tmp_path), validation=0.1, sequence=32, batch=4, context=1)
    with pytest.raises(CorpusError, match="validation keeps 3 windows of 32 tokens and a batch has 4"):
        open_data(config).validation_windows(config)
