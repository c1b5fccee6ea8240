"""The diagnosis of `xla-shmem doctor` for this machine, with the package installed."""

from __future__ import annotations

import os

from gpu_check import records
from xla_shmem.doctor.findings import diagnose
from xla_shmem.doctor.gather import gather


def main() -> None:
    """Records NVSHMEM and the diagnosis. Only blockers of the GPU path are failures."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_gpu_experimental_enable_nvshmem=true"}
    facts = gather(environment)
    diagnosis = diagnose(facts)
    records.fact("xla-shmem", facts.installation.xla_shmem)
    records.fact("NVSHMEM", facts.nvshmem.error or f"{facts.nvshmem.version}, {facts.nvshmem.path}")
    for ordinal, (domain, reason) in enumerate(facts.domains):
        records.fact(f"device {ordinal}", f"NVLink domain {domain}: {reason}")
    blockers = "; ".join(finding.what for finding in diagnosis.gpu.blockers)
    records.check("the flag works on the GPU path", diagnosis.gpu.works, blockers)
    for finding in diagnosis.gpu.notes:
        records.left_out("note", finding.what)


if __name__ == "__main__":
    main()
