"""Runs the real XLA:GPU compiler of the stock CUDA plugin for described GPUs."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from dumps import Dump

from gpu_compile.environment import compile_environment

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WHEELS = ROOT / f".venv-gpu-{jax.__version__}"
FLAG = "--xla_gpu_experimental_enable_nvshmem=true"
TIMEOUT_S = 240


@dataclass(frozen=True)
class Run:
    """The output of one worker.

    Attributes:
      dump: XLA's dumps.
      records: by program, what the pass recorded.
      log: what XLA wrote to stderr.
    """

    dump: Dump
    records: dict[str, list[dict[str, Any]]]
    log: str


class Compiler:
    """Compiles programs in processes of their own, because XLA reads its flags once."""

    def __init__(self, folder: Path) -> None:
        """Fetches the plugin's wheels if they are missing; output goes to `folder`."""
        subprocess.run([str(ROOT / "scripts/setup_gpu_aot.sh"), str(Path(sys.executable).parent)], check=True)
        self._folder = folder

    def run(self, name: str, programs: list[str], flags: list[str], **options: str) -> Run:
        """Compiles programs with these XLA_FLAGS and variables, once for all processes of this test run."""
        folder, records, log = (self._folder / f"{name}{ending}" for ending in ("", ".json", ".log"))
        with (self._folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not log.exists():
                log.write_text(self._compile(folder, records, programs, flags, options))
        return Run(Dump(folder), json.loads(records.read_text()), log.read_text())

    def _compile(
        self, folder: Path, records: Path, programs: list[str], flags: list[str], options: dict[str, str]
    ) -> str:
        dumps = [f"--xla_dump_to={folder}", "--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto"]
        environment = compile_environment(WHEELS, [*dumps, *flags]) | options
        command = [sys.executable, str(HERE / "worker.py"), str(records), *programs]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stderr
