"""`xla-shmem predict` on modules that the real XLA:GPU compiled, of a small model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from compiler_runs import WHEELS, Compiler

import forecast_job
import table2
from gpu_compile.compiled_step import compile_step
from published import Row
from xla_shmem.cli.main import main
from xla_shmem.hlo.files import read_module
from xla_shmem.options import resolve
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.module_program import program_of_module
from xla_shmem.predict.program import Program
from xla_shmem.predict.walk import Machine, run_times

_RING = 4


@pytest.fixture(scope="module")
def module(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = dataclasses.replace(Row(2048, _RING, 1).job(), preset="demo", layers=3)
    path = tmp_path_factory.mktemp("predict") / "step.pb"
    compile_step(config, table2.TARGET, WHEELS, module=path)
    return path


def _program(module: Path, **changes: int) -> Program:
    cluster = dataclasses.replace(read_cluster("gb200-nvl72"), **changes)
    return program_of_module(read_module(str(module)), cluster, resolve())


def test_the_schedule_starts_and_ends_every_collective_once(module: Path) -> None:
    program = _program(module)
    assert program.devices == _RING
    steps = [step for each in program.computations.values() for step in each]
    assert sorted(step.starts for step in steps if step.starts) == sorted(program.collectives)
    assert sorted(step.ends for step in steps if step.ends) == sorted(program.collectives)
    permutes = {name for name, each in program.collectives.items() if each.op == "collective-permute"}
    assert all(program.collectives[name].lowered == "NVSHMEM" for name in permutes)
    together = {step.starts for step in steps if step.starts and step.starts == step.ends}
    assert permutes - together, "XLA puts attention between the start of a permute and its end"


def test_beyond_the_nvlink_domain_nothing_is_on_nvshmem(module: Path) -> None:
    program = _program(module, gpus_per_node=2, gpus_per_nvlink_domain=2)
    assert not any(each.in_domain or each.lowered == "NVSHMEM" for each in program.collectives.values())
    machine = Machine(read_cluster("gb200-nvl72"), read_constants())
    assert run_times(program, "NVSHMEM", machine) == run_times(program, "DEFAULT", machine)


def test_the_command_predicts_a_compiled_module(module: Path) -> None:
    result = CliRunner().invoke(main, ["predict", "--json", str(module)])
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)
    assert found["devices"] == _RING
    assert 0 < found["on_nvshmem"] < found["collectives"]
    assert found["default"]["step_s"] > found["nvshmem"]["step_s"] > found["nvshmem"]["compute_s"] > 0


def test_a_job_is_compiled_and_predicted(compiler: Compiler, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text('preset = "tiny"\nvocab = 256\nsequence = 1024\ncontext = 2\n')
    result = CliRunner().invoke(forecast_job.main, ["--config", str(tmp_path / "job.toml"), "--wheels", str(WHEELS)])
    assert result.exit_code == 0, result.stderr
    assert "tiny, 1,024 tokens, data 1 x fsdp 1 x context 2 x tensor 1: 2 GPUs" in result.stdout
