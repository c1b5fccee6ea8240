"""The calls of XLA to the handlers of XLA:GPU before it runs a program."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from operations import Operation

from xla_shmem import _core

pytestmark = pytest.mark.timeout(180, func_only=True)

# The FFI of jaxlib 0.10.2, the oldest we support: it refuses handlers built against a newer one.
OLDEST_FFI = (0, 3)


@pytest.fixture(scope="module")
def caller(double: Path) -> ModuleType:
    sys.path.insert(0, str(double))
    import handler_caller

    return handler_caller


def test_only_whole_operations_may_be_captured_into_graphs(caller: ModuleType) -> None:
    capturable = {target for target, stages in _core.cuda_handlers().items() if caller.metadata(stages["execute"])[2]}
    assert capturable == {"xla_shmem.collective_permute", "xla_shmem.all_reduce"}


def test_all_handlers_are_built_for_the_oldest_ffi(caller: ModuleType) -> None:
    handlers = _core.cuda_handlers()
    assert len(handlers) == 8
    for target, stages in handlers.items():
        for stage, handler in stages.items():
            assert caller.metadata(handler)[:2] == OLDEST_FFI, (target, stage)


def test_without_the_runtime_calls_can_be_loaded_but_not_run(caller: ModuleType) -> None:
    operation = Operation.permute(0, topology=5, pairs=[(0, 1)])
    for target in ("xla_shmem.permute_start", "xla_shmem.permute_done", "xla_shmem.collective_permute"):
        stages = _core.cuda_handlers()[target]
        caller.instantiate(stages["instantiate"], operation.attributes)
        with pytest.raises(RuntimeError, match=r"jit_step/collective-permute\.0 cannot run here"):
            caller.execute(stages["execute"], operation.attributes, [], [], stream=1, run_id=1)
