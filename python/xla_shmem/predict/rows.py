"""The rows of docs/table2.md as compiled programs, kept in `rows/`, so that the fit can be repeated without a compiler.

    python -m xla_shmem.predict.rows MODULES

makes them from the modules that `python -m xla_shmem.gpu_compile.table2 --modules MODULES` has kept.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import sys
from pathlib import Path

from xla_shmem.gpu_compile.table2 import ROWS, row_config, row_name
from xla_shmem.predict.program import Program
from xla_shmem.predict.program_json import from_json, to_json
from xla_shmem.train.config import TrainConfig

FOLDER = Path(__file__).parent / "rows"

#: Where they were measured; the compiled rows' places are those on it.
CLUSTER = "gb200-nvl72"


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table: tokens, and degrees of context and tensor parallelism."""

    sequence: int
    context: int
    tensor: int

    def __str__(self) -> str:
        return f"{self.sequence >> 10}K, CP {self.context}, TP {self.tensor}"

    def config(self) -> TrainConfig:
        """The row's job."""
        return row_config(self.sequence, self.context, self.tensor)


def read_rows() -> dict[Row, Program]:
    """All rows in the table's order."""
    return {row: _read(row) for row in (Row(*each) for each in ROWS)}


def _file(row: Row) -> Path:
    return FOLDER / f"{row_name(row.config())}.json.gz"


def _read(row: Row) -> Program:
    return from_json(json.loads(gzip.decompress(_file(row).read_bytes())))


def main(modules: Path) -> None:
    """Reads the modules and writes the rows."""
    from xla_shmem.hlo.files import read_module
    from xla_shmem.options import resolve
    from xla_shmem.predict.cluster import read_cluster
    from xla_shmem.predict.modules import program_of_module

    FOLDER.mkdir(exist_ok=True)
    for row in (Row(*each) for each in ROWS):
        module = read_module(str(modules / f"{row_name(row.config())}.pb"))
        text = json.dumps(to_json(program_of_module(module, read_cluster(CLUSTER), resolve())), separators=(",", ":"))
        _file(row).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
