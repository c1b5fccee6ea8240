"""Runs checks on eight virtual CPU devices.

XLA fixes the number of CPU devices at the first client, so they run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEVICES = 8


def run_on_virtual_devices(script: str, *arguments: str, timeout: float = 170) -> str:
    """Runs `tests/python/<script>` with eight devices; returns what it printed.

    Raises:
      AssertionError: the script failed; with the end of its output.
    """
    result = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), *arguments],
        env=os.environ
        | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout
