"""A process of a job that runs sets of random programs for as long as the test sends some.

Arguments: the path of the test's socket, and the name of a planted fault (planted_faults.py) or "".
"""

from __future__ import annotations

import gc
import os
import pickle
import socket
import sys
import traceback
from typing import Any

import jax
from jax_source import PREAMBLE, source_of
from planted_faults import FAULTS
from program_form import Program
from program_runs import ProgramRuns, start_jax

#: Sets after which compiled programs are forgotten.
FORGET = 50


def _function(program: Program, fault: str) -> Any:
    names: dict[str, Any] = {}
    exec(PREAMBLE, names)
    if fault:
        FAULTS[fault](names)
    exec(source_of(program, program["name"]), names)
    return names[program["name"]]


def main() -> None:
    path, fault = sys.argv[1:]
    start_jax()
    runs = ProgramRuns()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        stream: Any = connection.makefile("rwb")
        pickle.dump(int(os.environ["XLA_SHMEM_LOCAL_RANK"]), stream)
        stream.flush()
        done = 0
        while (programs := pickle.load(stream)) is not None:
            try:
                functions = [_function(program, fault) for program in programs["programs"]]
                answer: object = runs.results_of(programs, functions)
            except Exception:
                answer = traceback.format_exc()
            pickle.dump(answer, stream)
            stream.flush()
            done += 1
            if done % FORGET == 0:
                jax.clear_caches()
                gc.collect()


if __name__ == "__main__":
    main()
