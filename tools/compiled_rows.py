"""The rows of Table 2 as compiled programs, kept in `table2_rows/`, so that a fit needs no compiler.

    python tools/compiled_rows.py MODULES

writes them from the modules that `python tools/table2.py --modules MODULES` kept.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from fit_predict import CLUSTER
from program_json import from_json, to_json
from published import TABLE2, Row
from xla_shmem.predict.program import Program

FOLDER = Path(__file__).parent / "table2_rows"


def read_rows() -> dict[Row, Program]:
    """All rows in the order of the table."""
    return {row: from_json(json.loads(gzip.decompress(_file(row).read_bytes()))) for row in TABLE2}


def _file(row: Row) -> Path:
    return FOLDER / f"{row.file_name}.json.gz"


def main(modules: Path) -> None:
    """Reads the modules and writes the rows."""
    from xla_shmem.hlo.files import read_module
    from xla_shmem.options import resolve
    from xla_shmem.predict.cluster import read_cluster
    from xla_shmem.predict.module_program import program_of_module

    FOLDER.mkdir(exist_ok=True)
    for row in TABLE2:
        module = read_module(str(modules / f"{row.file_name}.pb"))
        text = json.dumps(to_json(program_of_module(module, read_cluster(CLUSTER), resolve())), separators=(",", ":"))
        _file(row).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
