"""Spin checks the models of the protocols: every state of them at these sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from bounds import CHECKED
from spin_checks import MODELS, Bounds, Statement, Verifier, check_complete, unreached

NOT_REACHED: dict[str, set[Statement]] = {}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("bounds", CHECKED, ids=str)
def test_a_model_has_no_error(tmp_path: Path, bounds: Bounds) -> None:
    verifier = Verifier(tmp_path, (MODELS / bounds.model).read_text(), bounds)
    output = verifier.search()
    check_complete(output)
    left = unreached(output)
    NOT_REACHED[bounds.model] = NOT_REACHED.get(bounds.model, left) & left
    if bounds.ends:
        check_complete(verifier.search_endless_runs())


def test_every_model_is_checked() -> None:
    assert {str(path.relative_to(MODELS)) for path in MODELS.rglob("*.pml")} == {bounds.model for bounds in CHECKED}


@pytest.mark.parametrize("model", sorted({bounds.model for bounds in CHECKED}))
def test_every_statement_is_reached_at_some_size(model: str) -> None:
    """After the searches. A statement that none of them reaches says nothing about the protocol."""
    assert model in NOT_REACHED, "run the whole file: this test needs the results of the searches"
    left = sorted((statement.process, statement.text) for statement in NOT_REACHED[model])
    assert not left, "\n".join(f"{process}: {text}" for process, text in left)


def test_a_search_that_is_cut_off_is_no_proof(tmp_path: Path) -> None:
    bounds = Bounds("cpu/revoke.pml", polls=True)
    output = Verifier(tmp_path, (MODELS / bounds.model).read_text(), bounds).search(depth=20)
    with pytest.raises(AssertionError, match="not exhaustive"):
        check_complete(output)


def test_a_statement_that_is_never_reached_is_seen(tmp_path: Path) -> None:
    text = "byte x;\ninit {\n  if\n  :: x == 1 -> x = 2\n  :: x == 0 -> x = 3\n  fi\n}\n"
    output = Verifier(tmp_path, text, Bounds("dead.pml")).search()
    check_complete(output)
    assert [(left.process, left.text) for left in unreached(output)] == [("init", 'dead.pml:4: "x = 2"')]


def test_a_machine_without_spin_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match="apt-get install spin gcc"):
        Verifier(tmp_path, "", CHECKED[0])
