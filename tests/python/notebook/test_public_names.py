"""What `xla_shmem` exports is cheap to import, documented, and on the page of the API."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path

import pytest
from live_programs import run

import xla_shmem

PAGE = (Path(__file__).parents[3] / "docs" / "api" / "package.md").read_text()
#: A version has no page.
NAMES = sorted(set(xla_shmem.__all__) - {"__version__"})


def test_importing_it_imports_neither_jax_nor_the_compiled_module_nor_a_third_package() -> None:
    loaded, exported = run(
        "import json, sys; before = set(sys.modules); import xla_shmem; after = set(sys.modules) - before\n"
        "print(json.dumps([sorted(after), [name for name in dir(xla_shmem) if name in xla_shmem.__all__]]))"
    )
    assert {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names} == {"xla_shmem"}
    assert exported == sorted(xla_shmem.__all__)


def test_all_names_exist_and_no_other() -> None:
    assert xla_shmem.__all__ == sorted(xla_shmem.__all__)
    assert set(xla_shmem.__all__) == set(xla_shmem._MODULES)
    for name in xla_shmem.__all__:
        assert getattr(xla_shmem, name) is not None
    with pytest.raises(AttributeError, match="module 'xla_shmem' has no attribute 'decision'"):
        xla_shmem.decision  # noqa: B018


def test_the_page_of_the_api_has_exactly_these() -> None:
    listed = re.findall(r"^::: (xla_shmem\.\S+)$", PAGE, re.MULTILINE)
    homes = {f"{getattr(xla_shmem, name).__module__}.{getattr(xla_shmem, name).__qualname__}" for name in NAMES}
    assert {path for path in listed if path != "xla_shmem.plugin.active"} == homes


@pytest.mark.parametrize("name", NAMES)
def test_its_docstring_has_arguments_attributes_and_errors(name: str) -> None:
    value = getattr(xla_shmem, name)
    text = inspect.getdoc(value) or ""
    assert text
    if dataclasses.is_dataclass(value) and name != "Options":  # docs/options.md describes the fields of Options
        listed = re.findall(r"^  (\w[\w, ]*):", text.partition("Attributes:")[2], re.MULTILINE)
        named = {one.strip() for group in listed for one in group.split(",")}
        assert {field.name for field in dataclasses.fields(value)} == named
    if inspect.isfunction(value) and name != "stock_collectives":  # it raises nothing
        assert "Raises:" in text
