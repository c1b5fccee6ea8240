"""Compiles programs for eight or sixteen described GPUs and writes XLA's dumps.

Usage: worker.py RECORDS PROGRAM... with XLA_FLAGS from the caller. With our flag among them the pass takes
part, on the regular topology of eight one-device processes on one host; without it this is stock JAX. What the pass
recorded goes to the file RECORDS, as JSON by program. A program called stock:NAME is compiled in stock_collectives().
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from divided_programs import DEVICES as ACROSS
from divided_programs import DIVIDED
from fused_programs import FUSED
from listed_programs import LISTED
from programs import DEVICES, PROGRAMS

from gpu_compile.described_gpus import described_gpus
from xla_shmem import _core, plugin


def main(path: str, names: list[str]) -> None:
    records: dict[str, Any] = {}

    def observe(module: bytes, found: list[Any]) -> None:
        records[_core.module_header(module)["name"].removeprefix("jit_")] = found

    devices = described_gpus(
        ACROSS if DIVIDED.keys() & set(names) else DEVICES,
        "h100",
        observe,
        int(os.environ.get("GPUS_OF_A_PROCESS", "1")),
    )
    for name in names:
        stock = name.startswith("stock:")
        function, arguments = (PROGRAMS | LISTED | DIVIDED | FUSED)[name.removeprefix("stock:")](devices)
        with plugin.stock_collectives() if stock else contextlib.nullcontext():
            function.lower(*arguments).compile()
    Path(path).write_text(json.dumps(records))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
