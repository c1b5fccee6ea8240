"""Compiles the family of programs for one placement and keeps what XLA's assigner was given and what it answered.

Runs in an environment of an old JAX release, without xla_shmem: compile_family.py PLACEMENT OUT TARGET_CONFIG
writes to OUT, per program,
  NAME.given.hlo.pb    the module as the assigner got it
  NAME.answered.txt    the same module as the assigner left it
  NAME.final.hlo.pb, NAME.final.txt   what the compiler made of it in the end
and programs.json: name -> "" or the compiler's first line of complaint.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
from itertools import chain
from pathlib import Path
from typing import Any

from placements import PLACEMENTS, Placement

_STAGES = {
    r"before_collective-backend-assigner\.hlo\.pb": "given.hlo.pb",
    r"after_collective-backend-assigner\..*\.txt": "answered.txt",
    r"gpu_after_optimizations\.hlo\.pb": "final.hlo.pb",
    r"gpu_after_optimizations\.txt": "final.txt",
}


def main(placement: Placement, out: Path, target_config: Path) -> None:
    dump = out / "dump"
    configure(dump, target_config)
    import jax

    devices = all_devices(placement, target_config)
    # After the environment is set: they import JAX.
    from collective_programs import CollectivePrograms
    from replica_programs import replica_programs
    from whole_programs import WholePrograms

    outcome: dict[str, str] = {}
    families = (CollectivePrograms(devices, placement), WholePrograms(devices, placement))
    for program in (*chain(*families), *replica_programs(devices, placement)):
        if program.name in outcome:
            raise SystemExit(f"two programs are called {program.name}")
        lowered = program.lower()
        try:
            lowered.compile()
            outcome[program.name] = ""
        except jax.errors.JaxRuntimeError as error:
            outcome[program.name] = str(error).partition("\n")[0]
        keep(dump, program.name, out)
    (out / "programs.json").write_text(json.dumps(outcome, indent=1))


def configure(dump: Path, target_config: Path) -> None:
    toolkit = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cuda_nvcc"
    os.environ["PATH"] = f"{toolkit / 'bin'}:{os.environ['PATH']}"
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    os.environ["XLA_FLAGS"] = " ".join(
        (
            "--xla_gpu_experimental_enable_nvshmem=true",
            f"--xla_gpu_cuda_data_dir={toolkit}",
            f"--xla_gpu_target_config_filename={target_config}",
            # A matrix product would be tried out on the device; none of these passes looks at a collective.
            "--xla_gpu_enable_triton_gemm=false",
            "--xla_disable_hlo_passes=autotuner,cublas-gemm-rewriter",
            f"--xla_dump_to={dump}",
            "--xla_dump_hlo_as_text",
            "--xla_dump_hlo_as_proto",
            "--xla_dump_hlo_pass_re=collective-backend-assigner",
        )
    )


def all_devices(placement: Placement, target_config: Path) -> list[Any]:
    import jax
    from jax._src import hardware_utils
    from jax.experimental import topologies

    if placement.deviceless:
        jax.config.update("jax_platforms", "cpu")
        return list(
            topologies.get_topology_desc(
                platform="cuda", topology_name="", topology=placement.shape, target_config=target_config.read_text()
            ).devices
        )
    # JAX looks for device files before it asks the driver.
    hardware_utils.has_visible_nvidia_gpu = lambda: True
    jax.config.update("jax_platforms", "cuda")
    jax.config.update("jax_mock_gpu_topology", placement.shape)
    devices = jax.devices()
    processes = [device.process_index for device in devices]
    expected = [i // placement.devices for i in range(placement.num_devices)]
    if processes != expected:
        raise SystemExit(f"{placement.name}: devices lie in processes {processes}, expected {expected}")
    return list(devices)


def keep(dump: Path, name: str, out: Path) -> None:
    """Moves the interesting dumps of the program out of the dump directory and empties it."""
    for file in list(dump.glob("*")):
        if file.is_file() and re.match(rf"module_\d+\.jit_{name}\.", file.name):
            for pattern, kept in _STAGES.items():
                if re.search(pattern + "$", file.name):
                    file.rename(out / f"{name}.{kept}")
    shutil.rmtree(dump, ignore_errors=True)


if __name__ == "__main__":
    main(PLACEMENTS[sys.argv[1]], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve())
