"""Runs JAX's own tests of ragged all-to-all, without their skip of CPUs, and reports what became of each.

Arguments: JAX's file tests/ragged_collective_test.py, and parts of names of the tests to run (default: all).
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
import unittest
from types import ModuleType
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax.experimental import multihost_utils
from job_runs import report

#: Ragged all-to-alls on SHMEM in all modules that were compiled.
_calls = 0


def load_without_skip(path: str) -> ModuleType:
    """Loads the file; its tests begin as other tests of JAX do, without asking for the platform."""
    spec = importlib.util.spec_from_file_location("ragged_collective_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    cases = module.RaggedCollectiveTest
    assert "not supported on CPU" in inspect.getsource(cases.setUp), f"{path} no longer skips CPUs in setUp"
    del cases.setUp
    return module


def compare_all_processes(cases: Any) -> None:
    """Lets the tests compare arrays of which this process has a part only."""
    compare = cases.assertAllClose

    def whole(x: Any) -> Any:
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            return np.asarray(multihost_utils.process_allgather(x, tiled=True))
        return x

    cases.assertAllClose = lambda self, x, y, **how: compare(self, whole(x), whole(y), **how)


def count_calls() -> None:
    """Counts the calls of compiled programs."""
    compile_and_load = compiler.backend_compile_and_load

    def counted(*arguments: Any, **options: Any) -> Any:
        global _calls
        executable = compile_and_load(*arguments, **options)
        for module in executable.hlo_modules():
            _calls += len(re.findall(r'custom_call_target="xla_shmem\.ragged_all_to_all"', module.to_string()))
        return executable

    compiler.backend_compile_and_load = counted


def main() -> None:
    path, *names = sys.argv[1:]
    del sys.argv[1:]  # JAX's test file reads its options from there
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    count_calls()
    module = load_without_skip(path)
    compare_all_processes(module.RaggedCollectiveTest)
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{name}*" for name in names] or None
    tests = loader.loadTestsFromModule(module)
    found = unittest.TextTestRunner(verbosity=2).run(tests)
    name = lambda test: test.id().rpartition(".")[2]  # noqa: E731
    report(
        {
            "tests": found.testsRun,
            "wrong": {name(test): text for test, text in (*found.failures, *found.errors)},
            "skipped": {name(test): why for test, why in found.skipped},
            "calls": _calls,
        }
    )


if __name__ == "__main__":
    main()
