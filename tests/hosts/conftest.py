"""Makes the modules of multi-process jobs importable, and fails early where the machine does not permit hosts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for _folder in (HERE, *(HERE.parent / name for name in ("e2e", "examples", "random_programs"))):
    sys.path.insert(0, str(_folder))

from run_on_hosts import hosts_command  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _hosts_are_permitted() -> None:
    command = [*hosts_command([1], rate="1gbit", limit=30), "true"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if made.returncode != 0:
        pytest.exit(f"This machine cannot make hosts of namespaces:\n{made.stdout}{made.stderr}", returncode=1)
