"""The simulator, built with clang."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from planted_mistakes import ROOT, run


class Simulator:
    """A build of the simulator from `sources`, which has xla_patch/."""

    def __init__(self, sources: Path, build: Path) -> None:
        self._build = build
        clang = subprocess.run(
            [str(ROOT / "scripts" / "find_clang.sh"), "address"], capture_output=True, text=True, check=True
        ).stdout.strip()
        assert clang, "the simulator needs clang: apt-get install clang"
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        run(
            *("cmake", "-S", str(ROOT / "tests" / "simulator"), "-B", str(build), "-G", "Ninja", *launcher),
            *(f"-DCMAKE_CXX_COMPILER={clang}", f"-DSOURCES={sources}"),
        )
        self.build()

    def build(self) -> None:
        """Builds what has changed."""
        run("cmake", "--build", str(self._build))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs it; its exit status is 0 if all seeds passed."""
        return subprocess.run([str(self._build / "simulator"), *arguments], capture_output=True, text=True, check=False)
