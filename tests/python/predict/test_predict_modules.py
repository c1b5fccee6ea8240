"""The schedule and the decisions that `xla-shmem predict` reads from HLO."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hlo_samples import CPU_SYNC, GPU_GENERIC_ASYNC, gpu_start_done
from tuning_tables import here, row, times, written

from xla_shmem.cli.main import main
from xla_shmem.hlo.files import read_module
from xla_shmem.options import resolve
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.forecast import forecast
from xla_shmem.predict.module_program import program_of_module
from xla_shmem.predict.program import Collective, Program, Step
from xla_shmem.predict.walk import Machine


def _program(path: Path, text: str, nvlink_domain: int = 72, **options: object) -> Program:
    path.write_text(text)
    cluster = dataclasses.replace(read_cluster("gb200-nvl72"), gpus_per_node=2, gpus_per_nvlink_domain=nvlink_domain)
    return program_of_module(read_module(str(path)), cluster, dataclasses.replace(resolve(), **options))


def test_starts_kernels_and_dones_keep_their_order(tmp_path: Path) -> None:
    program = _program(tmp_path / "m.txt", gpu_start_done(None))
    work = 8 * 1024
    assert program.devices == 8
    assert program.computations[program.entry] == (
        Step("permute-start", starts="permute-start"),
        Step("square", flops=work, bytes=3 * 2 * work),
        Step("permute-done", ends="permute-start"),
        Step("reduce-start", starts="reduce-start"),
        Step("reduce-done", ends="reduce-start"),
    )
    assert program.collectives == {
        "permute-start": Collective("collective-permute", 2 * work, 8, "NVSHMEM", domain_size=8, dtype="bf16"),
        "reduce-start": Collective("all-reduce", 2 * work, 4, "NVSHMEM", domain_size=4, dtype="bf16"),
    }


def test_a_generic_async_pair_is_a_start_and_a_done(tmp_path: Path) -> None:
    program = _program(tmp_path / "m.txt", GPU_GENERIC_ASYNC)
    assert program.computations[program.entry] == (
        Step("permute-start", starts="permute-start"),
        Step("permute-done", ends="permute-start"),
        Step("psum", starts="psum", ends="psum"),
    )


@pytest.mark.parametrize(
    ("domain", "inside"), [(2, set()), (4, {"reduce-start"}), (8, {"permute-start", "reduce-start"})]
)
def test_a_group_within_an_nvlink_domain_is_known_by_its_devices(tmp_path: Path, domain: int, inside: set[str]) -> None:
    program = _program(tmp_path / "m.txt", gpu_start_done(None), domain)
    near = {name for name, each in program.collectives.items() if each.in_domain}
    carried = {name for name, each in program.collectives.items() if each.lowered == "NVSHMEM"}
    assert near == carried == inside
    permute, reduce = (program.collectives[name] for name in ("permute-start", "reduce-start"))
    assert reduce.domain_size == min(domain, 4)
    assert permute.domain_size == (8 if domain == 8 else 1), "a permute is as slow as a pair that crosses domains"


def test_the_option_divides_what_crosses_domains(tmp_path: Path) -> None:
    program = _program(tmp_path / "m.txt", gpu_start_done(None), 2, hierarchical="on")
    assert {each.lowered for each in program.collectives.values()} == {"HIERARCHICAL"}
    machine = Machine(dataclasses.replace(read_cluster("gb200-nvl72"), gpus_per_nvlink_domain=2), read_constants())
    found = forecast("divided", program, machine)
    assert (found.on_nvshmem, found.divided, found.collectives) == (0, 2, 2)
    assert found.times["NVSHMEM"].step != found.times["DEFAULT"].step
    whole = _program(tmp_path / "m.txt", gpu_start_done(None), 2)
    assert {each.lowered for each in whole.collectives.values()} == {"DEFAULT"}


def test_the_options_decide_as_they_do_in_a_run(tmp_path: Path) -> None:
    program = _program(tmp_path / "m.txt", gpu_start_done(None), threshold=1024)
    assert program.collectives["reduce-start"].lowered == "DEFAULT"
    assert program.collectives["reduce-start"].in_domain, "where a group lies is no question of size"


def test_a_module_that_the_pass_has_rewritten_predicts_the_same(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(gpu_start_done(None))
    rewritten = CliRunner().invoke(
        main, ["inspect", "decide", str(tmp_path / "m.txt"), "--output", str(tmp_path / "r.pb")]
    )
    assert rewritten.exit_code == 0, rewritten.stderr
    found = []
    for name in ("m.txt", "r.pb"):
        result = CliRunner().invoke(main, ["predict", "--json", str(tmp_path / name)])
        assert result.exit_code == 0, result.stderr
        (entry,) = json.loads(result.stdout)
        found.append({key: value for key, value in entry.items() if key != "program"})
    assert found[0]["on_nvshmem"] == 2
    assert found[0]["gain"] == pytest.approx(found[1]["gain"], rel=0.01)
    assert found[0]["nvshmem"]["transfers_s"] == pytest.approx(found[1]["nvshmem"]["transfers_s"])


def test_a_loop_of_unknown_length_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(CPU_SYNC)
    result = CliRunner().invoke(main, ["predict", str(tmp_path / "m.txt")])
    assert result.exit_code == 2
    assert "no trip count for the loop over body" in result.stderr
    assert result.stderr.count("\n") == 1


def test_measured_times_count_and_decide(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(gpu_start_done(None))
    ways = {"nccl": times(300.0)}
    measured = [
        row("collective-permute", 1 << 14, 1000.0, 5000.0, group=8),
        row("all-reduce", 1 << 14, 4000.0, 2000.0, group=4, ways=ways),
    ]
    table = written(tmp_path / "t.json", *measured, platform="gpu")
    result = CliRunner().invoke(main, ["predict", str(tmp_path / "m.txt"), "--tuning", str(table), "--json"])
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert (found["on_nvshmem"], found["collectives"]) == (1, 2)  # the sum stays, as the table says
    # The sum is in no fusion, so NCCL runs it whatever the table says of a kernel of XLA.
    assert found["nvshmem"]["transfers_s"] == pytest.approx(3000e-6)
    assert found["default"]["transfers_s"] == pytest.approx(7000e-6)


def test_ops_that_were_not_measured_and_groups_beyond_a_domain_go_by_the_model(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(gpu_start_done(None))
    cluster = dataclasses.replace(read_cluster("gb200-nvl72"), gpus_per_node=2, gpus_per_nvlink_domain=4)
    program = program_of_module(read_module(str(tmp_path / "m.txt")), cluster, resolve())
    machine = Machine(cluster, read_constants())
    plain = forecast("", program, machine)
    of_permutes = here(row("collective-permute", 1 << 14, 1e6, 1e6, group=8), platform="gpu").core("gpu")
    assert forecast("", program, dataclasses.replace(machine, measured={"DEFAULT": of_permutes})) == plain
    of_sums = here(row("all-reduce", 1 << 14, 1e6, 2e6, group=4), platform="gpu").core("gpu")
    slow = forecast("", program, dataclasses.replace(machine, measured={"NVSHMEM": of_sums, "DEFAULT": of_sums}))
    assert slow.times["NVSHMEM"].step == pytest.approx(1.0, rel=1e-2)
    assert slow.times["DEFAULT"].step == pytest.approx(2.0, rel=1e-2)


def test_a_table_of_cpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(gpu_start_done(None))
    table = written(tmp_path / "t.json", row("all-reduce", 64, 4.0, 2.0))
    result = CliRunner().invoke(main, ["predict", str(tmp_path / "m.txt"), "--tuning", str(table)])
    assert result.exit_code == 2
    assert "t.json has times of CPUs, and predict is for GPUs." in " ".join(result.stderr.split())
