"""Jobs on the real XLA:GPU of a TensorFlow wheel with the overlay in it, on emulated GPUs.

`make test-patched-xla` builds their program (xla_gpu_process.cc) before it runs this file.
"""

from __future__ import annotations

import functools
import json
import operator
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gpu_emulator"))

from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator  # noqa: E402

PROGRAM = HERE.parents[1] / "build/bazel/bin/tests/overlay/xla_gpu_process"

RUNS = 3
#: Elements that each process has for each process.
PART = 4

# Without the time in which the emulator is built.
pytestmark = pytest.mark.timeout(300, func_only=True)

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

REDUCTIONS = {"add": operator.add, "multiply": operator.mul, "maximum": np.maximum, "minimum": np.minimum}

TYPES = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s8": np.dtype(np.int8),
    "s32": np.dtype(np.int32),
    "c64": np.dtype(np.complex64),
}


@dataclass(frozen=True)
class Setting:
    """A job, and the ops that it is to run on NVSHMEM.

    Attributes:
      ops: of the module.
      flag: whether NVSHMEM is asked for.
      failure: why NVSHMEM does not start; "" if it does.
      reloaded: whether the executable is serialised and loaded before it runs.
      groups: processes of each replica group, all of one size; none: one group of all.
    """

    name: str
    ours: Sequence[str]
    processes: int = 2
    ops: Sequence[str] = tuple(THUNKS)
    flag: bool = True
    graphs: bool = False
    reloaded: bool = False
    failure: str = ""
    dtype: str = "f32"
    reduction: str = "add"
    groups: Sequence[Sequence[int]] = ()
    environ: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}-{self.processes}"

    @property
    def members(self) -> list[list[int]]:
        """Processes of each group."""
        return [list(group) for group in self.groups] or [list(range(self.processes))]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Of the permute: a ring, or with groups a chain, whose first process gets zeros."""
        ring = [(k, (k + 1) % self.processes) for k in range(self.processes)]
        return ring[:-1] if self.groups else ring


ALL = {"XLA_SHMEM_OPS": "all"}
#: XLA 0.10.2 loads no all-reduce without a kernel of its own, stock or not.
LOADABLE = tuple(op for op in THUNKS if op != "all-reduce")
SETTINGS = (
    Setting("all", tuple(THUNKS), environ=ALL),
    Setting("all", tuple(THUNKS), processes=4, environ=ALL),
    Setting("graphs", tuple(THUNKS), graphs=True, environ=ALL),
    Setting("graphs", tuple(THUNKS), processes=4, graphs=True, environ=ALL),
    Setting("default", DEFAULT_OPS),
    Setting("off", (), flag=False, environ=ALL),
    Setting("unstarted", (), failure="process 0", environ=ALL | {"GPU_EMULATOR_NVSHMEM": "no-init"}),
    Setting("reloaded", LOADABLE, ops=LOADABLE, reloaded=True, environ=ALL),
    Setting("groups", tuple(THUNKS), processes=4, groups=((0, 1), (3, 2)), environ=ALL),
    Setting("f64-multiply", tuple(THUNKS), dtype="f64", reduction="multiply", environ=ALL),
    Setting("bf16-add", tuple(THUNKS), dtype="bf16", environ=ALL),
    Setting("f16-maximum", tuple(THUNKS), dtype="f16", reduction="maximum", environ=ALL),
    Setting("f8e5m2-minimum", tuple(THUNKS), dtype="f8e5m2", reduction="minimum", environ=ALL),
    Setting("s8-add", tuple(THUNKS), dtype="s8", environ=ALL),
    Setting("s32-minimum", tuple(THUNKS), processes=4, dtype="s32", reduction="minimum", environ=ALL),
    Setting("c64-add", tuple(THUNKS), dtype="c64", environ=ALL),
)


def module(setting: Setting) -> str:
    """One collective of each op, behind a kernel of XLA's."""
    kind, size = setting.dtype, len(setting.members[0])
    whole, count = f"{kind}[{PART * size}]", f"s64[{size}]"

    def written(groups: list[list[int]]) -> str:
        return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"

    groups, backwards = written(setting.members), written([group[::-1] for group in setting.members])
    lines = {
        "all-reduce": f"{whole} all-reduce(twice), to_apply=reduce, replica_groups={groups}",
        "collective-permute": f"{whole} collective-permute(twice), source_target_pairs={written(setting.pairs)}",
        "all-gather": f"{kind}[{PART * size * size}] all-gather(twice), dimensions={{0}}, replica_groups={backwards}",
        "reduce-scatter": f"{kind}[{PART}] reduce-scatter(twice), dimensions={{0}}, to_apply=reduce,"
        f" replica_groups={groups}",
        "all-to-all": f"{whole} all-to-all(twice), dimensions={{0}}, replica_groups={groups}",
        "collective-broadcast": f"{whole} collective-broadcast(twice), replica_groups={backwards}",
        "ragged-all-to-all": f"{whole} ragged-all-to-all(twice, rows, input_offsets, send_sizes, output_offsets,"
        f" recv_sizes), replica_groups={groups}",
    }
    names = [op.replace("-", "_") for op in setting.ops]
    body = "\n".join(f"  {op.replace('-', '_')} = {lines[op]}" for op in setting.ops)
    types = ", ".join(lines[op].partition(" ")[0] for op in setting.ops)
    return f"""
HloModule rig
reduce {{ a = {kind}[] parameter(0)  b = {kind}[] parameter(1)  ROOT r = {kind}[] {setting.reduction}(a, b) }}
ENTRY main {{
  p = {whole} parameter(0)
  rows = {whole} parameter(1)
  input_offsets = {count} parameter(2)
  send_sizes = {count} parameter(3)
  output_offsets = {count} parameter(4)
  recv_sizes = {count} parameter(5)
  twice = {whole} add(p, p)
{body}
  ROOT t = ({types}) tuple({", ".join(names)})
}}
"""


def parameters(setting: Setting, seed: int) -> list[Arrays]:
    """The parameters of each process. Their numbers are whole and small, so that results do not depend on the order."""
    random = np.random.default_rng(seed)
    size, dtype = len(setting.members[0]), TYPES[setting.dtype]
    low, high = (-1000, 1000) if setting.dtype == "f32" else (0, 3)
    made: list[Arrays] = [[]] * setting.processes
    for group in setting.members:
        # Row: sender, column: receiver. A receiver lays the rows of its senders one behind the other.
        sizes = random.integers(0, PART + 1, (size, size))
        offsets = np.cumsum(sizes, axis=0) - sizes
        for k, process in enumerate(group):
            p, rows = random.integers(low, high, (2, PART * size)).astype(dtype)
            made[process] = [p, rows, np.arange(size) * PART, sizes[k], offsets[k], sizes[:, k].copy()]
    return made


def expected(setting: Setting, given: list[Arrays]) -> list[dict[str, np.ndarray]]:
    """The results of each process."""
    twice = [(arrays[0] + arrays[0]).astype(TYPES[setting.dtype]) for arrays in given]
    results: list[dict[str, np.ndarray]] = [{}] * setting.processes
    source = {target: origin for origin, target in setting.pairs}
    for group in setting.members:
        total = functools.reduce(REDUCTIONS[setting.reduction], (twice[process] for process in group))
        for k, process in enumerate(group):
            own = slice(k * PART, (k + 1) * PART)
            ragged = given[process][1].copy()
            for sender in group:
                _, _, inputs, sizes, outputs, _ = given[sender]
                ragged[outputs[k] : outputs[k] + sizes[k]] = twice[sender][inputs[k] : inputs[k] + sizes[k]]
            results[process] = {
                "all-reduce": total,
                "collective-permute": twice[source[process]] if process in source else np.zeros_like(twice[0]),
                "all-gather": np.concatenate([twice[other] for other in group[::-1]]),
                "reduce-scatter": total[own],
                "all-to-all": np.concatenate([twice[other][own] for other in group]),
                "collective-broadcast": twice[group[-1]],
                "ragged-all-to-all": ragged,
            }
    return results


def run(emulator: Emulator, setting: Setting, folder: Path) -> list[str]:
    """Runs a job with its files in `folder`; returns the output of each process, all of which have succeeded."""
    (folder / "store").mkdir()
    (folder / "module.hlo").write_text(module(setting))
    for number in range(RUNS):
        for process, arrays in enumerate(parameters(setting, seed=number)):
            for index, array in enumerate(arrays):
                array.tofile(folder / f"parameter.{number}.{index}.{process}")
    flags = (
        *(GRAPH_FLAGS if setting.graphs else NO_GRAPH_FLAGS),
        f"--xla_gpu_cuda_data_dir={emulator.wheels / 'nvidia/cu13'}",
        # The emulated NCCL does not divide communicators.
        "--xla_gpu_enable_nccl_comm_splitting=false",
        f"--xla_dump_to={folder / 'dump'}",
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
        flag = "reload" if setting.reloaded else "on" if setting.flag else "off"
        command = [PROGRAM, folder, str(process), str(setting.processes), str(RUNS), flag]
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
    on_nccl = [op for op in setting.ops if op not in setting.ours]
    thunks = Counter(f"{THUNKS[op]} on {'NVSHMEM' if op in setting.ours else 'NCCL'}" for op in setting.ops)
    for output in outputs:
        (failure,) = re.findall(r"^failure: (.*)$", output, re.MULTILINE)
        assert failure.startswith(setting.failure)
        assert bool(failure) == bool(setting.failure)
        made = Counter(re.findall(r"^k\w+ on \w+$", output, re.MULTILINE))
        assert made == (thunks + thunks if setting.reloaded else thunks), output
        if not setting.graphs:
            executed = re.findall(r"^ +(\d+) .* (\S+)  rig/\w\S*$", output, re.MULTILINE)
            assert {op: int(calls) for calls, op in executed} == dict.fromkeys(setting.ours, RUNS), output
    # What an NCCL communicator begins with, in XLA's words.
    asked_nccl = [path.name for path in (tmp_path / "store").iterdir() if "clique" in path.name]
    assert bool(asked_nccl) == bool(on_nccl)
    assert shown_by_inspect(tmp_path / "dump") == {op: "NVSHMEM" for op in setting.ours} | dict.fromkeys(
        on_nccl, "DEFAULT"
    )
    for number in range(RUNS):
        for process, arrays in enumerate(expected(setting, parameters(setting, seed=number))):
            for index, op in enumerate(setting.ops):
                result = np.fromfile(tmp_path / f"result.{number}.{index}.{process}", TYPES[setting.dtype])
                assert result.tolist() == arrays[op].tolist(), f"{op} of process {process} in run {number}"


def shown_by_inspect(dump: Path) -> dict[str, str]:
    """Returns the backend of each op, as `xla-shmem inspect` shows the dump of a process."""
    (compiled,) = sorted(dump.glob("*rig*gpu_after_optimizations.txt"))[:1]
    shown = subprocess.run(
        [Path(sys.executable).with_name("xla-shmem"), "inspect", "--json", compiled],
        check=True,
        capture_output=True,
        text=True,
    )
    return {row["op"]: row["backend"] for row in json.loads(shown.stdout)}
