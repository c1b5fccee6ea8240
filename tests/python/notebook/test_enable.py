"""`xla_shmem.enable` and `configure` before JAX begins, and too late."""

from __future__ import annotations

import inspect
import os
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import numpy as np
import pytest
from jax._src import cache_key
from live_programs import PROGRAM, run

import xla_shmem
from xla_shmem import jax_start, plugin
from xla_shmem.gpu import jax_plugin
from xla_shmem.gpu.jax_plugin import CudaPlugin
from xla_shmem.notebook import switch
from xla_shmem.options import frozen
from xla_shmem.options.table import TABLE
from xla_shmem.runtime.cache_keys import PATCHED_XLA_VARIABLES
from xla_shmem.xla_flags import FLAG, MARKER

_BACKENDS = "[row.lowered for row in xla_shmem.decisions(lowered())]"
_ERROR = """
def error(call):
    try:
        call()
    except xla_shmem.UserError as failure:
        return type(failure).__name__ + ": " + str(failure)
"""


@pytest.fixture
def before_jax(monkeypatch: pytest.MonkeyPatch, no_options: None) -> None:
    """A process in which JAX has not begun."""
    monkeypatch.setattr(jax_start, "has_begun", lambda: False)
    monkeypatch.setattr(frozen, "_overrides", {})
    monkeypatch.setattr(frozen, "_frozen", False)
    # So that what `enable` changes is undone.
    monkeypatch.setenv(MARKER, "0")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/dev/null")


def test_after_enable_collectives_run_on_shmem_by_its_options_and_children_inherit_it() -> None:
    found = run(f"""
import json, os, jax, xla_shmem
xla_shmem.enable(ops="all-reduce")
{PROGRAM}{_ERROR}
backends = {_BACKENDS}
xla_shmem.enable()
late = error(lambda: xla_shmem.enable(ops="all"))
print(json.dumps([backends, late, os.environ["{MARKER}"]]))
""")
    assert found[0] == ["DEFAULT", "NVSHMEM"]
    assert found[1].startswith("TooLateError: configure(ops): JAX has already taken its devices")
    assert found[2] == "1"


def test_enable_beats_a_flag_that_is_off() -> None:
    program = f"import xla_shmem\nxla_shmem.enable()\n{PROGRAM}\nprint(json.dumps({_BACKENDS}))"
    assert run(program, XLA_FLAGS=f"{FLAG}=false") == ["NVSHMEM", "NVSHMEM"]


def test_after_the_first_devices_both_say_that_it_is_too_late() -> None:
    enable, configure, backends = run(f"""
import json, jax, xla_shmem
jax.devices()
{PROGRAM}{_ERROR}
calls = [xla_shmem.enable, lambda: xla_shmem.configure(threshold="1K")]
print(json.dumps([*map(error, calls), {_BACKENDS}]))
""")
    assert enable == (
        "TooLateError: enable(): JAX has already taken its devices, at the first computation or at jax.devices(), and "
        "it has taken them without xla-shmem. Restart the process (in a notebook: the kernel) and call enable() first, "
        f'or set XLA_FLAGS="$XLA_FLAGS {FLAG}=true" before the process starts.'
    )
    assert configure.startswith("TooLateError: configure(threshold): JAX has already taken its devices")
    assert "Restart the process" in configure
    assert backends == ["DEFAULT", "DEFAULT"]


@pytest.mark.usefixtures("before_jax")
def test_a_wrong_value_switches_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(xla_shmem.OptionError, match="ops='few': must be"):
        xla_shmem.enable(ops="few")
    monkeypatch.setenv("XLA_SHMEM_VERBOSE", "loud")
    with pytest.raises(xla_shmem.OptionError, match="XLA_SHMEM_VERBOSE='loud': must be"):
        xla_shmem.enable()
    assert os.environ[MARKER] == "0"
    monkeypatch.delenv("XLA_SHMEM_VERBOSE")
    xla_shmem.enable()
    assert (os.environ[MARKER], os.environ["XLA_FLAGS"]) == ("1", "--xla_dump_to=/dev/null")


@pytest.mark.usefixtures("before_jax")
def test_a_plugin_that_jax_would_not_find_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EntryPoint("other", "other.plugin", "jax_plugins")
    monkeypatch.setattr(switch, "entry_points", lambda group: [other])
    with pytest.raises(xla_shmem.UserError, match="not installed for this Python; run `pip install"):
        xla_shmem.enable()
    assert os.environ[MARKER] == "0"


def test_enable_takes_the_keywords_of_configure() -> None:
    assert inspect.signature(xla_shmem.enable) == inspect.signature(xla_shmem.configure)
    assert "Switches xla-shmem on" in str(xla_shmem.enable.__doc__)


@pytest.mark.usefixtures("before_jax")
def test_with_a_patched_jaxlib_options_reach_its_pass_as_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_is_built_in", False)
    monkeypatch.setattr(jax_plugin, "wanted_plugin", lambda: CudaPlugin(13, "0.10.2+xlashmem", "0.10.2+xlashmem"))
    monkeypatch.setattr(jax_plugin, "has_native_pass", lambda _: True)
    monkeypatch.setenv("XLA_SHMEM_THRESHOLD", "4K")
    monkeypatch.setattr(cache_key, "get", lambda module, devices: "key of JAX")
    devices = np.array([SimpleNamespace(platform="gpu", id=device) for device in range(2)])
    xla_shmem.enable(threshold="1MiB")
    plugin.initialize()
    assert (os.environ["XLA_SHMEM_THRESHOLD"], os.environ["XLA_FLAGS"]) == (
        "1MiB",
        f"--xla_dump_to=/dev/null {FLAG}=true",
    )
    # XLA decides by the options and the devices, so an executable of other ones must not be loaded.
    keys = {cache_key.get("module", devices), cache_key.get("module", devices[::-1])}
    for name in PATCHED_XLA_VARIABLES:
        monkeypatch.setenv(name, "another")
        keys.add(cache_key.get("module", devices))
    assert len(keys) == 2 + len(PATCHED_XLA_VARIABLES)
    assert cache_key.get("module", np.array([SimpleNamespace(platform="cpu", id=0)])) == "key of JAX"
    monkeypatch.setattr(jax_start, "has_begun", lambda: True)
    xla_shmem.enable()
    with pytest.raises(xla_shmem.TooLateError, match=r"configure\(ops\): JAX has already"):
        xla_shmem.enable(ops="all")


def test_the_keys_of_the_cache_have_every_option_that_a_patched_jaxlib_decides_by() -> None:
    decides = {option.env for option in TABLE.values() if option.decides and option.in_patched_jaxlib}
    assert set(PATCHED_XLA_VARIABLES) == decides
