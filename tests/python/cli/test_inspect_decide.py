"""`xla-shmem inspect decide`: the compiler pass offline."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hlo_samples import ALL_GATHER, CPU_SYNC, NO_COLLECTIVE, gpu_start_done
from inspect_runs import inspect, inspected
from tuning_tables import row, written

from xla_shmem.hlo.files import read_module, to_text

pytestmark = pytest.mark.usefixtures("no_options")


@pytest.fixture
def cpu(tmp_path: Path) -> Path:
    path = tmp_path / "cpu.txt"
    path.write_text(CPU_SYNC)
    return path


@pytest.fixture
def gpu(tmp_path: Path) -> Path:
    path = tmp_path / "gpu.txt"
    path.write_text(gpu_start_done("DEFAULT"))
    return path


def _decide(*arguments: str | Path) -> Result:
    return inspect("decide", *arguments)


def _records(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    return inspected("decide", *arguments)


def _backends(*arguments: str | Path) -> dict[str, str]:
    return {name: record["backend"] for name, record in _records(*arguments).items()}


def test_default_is_the_published_rule(cpu: Path) -> None:
    records = _records(cpu)
    assert {name: record["backend"] for name, record in records.items()} == {
        "small": "NVSHMEM",
        "large": "DEFAULT",
        "permute": "NVSHMEM",
    }
    assert records["small"]["rule"] == "single-device"
    assert records["large"]["rule"] == "size"
    assert "16.0 MiB" in records["large"]["reason"]
    assert records["small"]["lowered"] == "NVSHMEM"


def test_filters_apply_to_the_table_and_not_to_the_written_module(cpu: Path, tmp_path: Path) -> None:
    assert set(_records(cpu, "--op", "permute", "--output", tmp_path / "o.txt")) == {"permute"}
    assert (tmp_path / "o.txt").read_text().count('custom_call_target="xla_shmem.all_reduce"') == 1


def test_threshold_is_a_strict_limit(cpu: Path) -> None:
    assert _backends(cpu, "--threshold", "16777217")["large"] == "NVSHMEM"
    assert _backends(cpu, "--threshold", "4KiB")["small"] == "DEFAULT"
    assert _backends(cpu, "--threshold", "4097")["small"] == "NVSHMEM"


def test_ops_choose_the_considered_collectives(cpu: Path) -> None:
    assert _backends(cpu, "--ops", "collective-permute") == {
        "small": "DEFAULT",
        "large": "DEFAULT",
        "permute": "NVSHMEM",
    }
    records = _records(cpu, "--ops", "all-reduce<32MiB")
    assert {name: record["backend"] for name, record in records.items()} == {
        "small": "NVSHMEM",
        "large": "NVSHMEM",
        "permute": "DEFAULT",
    }
    assert records["large"]["reason"].endswith("all-reduce of 16.0 MiB < XLA_SHMEM_OPS limit 32.0 MiB")
    assert records["permute"]["reason"] == "collective-permute is not listed in XLA_SHMEM_OPS"


@pytest.mark.parametrize("lowering", ["cpu", "gpu"])
def test_both_platforms_carry_a_listed_all_gather(tmp_path: Path, lowering: str) -> None:
    module = tmp_path / "gather.txt"
    module.write_text(ALL_GATHER)
    (record,) = _records(module, "--ops", "all", "--lowering", lowering).values()
    assert (record["backend"], record["veto"]) == ("NVSHMEM", None)
    assert record["reason"].endswith("all-gather of 64 B: listed in XLA_SHMEM_OPS")
    assert record["lowered"] == "NVSHMEM"
    assert _records(module)["gather"]["rule"] == "unconsidered-op"


def test_threshold_and_profile_come_from_the_environment_unless_given(
    cpu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_SHMEM_THRESHOLD", "1K")
    assert _backends(cpu)["small"] == "DEFAULT"
    assert _backends(cpu, "--threshold", "16MiB")["small"] == "NVSHMEM"


def test_groups_across_processes_with_several_devices_stay_on_default(gpu: Path) -> None:
    layout = ("--devices-per-process", "2", "--devices-per-host", "2")
    assert set(_backends(gpu, *layout).values()) == {"DEFAULT"}


def test_automatic_nvlink_domain_is_a_host_offline(gpu: Path) -> None:
    layout = ("--devices-per-process", "2", "--devices-per-host", "2")
    assert _records(gpu, *layout, "--nvlink-domain", "host") == _records(gpu, *layout, "--nvlink-domain", "auto")


def test_nvlink_domain_that_holds_the_module_decides_for_nvshmem(gpu: Path) -> None:
    layout = ("--devices-per-process", "2", "--devices-per-host", "2", "--nvlink-domain", "8")
    records = _records(gpu, *layout)
    assert {record["rule"] for record in records.values()} == {"nvlink-domain"}


def test_domain_profile_decides_for_each_collective_alone(gpu: Path) -> None:
    backends = _backends(gpu, "--profile", "domain", "--nvlink-domain", "4")
    assert backends == {"permute-start": "DEFAULT", "reduce-start": "NVSHMEM"}


def test_peer_out_of_reach_keeps_the_decision_and_is_lowered_to_default(
    cpu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_SHMEM_HIERARCHICAL", "off")  # else it is divided
    record = _records(cpu, "--devices-per-host", "2")["small"]
    assert (record["backend"], record["lowered"]) == ("NVSHMEM", "DEFAULT")
    assert record["veto"]
    row = next(line for line in _decide(cpu, "--devices-per-host", "2").stdout.splitlines() if "small" in line)
    assert "NVSHMEM → DEFAULT" in row


def test_tuned_profile_reads_a_table_of_any_machine(cpu: Path, tmp_path: Path) -> None:
    table = written(
        tmp_path / "tuning.json",
        row("all-reduce", 4096, 2.0, 300.0, group=4),
        row("all-reduce", 64 << 20, 9000.0, 40000.0, group=4),
        row("collective-permute", 4096, 90.0, 80.0, group=4),
    )
    table.write_text(table.read_text().replace('"processors": "', '"processors": "9'))
    records = _records(cpu, "--profile", "tuned", "--tuning", table)
    assert {name: (record["backend"], record["rule"]) for name, record in records.items()} == {
        "small": ("NVSHMEM", "tuned"),
        "large": ("NVSHMEM", "tuned"),
        "permute": ("DEFAULT", "tuned"),
    }
    assert (
        "all-reduce of 4.0 KiB: NVSHMEM 2.0 µs, DEFAULT 300 µs measured (f32, groups of 4)"
        in records["small"]["reason"]
    )
    assert "between 4.0 KiB and 64.0 MiB" in records["large"]["reason"]
    assert (
        _records(cpu, "--profile", "tuned", "--tuning", table, "--lowering", "gpu")["small"]["rule"]
        == "tuned-unmeasured"
    )


@pytest.mark.parametrize("name", ["o.txt", "o.hlo", "o.pb", "o.txt.gz", "o.pb.gz"])
def test_the_extension_chooses_the_form_of_the_written_module(cpu: Path, tmp_path: Path, name: str) -> None:
    assert _decide(cpu, "--output", tmp_path / name).exit_code == 0
    text = to_text("m", read_module(str(tmp_path / name)).proto)
    assert text.count('custom_call_target="xla_shmem.') > 0
    assert "all-reduce(" in text  # the large one
    assert "collective-permute(" not in text


def test_start_done_pairs_with_work_between_are_lowered_as_pairs(gpu: Path, tmp_path: Path) -> None:
    _decide(gpu, "--output", tmp_path / "o.txt")
    text = (tmp_path / "o.txt").read_text()
    assert "xla_shmem.permute_start" in text
    assert "xla_shmem.permute_done" in text
    assert "xla_shmem.all_reduce_start" not in text
    assert 'custom_call_target="xla_shmem.all_reduce"' in text


def test_lowering_none_only_writes_the_decisions(cpu: Path, tmp_path: Path) -> None:
    records = _records(cpu, "--lowering", "none", "--output", tmp_path / "o.txt")
    text = (tmp_path / "o.txt").read_text()
    assert records["small"]["backend"] == "NVSHMEM"
    assert "custom_call_target" not in text
    assert "xla_shmem" in text


def test_compressed_proto_gives_the_same_answers_as_text(cpu: Path, tmp_path: Path) -> None:
    (tmp_path / "m.pb.gz").write_bytes(gzip.compress(read_module(str(cpu)).proto))
    assert _backends(tmp_path / "m.pb.gz") == _backends(cpu)


def test_more_devices_than_the_module_names_are_fine(cpu: Path) -> None:
    records = _records(cpu, "--num-devices", "16", "--devices-per-process", "4")
    assert records["small"]["rule"] == "single-partition"


def _error(*arguments: str | Path) -> str:
    result = _decide(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_fewer_devices_than_the_module_names_are_an_error(cpu: Path) -> None:
    assert f"{cpu}: uses device 3, so --num-devices 2 must be at least 4." in _error(cpu, "--num-devices", "2")


def test_layout_that_does_not_divide_is_an_error(cpu: Path) -> None:
    assert "4 devices do not divide into processes of 3 devices" in _error(cpu, "--devices-per-process", "3")


def test_module_that_names_no_devices_asks_for_their_number(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(NO_COLLECTIVE)
    assert "does not contain its number of devices; give --num-devices." in _error(path)
    assert _decide(path, "--num-devices", "2").exit_code == 0


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--tuning", "no/table", "the tuning table no/table: there is no such file; `xla-shmem tune` writes one."),
        ("--threshold", "16MB", "threshold='16MB': must be 'none' or a size"),
        ("--nvlink-domain", "none", "nvlink_domain='none': must be 'auto', 'host' or a number of devices"),
        ("--output", "out.json", "out.json: the extension must be .txt or .hlo (text) or .pb"),
    ],
)
def test_bad_option_is_one_sentence(
    cpu: Path, option: str, value: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_SHMEM_PROFILE", "tuned" if option == "--tuning" else "")
    assert sentence in _error(cpu, option, value)


def test_a_wrong_profile_is_answered_with_those_there_are(cpu: Path) -> None:
    result = _decide(cpu, "--profile", "fast")
    assert result.exit_code == 2
    assert "'fast' is not one of 'upstream', 'domain', 'tuned'" in result.stderr


def test_the_cost_model_says_where_nccl_may_be_faster(cpu: Path) -> None:
    cpu.write_text(CPU_SYNC.replace("replica_groups=[2,2]<=[4]", "replica_groups={{0,1,2,3}}"))
    options = ["--threshold", "none", "--gpu", "hopper"]
    assert all(record["model"] is None for record in _records(cpu, *options[:2]).values())
    records = _records(cpu, *options)
    assert {record["backend"] for record in records.values()} == {"NVSHMEM"}
    assert [name for name, record in records.items() if record["model"]] == ["large"]
    note = records["large"]["model"]
    assert note.startswith("NCCL may be faster: NVSHMEM ")
    assert note in " ".join(_decide(cpu, *options).stdout.split())


def test_profile_domain_goes_by_the_cost_model(cpu: Path) -> None:
    records = _records(cpu, "--profile", "domain", "--gpu", "blackwell")
    assert {record["rule"] for record in records.values()} == {"model"}
    assert all("expected (blackwell, groups of" in record["reason"] for record in records.values())
    explained = inspect("explain", cpu, "small", "--profile", "domain", "--gpu", "blackwell").stdout
    assert "Which backend does the cost model expect to be faster?" in " ".join(explained.split())
