"""Jobs on the real XLA:GPU of a TensorFlow wheel with the overlay in it, on emulated GPUs.

`make test-patched-xla` builds their program (xla_gpu_process.cc) before it runs this file.
"""

from __future__ import annotations

import functools
import operator
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gpu_emulator"))

from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator  # noqa: E402

PROGRAM = HERE.parents[1] / "build/bazel/bin/tests/overlay/xla_gpu_process"

RUNS = 3
#: Elements that each process has for each process.
PART = 4

pytestmark = pytest.mark.timeout(300)

Arrays = list[np.ndarray]

# The thunk of each op, in the order of the module's results.
THUNKS = {
    "all-reduce": "kAllReduce",
    "collective-permute": "kCollectivePermute",
    "all-gather": "kAllGather",
    "reduce-scatter": "kReduceScatter",
    "all-to-all": "kAllToAll",
    "collective-broadcast": "kCollectiveBroadcast",
    "ragged-all-to-all": "kRaggedAllToAll",
}
DEFAULT_OPS = ("all-reduce", "collective-permute")


@dataclass(frozen=True)
class Setting:
    """A job, and the ops that it is to run on NVSHMEM.

    Attributes:
      flag: whether NVSHMEM is asked for.
      failure: why NVSHMEM does not start; "" if it does.
    """

    name: str
    ours: Sequence[str]
    processes: int = 2
    flag: bool = True
    graphs: bool = False
    failure: str = ""
    environ: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}-{self.processes}"


ALL = {"XLA_SHMEM_OPS": "all"}
SETTINGS = (
    Setting("all", tuple(THUNKS), environ=ALL),
    Setting("all", tuple(THUNKS), processes=4, environ=ALL),
    Setting("graphs", tuple(THUNKS), graphs=True, environ=ALL),
    Setting("default", DEFAULT_OPS),
    Setting("off", (), flag=False, environ=ALL),
    Setting("unstarted", (), failure="process 0", environ=ALL | {"GPU_EMULATOR_NVSHMEM": "no-init"}),
)


def module(processes: int) -> str:
    """One collective of each op, behind a kernel of XLA's."""
    whole = PART * processes
    members = ",".join(map(str, range(processes)))
    backwards = ",".join(map(str, reversed(range(processes))))
    pairs = ",".join(f"{{{k},{(k + 1) % processes}}}" for k in range(processes))
    return f"""
HloModule rig
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{
  p = f32[{whole}] parameter(0)
  rows = f32[{whole}] parameter(1)
  input_offsets = s64[{processes}] parameter(2)
  send_sizes = s64[{processes}] parameter(3)
  output_offsets = s64[{processes}] parameter(4)
  recv_sizes = s64[{processes}] parameter(5)
  twice = f32[{whole}] add(p, p)
  s = f32[{whole}] all-reduce(twice), to_apply=sum, replica_groups={{{{{members}}}}}
  c = f32[{whole}] collective-permute(twice), source_target_pairs={{{pairs}}}
  g = f32[{whole * processes}] all-gather(twice), dimensions={{0}}, replica_groups={{{{{backwards}}}}}
  r = f32[{PART}] reduce-scatter(twice), dimensions={{0}}, to_apply=sum, replica_groups={{{{{members}}}}}
  a = f32[{whole}] all-to-all(twice), dimensions={{0}}, replica_groups={{{{{members}}}}}
  b = f32[{whole}] collective-broadcast(twice), replica_groups={{{{{backwards}}}}}
  v = f32[{whole}] ragged-all-to-all(twice, rows, input_offsets, send_sizes, output_offsets, recv_sizes),
    replica_groups={{{{{members}}}}}
  ROOT t = (f32[{whole}], f32[{whole}], f32[{whole * processes}], f32[{PART}], f32[{whole}], f32[{whole}],
    f32[{whole}]) tuple(s, c, g, r, a, b, v)
}}
"""


def parameters(processes: int, seed: int) -> list[Arrays]:
    """The parameters of each process. Their numbers are whole, so that sums do not depend on the order."""
    random = np.random.default_rng(seed)
    whole = PART * processes
    # Row: sender, column: receiver. A receiver lays the rows of its senders one behind the other.
    sizes = random.integers(0, PART + 1, (processes, processes))
    offsets = np.cumsum(sizes, axis=0) - sizes
    made = []
    for k in range(processes):
        p, rows = random.integers(-1000, 1000, (2, whole)).astype(np.float32)
        input_offsets = np.arange(processes) * PART
        made.append([p, rows, input_offsets, sizes[k], offsets[k], sizes[:, k].copy()])
    return made


def expected(given: list[Arrays]) -> list[Arrays]:
    """The results of each process, in the order of THUNKS."""
    processes = len(given)
    twice = [arrays[0] * 2 for arrays in given]
    total = functools.reduce(operator.add, twice)
    results = []
    for k in range(processes):
        own = slice(k * PART, (k + 1) * PART)
        ragged = given[k][1].copy()
        for sender, (_, _, inputs, sizes, outputs, _) in enumerate(given):
            ragged[outputs[k] : outputs[k] + sizes[k]] = twice[sender][inputs[k] : inputs[k] + sizes[k]]
        results.append(
            [
                total,
                twice[k - 1],
                np.concatenate(twice[::-1]),
                total[own],
                np.concatenate([one[own] for one in twice]),
                twice[-1],
                ragged,
            ]
        )
    return results


def run(emulator: Emulator, setting: Setting, folder: Path) -> list[str]:
    """Runs a job with its files in `folder`; returns the output of each process, all of which have succeeded."""
    (folder / "store").mkdir()
    (folder / "module.hlo").write_text(module(setting.processes))
    for number in range(RUNS):
        for process, arrays in enumerate(parameters(setting.processes, seed=number)):
            for index, array in enumerate(arrays):
                array.tofile(folder / f"parameter.{number}.{index}.{process}")
    flags = (
        *(GRAPH_FLAGS if setting.graphs else NO_GRAPH_FLAGS),
        f"--xla_gpu_cuda_data_dir={emulator.wheels / 'nvidia/cu13'}",
        # The emulated NCCL does not divide communicators.
        "--xla_gpu_enable_nccl_comm_splitting=false",
    )
    environ = emulator.environment(
        setting.processes,
        flags,
        NVSHMEM_CUMEM_GRANULARITY="2M",
        XLA_SHMEM_STATS="1" if setting.flag else "0",
        **setting.environ,
    )
    environ["LD_LIBRARY_PATH"] = str(_libraries_of_cuda_12(emulator, folder))
    children = []
    for process in range(setting.processes):
        command = [PROGRAM, folder, str(process), str(setting.processes), str(RUNS), "on" if setting.flag else "off"]
        with open(folder / f"output.{process}", "wb") as sink:
            children.append(subprocess.Popen(command, env=environ, stdout=sink, stderr=subprocess.STDOUT))
    deadline = time.monotonic() + 200
    try:
        # A process waits for one that has failed.
        while any(child.poll() is None for child in children) and not any(child.poll() for child in children):
            assert time.monotonic() < deadline, _outputs(folder, setting)
            time.sleep(0.05)
    finally:
        for child in children:
            child.kill()
            child.wait()
    outputs = _outputs(folder, setting)
    assert [child.returncode for child in children] == [0] * setting.processes, outputs
    return outputs


def _outputs(folder: Path, setting: Setting) -> list[str]:
    return [(folder / f"output.{process}").read_text(errors="replace") for process in range(setting.processes)]


def _libraries_of_cuda_12(emulator: Emulator, folder: Path) -> Path:
    """The wheel is built for CUDA 12, and opens libraries by other names than JAX's plugin for CUDA 13."""
    view = folder / "libraries"
    view.mkdir()
    for library in emulator.libraries.iterdir():
        for name in {library.name, library.name.replace(".so.13", ".so.12")}:
            (view / name).symlink_to(library)
    return view


@pytest.fixture(scope="session")
def emulator() -> Emulator:
    assert PROGRAM.exists(), f"{PROGRAM} is missing; make test-patched-xla builds it"
    return Emulator.build()


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_job_runs_on_nvshmem_what_its_rules_say(emulator: Emulator, setting: Setting, tmp_path: Path) -> None:
    outputs = run(emulator, setting, tmp_path)
    on_nccl = [op for op in THUNKS if op not in setting.ours]
    thunks = Counter(f"{THUNKS[op]} on {'NVSHMEM' if op in setting.ours else 'NCCL'}" for op in THUNKS)
    for output in outputs:
        (failure,) = re.findall(r"^failure: (.*)$", output, re.MULTILINE)
        assert failure.startswith(setting.failure)
        assert bool(failure) == bool(setting.failure)
        assert Counter(re.findall(r"^k\w+ on \w+$", output, re.MULTILINE)) == thunks, output
        if not setting.graphs:
            executed = re.findall(r"^ +(\d+) .* (\S+)  rig/\w\S*$", output, re.MULTILINE)
            assert {op: int(calls) for calls, op in executed} == dict.fromkeys(setting.ours, RUNS), output
    # What an NCCL communicator begins with, in XLA's words.
    asked_nccl = [path.name for path in (tmp_path / "store").iterdir() if "clique" in path.name]
    assert bool(asked_nccl) == bool(on_nccl)
    for number in range(RUNS):
        for process, arrays in enumerate(expected(parameters(setting.processes, seed=number))):
            for index, (op, array) in enumerate(zip(THUNKS, arrays, strict=True)):
                result = np.fromfile(tmp_path / f"result.{number}.{index}.{process}", np.float32)
                assert result.tolist() == array.tolist(), f"{op} of process {process} in run {number}"
