"""The CUDA plugin that a process will use, and whether it can take part in a job."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import jax
import pytest
from jax._src import xla_bridge
from packaging.requirements import Requirement

from xla_shmem.gpu import jax_plugin
from xla_shmem.gpu.jax_plugin import (
    CudaPlugin,
    has_native_pass,
    local_ordinals,
    wanted_plugin,
    why_too_old,
)
from xla_shmem.options import resolve
from xla_shmem.runtime import gpu_platform

PLUGIN = CudaPlugin(13, "0.11.2", "0.11.2")


@pytest.mark.parametrize(
    ("platforms", "wanted"), [("", True), ("cuda", True), ("gpu", True), ("cuda,cpu", True), ("cpu", False)]
)
def test_a_plugin_is_wanted_if_jax_may_use_gpus(monkeypatch: pytest.MonkeyPatch, platforms: str, wanted: bool) -> None:
    monkeypatch.setattr(jax_plugin, "installed_plugins", lambda: [PLUGIN])
    before = jax.config.jax_platforms
    jax.config.update("jax_platforms", platforms)
    try:
        assert (wanted_plugin() == PLUGIN) is wanted
    finally:
        jax.config.update("jax_platforms", before)


def test_without_a_plugin_there_is_no_gpu_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_plugin, "installed_plugins", lambda: [])
    monkeypatch.setattr(gpu_platform, "wanted_plugin", wanted_plugin)
    assert gpu_platform.start_gpu_job(resolve({}, {}), "", str) is None


@pytest.mark.parametrize(("chosen", "queues"), [(None, "32"), ("1", "1")])
def test_the_driver_starts_with_all_hardware_queues_unless_the_user_chose(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, queues: str
) -> None:
    at_start = []

    class Job:
        def __init__(self, *arguments: object) -> None: ...

        gpus = 1

        def start(self, *arguments: object, **more: object) -> None:
            at_start.append(os.environ["CUDA_DEVICE_MAX_CONNECTIONS"])

    monkeypatch.setattr(gpu_platform, "wanted_plugin", lambda: PLUGIN)
    monkeypatch.setattr(gpu_platform, "GpuJob", Job)
    monkeypatch.setattr(os, "environ", {} if chosen is None else {"CUDA_DEVICE_MAX_CONNECTIONS": chosen})
    gpu_platform.start_gpu_job(resolve({}, {}), "", str)
    assert at_start == [queues]


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (PLUGIN, ""),
        (CudaPlugin(12, "0.10.2", "0.10.2"), ""),
        (CudaPlugin(12, "0.10.1", "0.10.1"), "0.10.1 has no hook for compiler passes: install 0.10.2 or newer"),
        (CudaPlugin(13, "0.11.2", None), "jax-cuda13-pjrt is missing beside jax-cuda13-plugin 0.11.2"),
    ],
)
def test_an_old_plugin_has_a_reason(plugin: CudaPlugin, reason: str) -> None:
    assert (reason in why_too_old(plugin)) if reason else why_too_old(plugin) == ""


@pytest.mark.parametrize(
    ("pjrt", "native"),
    [
        ("0.10.2+xlashmem", True),
        ("0.11.0+cuda.xlashmem", True),
        ("0.10.2", False),
        ("0.10.2+mine", False),
        (None, False),
    ],
)
def test_a_patched_xla_is_known_by_its_local_version(pjrt: str | None, native: bool) -> None:
    plugin = CudaPlugin(12, "0.10.2", pjrt)
    assert has_native_pass(plugin) is native
    assert pjrt is None or why_too_old(plugin) == ""


@pytest.mark.parametrize(("chosen", "ordinals"), [("all", None), ("2", [2]), ("0,3", [0, 3])])
def test_ordinals_are_jaxs_local_device_ids(chosen: str, ordinals: list[int] | None) -> None:
    before = xla_bridge.CUDA_VISIBLE_DEVICES.value
    jax.config.update("jax_cuda_visible_devices", chosen)
    try:
        assert local_ordinals() == ordinals
    finally:
        jax.config.update("jax_cuda_visible_devices", before)


def test_required_releases_are_those_of_pyproject() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    required = f"jax{jax_plugin.required_jax()}"
    assert Requirement(required) in map(Requirement, project["dependencies"])
    for cuda in (12, 13):
        extra = Requirement(required.replace("jax", f"jax[cuda{cuda}]"))
        assert extra in map(Requirement, project["optional-dependencies"][f"cuda{cuda}"])
