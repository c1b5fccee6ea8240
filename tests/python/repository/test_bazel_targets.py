"""`make test-bazel` names its folders, so that it takes in no environment of Python that lies in the checkout."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def test_every_tracked_build_file_lies_below_a_pattern() -> None:
    script = (REPOSITORY / "scripts" / "bazel_test.sh").read_text()
    (patterns,) = re.findall(r"\$\{BAZEL_TARGETS:-(//.*)\}", script)
    chosen = patterns.split()
    assert "//:all" in chosen
    assert "//..." not in chosen, "it takes in the whole checkout"
    folders = [pattern.removeprefix("//").removesuffix("/...") for pattern in chosen]
    tracked = subprocess.run(
        ["git", "ls-files", "--", "BUILD", "*/BUILD", "*/BUILD.bazel"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert len(tracked) > 20
    assert [path for path in tracked if path != "BUILD" and path.split("/")[0] not in folders] == []


def test_every_source_of_the_overlay_is_compiled_against_xla() -> None:
    overlay = REPOSITORY / "xla_patch" / "overlay"
    sources = sorted(overlay.rglob("*.cc"))
    assert len(sources) > 15
    assert [str(path) for path in sources if f'"{path.name}"' not in (path.parent / "BUILD").read_text()] == []
