"""Compiles the programs for one placement and keeps the input and the output of XLA's assigner.

    compile_family.py PLACEMENT OUT TARGET_CONFIG

Runs in an environment of an old JAX release, without xla_shmem. Writes to OUT, for each program,
  NAME.given.hlo.pb    the module before the assigner
  NAME.answered.txt    the module after the assigner
  NAME.final.hlo.pb, NAME.final.txt   the compiled module
and programs.json: for each program "", or the first line of the compiler's error.
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
    # Imported after the environment is set, because they import JAX.
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
            # These passes would run matrix products on the device. They do not change collectives.
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
    # JAX checks for device files before it calls the driver.
    hardware_utils.has_visible_nvidia_gpu = lambda: True
    jax.config.update("jax_platforms", "cuda")
    jax.config.update("jax_mock_gpu_topology", placement.shape)
    devices = jax.devices()
    processes = [device.process_index for device in devices]
    expected = [i // placement.devices for i in range(placement.num_devices)]
    if processes != expected:
        raise SystemExit(f"{placement.name}: the devices are in processes {processes}, expected {expected}")
    return list(devices)


def keep(dump: Path, name: str, out: Path) -> None:
    """Moves the dumps in `_STAGES` of a program out of the dump directory, and deletes the directory."""
    for file in list(dump.glob("*")):
        if file.is_file() and re.match(rf"module_\d+\.jit_{name}\.", file.name):
            for pattern, kept in _STAGES.items():
                if re.search(pattern + "$", file.name):
                    file.rename(out / f"{name}.{kept}")
    shutil.rmtree(dump, ignore_errors=True)


if __name__ == "__main__":
    main(PLACEMENTS[sys.argv[1]], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve())
