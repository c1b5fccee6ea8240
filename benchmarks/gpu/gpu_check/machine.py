"""The machine and its versions, before anything is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from gpu_check import records

#: Tools that some section needs.
_TOOLS = ("nvidia-smi", "nvcc", "cmake", "ninja", "make", "c++", "compute-sanitizer", "nvidia-cuda-mps-control")


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = done.stdout.strip().splitlines()
    return lines[-1] if lines else ""


def mps_state() -> str:
    """Returns whether processes of this machine share GPUs through MPS."""
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    if (folder / "control").exists():
        return f"on ({folder})"
    return "off: the GPU time-slices the processes that share it"


def main() -> None:
    """Records facts; nothing is checked here."""
    from xla_shmem.doctor.gather import gather

    facts = gather()
    records.fact("system", f"{facts.system} {os.uname().release} {facts.machine}, {facts.cores} cores")
    records.fact("Python", f"{sys.version.split()[0]}, {sys.executable}")
    records.fact("driver", facts.driver.error or facts.driver.version)
    if not facts.driver.error:
        records.fact("CUDA of the driver", ".".join(map(str, facts.driver.cuda or ())))
    for gpu in facts.driver.gpus:
        major, minor = gpu.compute_capability
        name = f"{gpu.name}, sm_{major}{minor}, {gpu.memory >> 20} MiB{', split by MIG' if gpu.mig else ''}"
        records.fact(f"GPU {gpu.index}", name)
    if any(gpu.emulated for gpu in facts.driver.gpus):
        records.fact("emulated", "the GPUs are emulated (tests/gpu_emulator), there is no hardware")
    records.fact("GPUs", len(facts.visible.bus_ids))
    if not facts.visible.bus_ids:
        records.left_out("GPU", facts.visible.error or facts.driver.error or "the driver shows none to CUDA")
    for name in ("jax", "jaxlib"):
        records.fact(name, getattr(facts.installation, name) or "missing")
    plugins = [f"jax-cuda{plugin.cuda}-plugin {plugin.version}" for plugin in facts.installation.cuda_plugins]
    records.fact("CUDA plugin", ", ".join(plugins) or "missing")
    for name, library in (("NVRTC", facts.nvrtc), ("NCCL", facts.nccl)):
        records.fact(name, library.error or library.version)
    records.fact("MPS", mps_state())
    records.fact("compiler", _first_line("c++", "-dumpfullversion") or "missing")
    records.fact("nvcc", _first_line("nvcc", "--version") or "missing")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    records.fact("tools not on PATH", ", ".join(missing) or "none")


if __name__ == "__main__":
    main()
