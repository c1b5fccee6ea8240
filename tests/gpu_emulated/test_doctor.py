"""`xla-shmem doctor` on emulated GPUs: the flag works, and no reader can take them for hardware."""

from __future__ import annotations

import json
import subprocess
import sys

from emulator import Emulator


def _doctor(emulator: Emulator, *arguments: str) -> str:
    command = [sys.executable, "-c", "from xla_shmem.cli.main import main; main()", "doctor", *arguments]
    done = subprocess.run(
        command, env=emulator.environment(2, JAX_LOCAL_DEVICE_IDS="0"), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_text_and_json_say_that_the_gpus_are_emulated(emulator: Emulator) -> None:
    text = _doctor(emulator)
    assert "EMULATED: these GPUs are no hardware." in text
    assert text.count("EMULATED, Emulated GPU (no hardware), ") == 2
    gpu = json.loads(_doctor(emulator, "--json"))["gpu"]
    assert gpu["works"]
    assert gpu["emulated"]
