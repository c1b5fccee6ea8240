"""Runs a module of the check as several ranks, each on a GPU of its own or all on one.

python -m gpu_check.ranks --ranks=2 --gpus=1 [--nvshmem-flag] [--xla=NAME=VALUE ...] -- MODULE [ARGUMENT ...]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from gpu_check import exchange, records, xla_flag_names

#: Seconds after which a transfer that waits for a peer fails: less than any section's limit, so that the log shows it.
DEADLINE_S = "20"

#: The emulator has no tensor cores, and timing candidates on it means nothing.
_FOR_EMULATED_GPUS = ("xla_gpu_enable_triton_gemm=false", "xla_gpu_autotune_level=0")


def environment(ranks: int, gpus: int) -> dict[str, str]:
    """Returns the environment of all ranks, except their rank numbers."""
    result = {
        "JAX_PLATFORMS": "cuda,cpu",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several processes and the arena need the memory
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "GPU_CHECK_SHARED": "1" if ranks > gpus else "0",
    }
    defaults = {"XLA_SHMEM_DEADLINE": DEADLINE_S, "XLA_SHMEM_THRESHOLD": "1GiB"}
    result |= {name: value for name, value in defaults.items() if name not in os.environ}
    if ranks > gpus or ranks == 1:
        result["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
        result["JAX_LOCAL_DEVICE_IDS"] = "0"
    return result


def xla_flags(settings: list[str], nvshmem: bool) -> str:
    """Returns `XLA_FLAGS` with the settings that the installed XLA knows; an unknown flag would end the process."""
    known = xla_flag_names.known([setting.partition("=")[0] for setting in settings])
    flags = []
    for setting in settings:
        if setting.partition("=")[0] in known:
            flags.append(f"--{setting}")
        else:
            records.left_out(f"--{setting}", "this release of XLA has no such flag")
    if flags:
        records.fact(f"XLA_FLAGS of {' '.join(sys.argv[sys.argv.index('--') + 1 :])}", " ".join(flags))
    return " ".join([*flags, *(["--xla_gpu_experimental_enable_nvshmem=true"] if nvshmem else [])])


def main() -> int:
    """Returns the exit code of the job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--nvshmem-flag", action="store_true")
    parser.add_argument("--xla", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("module", nargs="+")
    arguments = parser.parse_args()
    os.environ.update(environment(arguments.ranks, arguments.gpus))
    # Not the caller's flags, so that reports are comparable.
    needed = _FOR_EMULATED_GPUS if records.emulated() else ()
    os.environ["XLA_FLAGS"] = xla_flags([*needed, *arguments.xla], arguments.nvshmem_flag)
    os.environ.pop("XLA_SHMEM_ENABLED", None)
    from xla_shmem.launch.launcher import launch

    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        os.environ[exchange.VARIABLE] = folder
        return launch([sys.executable, "-m", *arguments.module], arguments.ranks)


if __name__ == "__main__":
    sys.exit(main())
