"""Runs pytest in a rank of `xla-shmem launch`, or alone. Usage: pytest_rank.py FOLDER ARGUMENTS...

The outcomes go to FOLDER/<rank>.xml. With INITIALIZE=1 in the environment the rank joins its job before pytest starts.
"""

from __future__ import annotations

import os
import sys

import pytest

if __name__ == "__main__":
    folder, *arguments = sys.argv[1:]
    rank = os.environ.get("XLA_SHMEM_LOCAL_RANK", "0")
    sys.path[0] = ""  # of the suite, not of this file
    if os.environ.get("INITIALIZE") == "1":
        import jax

        jax.distributed.initialize()
    code = pytest.main([f"--junitxml={folder}/{rank}.xml", *arguments])
    # A rank that fails would make the launcher stop the others, before they have written their outcomes.
    sys.exit(0 if code == pytest.ExitCode.TESTS_FAILED else code)
