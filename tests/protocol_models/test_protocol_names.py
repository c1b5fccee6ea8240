"""Each action of a model names the C++ function that it stands for, these functions exist, and so do planted texts.

Needs no Spin.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from cpp_functions import defined_functions
from cpu_mistakes import CPU_MISTAKES
from gpu_mistakes import GPU_MISTAKES
from mistakes import Mistake
from spin_checks import MODELS

ROOT = Path(__file__).resolve().parents[2]
MODEL_FILES = sorted(MODELS.rglob("*.pml"))

#: The two forms of comment before an action.
FUNCTION = re.compile(r"/\* = (\S+) \((\S+)\) \*/")
ENVIRONMENT = re.compile(r"/\* environment: .+ \*/")
ACTION = re.compile(r"^(?:active .*)?(inline|proctype) (\w+)|^init\b")


@cache
def functions_of(path: str) -> set[str]:
    file = ROOT / path
    return defined_functions(file.read_text()) if file.is_file() else set()


@pytest.mark.parametrize("model", MODEL_FILES, ids=lambda path: path.stem)
def test_each_named_function_exists(model: Path) -> None:
    for line in model.read_text().splitlines():
        if "/* =" not in line:
            continue
        found = FUNCTION.fullmatch(line.strip())
        assert found, f"{model.name}: not of the form `/* = Class::Function (path) */`: {line}"
        name, path = found.groups()
        assert name in functions_of(path), f"{model.name}: {path} does not define {name}"


@pytest.mark.parametrize("model", MODEL_FILES, ids=lambda path: path.stem)
def test_each_action_has_a_name(model: Path) -> None:
    lines = model.read_text().splitlines()
    actions = 0
    for number, line in enumerate(lines):
        if not ACTION.match(line):
            continue
        actions += 1
        before = lines[number - 1]
        assert FUNCTION.fullmatch(before) or ENVIRONMENT.fullmatch(before), f"{model.name}: no name before: {line}"
    assert actions > 5


@pytest.mark.parametrize("model", MODEL_FILES, ids=lambda path: path.stem)
def test_processes_change_shared_words_only_by_actions(model: Path) -> None:
    """So that each change has a name."""
    text = model.read_text()
    shared = re.findall(r"^(?:byte|bit|bool|[A-Z]\w+) (\w+)(?:\[.*\])?(?: = .*)?;", text, re.MULTILINE)
    assert shared
    change = re.compile(rf"\b(?:{'|'.join(shared)})(?:\[[^=]*\])?(?:\.\w+)?(?:\[[^=]*\])?\s*(?:=(?!=)|\+\+|--)")
    for process in re.findall(r"^proctype .*?^}", text, re.MULTILINE | re.DOTALL):
        assert not change.search(process), process


def test_definitions_are_told_from_all_else() -> None:
    source = """
    // int Comment() {}
    #define MACRO(x) { x }
    namespace a { namespace {
    int Free(int x) { if (x) { return Called(x); } return "Text() {"[0]; }
    struct Plain : Base { int Within() const { return Called(1); } int Declared(); };
    }
    class alignas(64) Outer { public: class Inner { void Deep() {} }; Outer() : a_(1) {} int a_; };
    Result<char*> Outer::Later(int x) const noexcept { auto f = [&] { return 1; }; for (;;) {} }
    extern "C" __global__ void __launch_bounds__(kThreads, 2) kernel(const int x) {}
    template <typename T>
    void Declared(T x);
    enum class Kind { kOne };
    }
    """
    assert defined_functions(source) == {
        *("Free", "Plain::Within", "Outer::Inner::Deep", "Outer::Outer", "Outer::Later", "kernel")
    }


@pytest.mark.parametrize("mistakes", [CPU_MISTAKES, GPU_MISTAKES], ids=["cpu", "gpu"])
def test_every_mistake_has_its_place(mistakes: dict[str, Mistake]) -> None:
    texts = {mistake.bounds.model: (MODELS / mistake.bounds.model).read_text() for mistake in mistakes.values()}
    assert [
        name for name, mistake in mistakes.items() if texts[mistake.bounds.model].count(mistake.original) != 1
    ] == []
