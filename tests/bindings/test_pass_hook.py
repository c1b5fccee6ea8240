"""The entry of the pass for XLA:CPU: a callable from bytes to bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from xla_shmem import _core
from xla_shmem.hlo.files import read_module

ALL_REDUCE = """\
HloModule psum, num_partitions=2
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[4096]{0} parameter(0)
  ROOT ar = f32[4096]{0} all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum
}
"""
PLAIN = "HloModule plain\nENTRY main {\n  ROOT x = f32[8]{0} parameter(0)\n}\n"
TOPOLOGY = _core.Topology([(0, 0, 0, 0, 0), (1, 1, 0, 0, 1)])
TRANSPORT = _core.cpu_transport({0: 0, 1: 0})


@pytest.fixture
def cpu_pass() -> Iterator[_core.PassHook]:
    yield _core.cpu_pass()
    _core.cpu_pass().reset()
    _core.cpu_pass().set_hooks(lambda: "the test is over")


def serialised(tmp_path: Path, text: str) -> bytes:
    (tmp_path / "module.txt").write_text(text)
    return read_module(str(tmp_path / "module.txt")).proto


def test_it_returns_what_run_pass_writes_and_none_for_no_change(tmp_path: Path, cpu_pass: _core.PassHook) -> None:
    module = serialised(tmp_path, ALL_REDUCE)
    cpu_pass.set_options(TOPOLOGY, TRANSPORT)
    assert cpu_pass.run(module) == _core.run_pass(module, TOPOLOGY, TRANSPORT, lowering="cpu").module
    assert cpu_pass.run(serialised(tmp_path, PLAIN)) is None


def test_python_is_asked_once_and_told_about_the_records(tmp_path: Path, cpu_pass: _core.PassHook) -> None:
    asked: list[int] = []
    told: list[tuple[bytes, list[str]]] = []

    def connect() -> str:
        asked.append(1)
        cpu_pass.set_options(TOPOLOGY, TRANSPORT)
        return ""

    cpu_pass.set_hooks(connect, lambda module, records: told.append((module, [record["name"] for record in records])))
    module = serialised(tmp_path, ALL_REDUCE)
    cpu_pass.run(module)
    cpu_pass.run(module)
    cpu_pass.run(serialised(tmp_path, PLAIN))
    assert asked == [1]
    assert told == [(module, ["ar"])] * 2


def test_a_job_that_cannot_be_known_fails_the_compilation_with_the_reason(cpu_pass: _core.PassHook) -> None:
    def broken() -> str:
        raise OSError("no key-value store")

    cpu_pass.set_hooks(lambda: "process 3 does not answer")
    with pytest.raises(RuntimeError, match=r"^xla_shmem: process 3 does not answer$"):
        cpu_pass.run(b"")
    cpu_pass.set_hooks(broken)
    with pytest.raises(RuntimeError, match="no key-value store"):
        cpu_pass.run(b"")


def test_an_exception_of_the_observer_fails_the_compilation(tmp_path: Path, cpu_pass: _core.PassHook) -> None:
    def observe(module: bytes, records: object) -> None:
        raise KeyError("a table without a row")

    cpu_pass.set_hooks(lambda: "", observe)
    cpu_pass.set_options(TOPOLOGY, TRANSPORT)
    with pytest.raises(KeyError, match="a table without a row"):
        cpu_pass.run(serialised(tmp_path, ALL_REDUCE))


def test_a_module_that_cannot_be_read_stays_as_it_is(cpu_pass: _core.PassHook) -> None:
    told: list[tuple[int, str]] = []
    cpu_pass.set_hooks(lambda: "", unread=lambda num_bytes, why: told.append((num_bytes, why)))
    cpu_pass.set_options(TOPOLOGY, TRANSPORT)
    assert not cpu_pass.run(b"\x0b")
    ((num_bytes, why),) = told
    assert num_bytes == 1
    assert why.startswith("not a well-formed HloModuleProto")
