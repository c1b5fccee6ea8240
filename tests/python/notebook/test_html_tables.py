"""The tables in a notebook: what they show, that names are never markup, and that they can be read on any page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hlo_samples import CPU_SYNC, gpu_start_done

import xla_shmem
from xla_shmem.notebook import html_tables
from xla_shmem.notebook.html_tables import MOST_ROWS

pytestmark = pytest.mark.usefixtures("no_options")
EVIL = "<img src=x onerror=alert(1)>&\\\"'"


class _Page(HTMLParser):
    """Reads a table: its cells, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data


def _decisions(tmp_path: Path, text: str, name: str = "m.txt") -> xla_shmem.Decisions:
    (tmp_path / name).write_text(text)
    return xla_shmem.decisions(tmp_path / name)


def _contrast(colour: str, other: str) -> float:
    """Contrast of two colours, as WCAG 2.2 defines it."""

    def luminance(hexadecimal: str) -> float:
        parts = [int(hexadecimal[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(colour), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_table_has_a_row_for_each_collective(tmp_path: Path) -> None:
    page = _Page(_decisions(tmp_path, gpu_start_done("NVSHMEM"))._repr_html_())
    assert page.open == []
    head, permute, reduce = page.rows
    assert head[:6] == ["HLO name", "op", "shape", "bytes", "groups", "backend"]
    assert permute[:4] == ["permute-start", "collective-permute", "bf16[8,1024]", "16.0 KiB"]
    assert permute[4:6] == ["{0,1} {1,2} {2,3} {3,4} … 8 in all", "NVSHMEM"]
    assert reduce[4:6] == ["{0,1,2,3} {4,5,6,7}", "NVSHMEM"]
    assert "2 collectives in 1 module: 2 NVSHMEM." in page.text


def test_explanations_and_differences_are_pages_too(tmp_path: Path) -> None:
    before = _decisions(tmp_path, gpu_start_done("DEFAULT"), "before.txt")
    after = _decisions(tmp_path, gpu_start_done("NVSHMEM"), "after.txt")
    explained = _Page(before.explain("reduce-start")._repr_html_())
    assert ["rule", "question", "evidence", "verdict"] in explained.rows
    assert "Decision: " in explained.text
    difference = _Page(before.diff(after)._repr_html_())
    assert "runs on: DEFAULT → NVSHMEM" in difference.text
    assert "2 changed, 0 equal" in difference.text
    assert explained.open == difference.open == []


def test_a_veto_is_shown_behind_an_arrow() -> None:
    shown = _Page(html_tables._decided({"backend": "NVSHMEM", "lowered": "DEFAULT"}))
    assert shown.text == "NVSHMEM → DEFAULT"


def test_names_of_a_module_are_never_markup(tmp_path: Path) -> None:
    call = f'metadata={{source_file="{EVIL}" source_line=7}}'
    text = CPU_SYNC.replace("to_apply=%sum", f"to_apply=%sum, {call}", 1)
    rows = _decisions(tmp_path, text)
    (evil,) = [row for row in rows if row.source_file]
    assert "<img" in str(evil.source_file)
    for shown in (
        rows,
        rows.explain(evil.name),
        rows.diff(_decisions(tmp_path, text.replace("f32[1024]", "f32[512]"), "b")),
    ):
        page = _Page(shown._repr_html_())
        assert "img" not in page.tags
        assert "onerror=alert" in page.text


def test_a_long_table_is_cut_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _decisions(tmp_path, CPU_SYNC)
    assert "more; to_pandas() has all" not in rows._repr_html_()
    monkeypatch.setattr(html_tables, "MOST_ROWS", 2)
    page = _Page(rows._repr_html_())
    assert len(page.rows) == 1 + 2
    assert "1 more; to_pandas() has all." in page.text
    assert MOST_ROWS == 500


def test_text_has_the_colour_of_the_page_and_badges_have_contrast(tmp_path: Path) -> None:
    style = html_tables._STYLE
    rules = dict(re.findall(r"^(\.xla-shmem[^{]*) \{([^}]*)\}", style, re.MULTILINE))
    for selector, rule in rules.items():
        colours = re.findall(r"(?<![-\w])color: ([^;]+);", rule)
        assert colours == (["#ffffff"] if selector.endswith(".backend") else ["inherit"] * len(colours)), selector
        assert set(re.findall(r"background: ([^;]+);", rule)) <= {"transparent"}, selector
    shown = html_tables._backend("NVSHMEM") + html_tables._backend("another") + html_tables._item("−", "#cf222e", "x")
    colours = set(re.findall(r"background: (#[0-9a-f]{6})", shown)) | set(html_tables._COLOURS.values())
    assert len(colours) == 5
    assert all(_contrast(colour, "#ffffff") >= 4.5 for colour in colours)
