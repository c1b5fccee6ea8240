"""NVML and libcuda, read through nvidia-ml-py and ctypes from a double of the driver's libraries."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import driver_doubles
import pytest

from xla_shmem.gpu.cuda_driver import VisibleGpus, same_bus_id_form, visible_gpus
from xla_shmem.gpu.nvml import Driver, Fabric, Gpu, read_driver
from xla_shmem.gpu.process_facts import GpuFacts, ProcessFacts, process_facts

READ = (
    "import dataclasses, json; from xla_shmem.gpu.nvml import read_driver;"
    "from xla_shmem.gpu.process_facts import read_process_facts;"
    "print(json.dumps([dataclasses.asdict(read_driver()), json.loads(read_process_facts({}).to_json())]))"
)
FIRST, SECOND = "00000000:1B:00.0", "00000000:5D:00.0"


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver_doubles.build(tmp_path_factory.mktemp("driver"))


def read(double: Path, machine: str, ordinals: str = "", **environ: str) -> tuple[dict[str, Any], dict[str, Any]]:
    program = READ.format(ordinals)
    output = driver_doubles.run_python(program, driver_doubles.environment(double, machine, **environ))
    driver, facts = json.loads(output)
    return driver, facts


def test_hgx_board_links_to_switches_and_is_in_no_fabric(double: Path) -> None:
    driver, facts = read(double, "hgx")
    assert (driver["error"], driver["version"], driver["cuda"]) == ("", "580.65.06", [13, 1])
    first = driver["gpus"][0]
    assert (first["name"], first["uuid"], first["bus_id"]) == ("NVIDIA Double", "GPU-0", FIRST)
    assert (first["compute_capability"], first["memory"], first["mig"]) == ([9, 0], 80 << 30, False)
    assert (first["switch_links"], first["peer_links"], first["peers"]) == (18, [], {SECOND: "nvlink"})
    assert first["fabric"] == {"cluster": "00000000-0000-0000-0000-000000000000", "clique": 0, "state": "completed"}
    assert not Fabric(**first["fabric"]).joined
    assert [gpu["switch_links"] for gpu in facts["gpus"]] == [18, 18]


def test_rack_scale_machine_is_in_a_fabric(double: Path) -> None:
    driver, _ = read(double, "nvl72")
    fabric = Fabric(**driver["gpus"][1]["fabric"])
    assert fabric == Fabric("abababab-abab-abab-abab-abababababab", 7, "completed")
    assert fabric.joined


def test_bridged_pair_names_the_other_end(double: Path) -> None:
    driver, facts = read(double, "bridge")
    assert driver["gpus"][0]["peer_links"] == [SECOND] * 12
    assert facts["gpus"][0]["peer_links"] == ["0000:1B:00.0"]


@pytest.mark.parametrize(("machine", "link"), [("pcie", "pcie"), ("lone", None)])
def test_without_nvlink_peer_access_is_reported(double: Path, machine: str, link: str | None) -> None:
    driver, _ = read(double, machine)
    assert driver["gpus"][0]["switch_links"] == 0
    assert driver["gpus"][0]["peers"] == {SECOND: link}


def test_mig_is_reported(double: Path) -> None:
    assert read(double, "mig")[1]["gpus"][0]["mig"] is True


def test_old_driver_reports_no_fabric_and_no_mig(double: Path) -> None:
    driver, _ = read(double, "old")
    assert (driver["error"], driver["cuda"]) == ("", [12, 2])
    assert (driver["gpus"][0]["fabric"], driver["gpus"][0]["mig"]) == (None, False)


def test_broken_driver_is_an_error_and_no_exception(double: Path) -> None:
    driver, facts = read(double, "broken")
    assert "libnvidia-ml.so.1 answers" in driver["error"]
    assert "mismatch" in driver["error"]
    assert (driver["gpus"], facts["gpus"], facts["error"]) == ([], [], driver["error"])


def test_devices_of_a_process_come_in_cudas_order_not_nvmls(double: Path) -> None:
    assert [gpu["bus_id"] for gpu in read(double, "hgx")[1]["gpus"]] == ["0000:5D:00.0", "0000:1B:00.0"]
    assert [gpu["bus_id"] for gpu in read(double, "hgx", "[1]")[1]["gpus"]] == ["0000:1B:00.0"]


def test_hidden_device_is_an_error_with_the_number_of_gpus(double: Path) -> None:
    facts = read(double, "hgx", "[1]", CUDA_DOUBLE_VISIBLE="1")[1]
    assert facts["error"] == "CUDA shows 1 GPUs, so there is no device 1"


def test_libcuda_that_is_missing_or_fails_is_an_error(double: Path) -> None:
    assert "cannot open libcuda_missing.so.1" in visible_gpus("libcuda_missing.so.1").error
    program = "from xla_shmem.gpu.cuda_driver import visible_gpus; print(visible_gpus().error)"
    output = driver_doubles.run_python(program, driver_doubles.environment(double, "broken"))
    assert output == "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH\n"


def test_machine_without_driver_is_not_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    def nothing_there() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", nothing_there)
    assert read_driver() == Driver("no NVIDIA driver: libnvidia-ml.so.1 is not on this machine")


def test_missing_package_is_an_error_and_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert read_driver() == Driver("the Python package nvidia-ml-py is missing")


def test_older_pynvml_package_prints_no_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    modern = Path(str(importlib.import_module("pynvml").__file__)).read_text()
    older = 'import warnings\nwarnings.warn("The pynvml package is deprecated.", FutureWarning, stacklevel=2)\n'
    (tmp_path / "pynvml.py").write_text(modern.replace("from ctypes import *", f"{older}from ctypes import *", 1))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pynvml")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        read_driver()
    assert "FutureWarning" in (tmp_path / "pynvml.py").read_text()
    assert sys.modules["pynvml"].__file__ == str(tmp_path / "pynvml.py")
    assert not seen


@pytest.mark.parametrize("bus_id", ["00000000:1B:00.0", "0000:1b:00.0", "0000:1B:00.0"])
def test_bus_ids_of_nvml_and_cuda_compare(bus_id: str) -> None:
    assert same_bus_id_form(bus_id) == "0000:1B:00.0"


def test_gpu_that_nvml_does_not_show_is_an_error() -> None:
    gpu = Gpu(0, "", "", FIRST, (9, 0), 0, False, 0, (), {}, None)
    driver = Driver("", "580", (13, 0), (gpu,))
    facts = process_facts("a", driver, VisibleGpus(("0000:99:00.0",), ""))
    assert facts == ProcessFacts("a", (), "CUDA shows the GPU at 0000:99:00.0, but NVML does not")


def test_facts_are_equal_after_json() -> None:
    fabric = Fabric("abababab-abab-abab-abab-abababababab", 7, "completed")
    gpu = GpuFacts(
        "0000:1B:00.0", False, 3, ("0000:5D:00.0",), {"0000:5D:00.0": "nvlink", "0000:6D:00.0": None}, fabric, (9, 0)
    )
    facts = ProcessFacts("host", (gpu, dataclasses.replace(gpu, fabric=None)))
    assert ProcessFacts.from_json(facts.to_json()) == facts
    broken = ProcessFacts("host", (), "no driver")
    assert ProcessFacts.from_json(broken.to_json()) == broken
