"""Runs a module of the check as several ranks, each on GPUs of its own or all on one.

python -m gpu_check.ranks --ranks=2 --gpus=1 [--devices=K] [--nvshmem-flag] [--xla=NAME=VALUE ...] [--variant=NAME]
  -- MODULE [...]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence

from gpu_check import exchange, records
from xla_shmem.bench import variants
from xla_shmem.launch.launcher import launch

#: Seconds after which a transfer that waits for a peer fails: less than any section's limit, so that the log shows it.
DEADLINE_S = "20"

#: The emulator has no tensor cores, and timing candidates on it means nothing.
_FOR_EMULATED_GPUS = ("xla_gpu_enable_triton_gemm=false", "xla_gpu_autotune_level=0")


def environment(ranks: int, gpus: int, devices: int = 1) -> dict[str, str]:
    """Returns the environment of all ranks with so many GPUs each, except their rank numbers."""
    result = {
        "JAX_PLATFORMS": "cuda,cpu",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several processes and the arena need the memory
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "GPU_CHECK_SHARED": "1" if ranks > gpus else "0",
        "GPU_CHECK_DEVICES": str(devices),
    }
    defaults = {"XLA_SHMEM_DEADLINE": DEADLINE_S, "XLA_SHMEM_THRESHOLD": "1GiB"}
    result |= {name: value for name, value in defaults.items() if name not in os.environ}
    if devices == 1 and (ranks > gpus or ranks == 1):
        result["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
        result["JAX_LOCAL_DEVICE_IDS"] = "0"
    return result


def base_flags() -> list[str]:
    """Returns the XLA flags of all ranks. The caller's own are not among them, so that reports are comparable."""
    return [f"--{setting}" for setting in (_FOR_EMULATED_GPUS if records.emulated() else ())]


def record_flags(name: str, flags: Sequence[str], unknown: Sequence[str]) -> None:
    """Records the XLA flags of a variant of `xla-shmem bench`, and those that the installed XLA does not know."""
    if flags:
        records.fact(f"XLA_FLAGS of {name}", " ".join(flags))
    for flag in unknown:
        records.left_out(flag, "this release of XLA has no such flag")


def main() -> int:
    """Returns the exit code of the job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--devices", type=int, default=1, help="GPUs of each rank (1)")
    parser.add_argument("--nvshmem-flag", action="store_true")
    parser.add_argument("--xla", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--variant", help="of xla-shmem bench: its XLA flags and variables")
    parser.add_argument("module", nargs="+")
    arguments = parser.parse_args()
    os.environ.update(environment(arguments.ranks, arguments.gpus, arguments.devices))
    flags = [*base_flags(), *(f"--{setting}" for setting in arguments.xla)]
    if arguments.variant:
        variant = variants.named(arguments.variant)
        known, unknown = variant.xla_flags()
        record_flags(variant.name, known, unknown)
        flags += known
        os.environ.update(variant.environ)
    if arguments.nvshmem_flag:
        flags.append("--xla_gpu_experimental_enable_nvshmem=true")
    os.environ["XLA_FLAGS"] = " ".join(flags)
    os.environ.pop("XLA_SHMEM_ENABLED", None)

    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        os.environ[exchange.VARIABLE] = folder
        command = [sys.executable, "-m", *arguments.module]
        return launch(command, arguments.ranks, devices_per_process=arguments.devices)


if __name__ == "__main__":
    sys.exit(main())
