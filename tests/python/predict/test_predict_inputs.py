"""The inputs of `xla-shmem predict`: clusters, constants, options; and its errors about bad ones."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hlo_samples import NO_COLLECTIVE, gpu_start_done

from xla_shmem.cli.main import main
from xla_shmem.errors import PredictError
from xla_shmem.hlo.files import read_module
from xla_shmem.predict import constants
from xla_shmem.predict.cluster import Cluster, preset_names, read_cluster


def _predict(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["predict", *map(str, arguments)])


def _sentence(*arguments: str | Path) -> str:
    result = _predict(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def _text(cluster: Cluster) -> str:
    fields = dataclasses.asdict(cluster)
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items() if value is not None)


def test_presets_are_the_clusters_of_the_data_sheets() -> None:
    assert preset_names() == ["gb200-nvl72", "h100-sxm", "h200-sxm"]
    for name in preset_names():
        cluster = read_cluster(name)
        assert cluster.fp8_tflops == pytest.approx(2 * cluster.bf16_tflops, rel=1e-3)
        assert cluster.gpus_per_nvlink_domain % cluster.gpus_per_node == 0


def test_every_number_of_a_preset_has_its_source_beside_it() -> None:
    for path in sorted((Path(constants.__file__).parent / "clusters").glob("*.toml")):
        numbers = [line for line in path.read_text().splitlines() if re.search(r"= [\d.]+", line)]
        layout = [line for line in numbers if line.startswith("gpus_per_")]
        assert all("#" in line for line in numbers if line not in layout), path


def test_a_file_describes_a_cluster(tmp_path: Path) -> None:
    cluster = dataclasses.replace(read_cluster("h100-sxm"), name="mine", nodes=3)
    (tmp_path / "mine.toml").write_text(_text(cluster))
    assert read_cluster(str(tmp_path / "mine.toml")) == cluster


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sms = 132", "smms = 132", "smms is not a key of a cluster; did you mean sms?"),
        ("sms = 132", "", "lacks sms;"),
        ("sms = 132", "sms = 13.2", "sms is 13.2; it must be a whole number"),
        ("sms = 132", 'sms = "132"', "sms is '132'; it must be a whole number"),
        ("nic_gb_per_s = 50", "nic_gb_per_s = -5", "nic_gb_per_s is -5; it must be greater than 0"),
        ("nic_gb_per_s = 50", "nic_gb_per_s = inf", "nic_gb_per_s is inf; it must be greater than 0"),
        ("sms = 132", "sms = = 132", "is not TOML"),
    ],
)
def test_a_file_that_describes_none_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = _text(read_cluster("h100-sxm"))
    assert old in text
    (tmp_path / "bad.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(PredictError, match=re.escape(message)):
        read_cluster(str(tmp_path / "bad.toml"))


def test_an_unknown_cluster_is_one_sentence_with_the_presets() -> None:
    assert "neither a file nor one of gb200-nvl72, h100-sxm, h200-sxm" in _sentence("dump", "--cluster", "gb300")


def test_every_constant_has_a_source() -> None:
    named = {field.name for field in dataclasses.fields(constants.Constants)}
    assert {name for name, _, _ in constants.sources()} == named
    assert all(len(source) > 20 for _, _, source in constants.sources())
    assert list(tomllib.loads(constants.FILE.read_text())["fitted"]) == ["attention_efficiency", "channel_gb_per_s"]


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A program of eight devices: a permute beside a kernel, and an all-reduce among four."""
    path = tmp_path / "module.txt"
    path.write_text(gpu_start_done(None))
    return path


def test_a_program_is_predicted_on_both_backends(module: Path) -> None:
    result = _predict(module, "--json")
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)
    assert found["devices"] == 8
    slow, fast = found["default"], found["nvshmem"]
    assert slow["compute_s"] == pytest.approx(fast["compute_s"])
    assert fast["slowed_s"] < slow["slowed_s"], "puts keep no SM"
    assert found["gain"] == pytest.approx(slow["step_s"] / fast["step_s"] - 1)
    assert fast["tflops_per_device"] * fast["step_s"] == pytest.approx(slow["tflops_per_device"] * slow["step_s"])


def test_the_table_says_what_the_json_says(module: Path) -> None:
    result = _predict(module, "--cluster", "h100-sxm")
    assert result.exit_code == 0, result.stderr
    assert "H100 SXM, BF16, attention one fused kernel. Predicted, not measured." in result.stdout
    (gain,) = re.findall(r"NVSHMEM is (\S+) % faster", result.stdout)
    (found,) = json.loads(_predict(module, "--cluster", "h100-sxm", "--json").stdout)
    assert float(gain) == pytest.approx(found["gain"] * 100, abs=0.05)


def test_a_program_that_does_not_fit_the_cluster_is_refused(module: Path, tmp_path: Path) -> None:
    small = dataclasses.replace(read_cluster("h100-sxm"), nodes=1, gpus_per_node=4, gpus_per_nvlink_domain=4)
    (tmp_path / "small.toml").write_text(_text(small))
    message = _sentence(module, "--cluster", tmp_path / "small.toml")
    assert "the program is for 8 devices, and cluster H100 SXM has 1 nodes of 4 GPUs" in message


def test_without_a_path_the_usage_says_how_to_write_a_dump() -> None:
    result = _predict("--cluster", "h100-sxm")
    assert result.exit_code == 2
    assert "predict [OPTIONS] PATH..." in result.stderr
    assert "Missing PATH, a compiled GPU program" in result.stderr
    assert "XLA_FLAGS=--xla_dump_to=FOLDER" in result.stderr


def test_a_dump_that_is_cut_off_anywhere_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(gpu_start_done(None))
    whole = read_module(str(tmp_path / "m.txt")).proto
    for size in range(1, len(whole), 97):
        (tmp_path / "cut.pb").write_bytes(whole[:size])
        result = _predict(tmp_path / "cut.pb")
        assert result.exception is None or isinstance(result.exception, SystemExit), (size, result.exception)
        assert result.exit_code in (0, 2), "a cut between two fields may leave a module"


def test_bad_programs_are_one_sentence(tmp_path: Path) -> None:
    assert "cannot be read" in _sentence(tmp_path / "nothing.txt")
    (tmp_path / "half.pb").write_bytes(b"\x0a\xff\xff")
    assert "half.pb" in _sentence(tmp_path / "half.pb")
    (tmp_path / "m.txt").write_text(NO_COLLECTIVE)
    assert "none of 1 modules has a collective" in _sentence(tmp_path / "m.txt")
    assert "no *after_optimizations* module" in _sentence(tmp_path)


def test_a_module_before_partitioning_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(
        "HloModule f, num_partitions=4\n\nENTRY %main {\n  %x = f32[64]{0} parameter(0)\n"
        '  ROOT %c = f32[64]{0} custom-call(%x), custom_call_target="Sharding", sharding={devices=[4]<=[4]}\n}\n'
    )
    assert f"{path}: is not partitioned yet: it has shardings" in _sentence(path)


def test_groups_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(gpu_start_done(None).replace("{4,5,6,7}}", "{4,5,6,9}}"))
    assert _sentence(path) == f"Error: {path}: reduce-start: replica groups: device 9, but the module has 8.\n"
