"""Writes what is generated from the table of options (xla_patch/options/table.cc): `python tools/option_files.py`.

That is the fields of `Options` and the keywords of `configure` in python/xla_shmem/options/frozen.py, and the sections
of docs/options.md. Run it after the package is built.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from xla_shmem import _core
from xla_shmem.options.table import TABLE

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / "python" / "xla_shmem" / "options" / "frozen.py"
DOCS = ROOT / "docs" / "options.md"

#: Types of the field and of the keyword, by type of the option. A choice has its words instead.
_TYPES = {
    "bytes": ("int", "int | str"),
    "count": ("int", "int"),
    "seconds": ("float", "float"),
    "ops": ("tuple[tuple[str, int | None], ...]", "str"),
    "list": ("str", "str"),
    "path": ("str", "str | os.PathLike[str]"),
    "library": ("str", "str | os.PathLike[str]"),
    "job": ("str", "str"),
    "tuning": ("Table", "str | os.PathLike[str]"),
}


def _types(option: _core.Option) -> tuple[str, str]:
    if option.type == "choice":
        words = ", ".join(f'"{word}"' for word in option.words)
        return f"Literal[{words}]", f"Literal[{words}] | None"
    field, keyword = _TYPES[option.type]
    if option.words and option.type == "count":
        keyword += " | str"
    return field + " | None" * option.can_be_none, keyword + " | None"


def fields() -> str:
    """The fields of the dataclass `Options`."""
    return "".join(f"    {option.name}: {_types(option)[0]}\n" for option in TABLE.values())


def keywords() -> str:
    """The parameters of `configure`."""
    lines = []
    for option in TABLE.values():
        annotation = _types(option)[1]
        noqa = "  # noqa: B008" if "PathLike" in annotation else ""
        lines.append(f'    {option.name}: {annotation} = _default("{option.default}"),{noqa}\n')
    return "".join(lines)


def _readers(option: _core.Option) -> str:
    readers = {
        "CPU": option.on_cpu,
        "GPU": option.on_gpu,
        "tools": option.in_tools,
        "patched jaxlib": option.in_patched_jaxlib,
    }
    return ", ".join(name for name, reads in readers.items() if reads)


def sections() -> str:
    """A section of docs/options.md for each option."""
    parts = [""]
    for option in TABLE.values():
        default = f"`{option.default}`" if option.default else "unset"
        values = re.sub(r"'([\w-]+)'", r"`\1`", option.values.partition(" such as ")[0].rstrip(","))
        facts = f"Default: {default}. Values: {values}. Example: `{option.example}`. Readers: {_readers(option)}."
        parts += [f"### `{option.env}`", "", *_wrapped(facts), "", *_wrapped(option.text), ""]
    return "\n".join(parts)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def generated() -> dict[Path, str]:
    """The files with their generated parts, by path."""
    python = _between(PYTHON.read_text(), "    # Fields: ", "    # End of the fields", fields())
    python = _between(python, "    # Keywords: ", "    # End of the keywords", keywords())
    docs = _between(DOCS.read_text(), "<!-- options: ", "\n<!-- /options", sections())
    return {PYTHON: python, DOCS: docs}


def _between(page: str, begin: str, end: str, part: str) -> str:
    """Replaces what is between the line that starts with `begin` and the one that starts with `end`."""
    head, first, rest = page.partition(begin)
    line, _, rest = rest.partition("\n")
    _, last, tail = rest.partition(end)
    assert first, begin
    assert last, end
    return f"{head}{first}{line}\n{part}{last}{tail}"


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text)
