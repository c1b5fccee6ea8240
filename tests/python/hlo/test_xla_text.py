"""XLA's parser and printer in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hlo_samples import ALL_GATHER, CPU_SYNC

from xla_shmem.hlo import xla_text
from xla_shmem.hlo.files import HloFileError, read_module

GROUPS = "replica_groups=[2,2]<=[4]"
PARAMETER = "%p0 = f32[1024]{0} parameter(0)"
#: Texts on which jaxlib 0.12.0.1 ends its process, and the beginning of its reason.
FATAL = {
    "two axes of one name": (GROUPS, "replica_groups=mesh['a'=2,'a'=2] {'a'}", "Check failed: "),
    "an axis that is named twice": (GROUPS, "replica_groups=mesh['a'=2,'b'=2] {'a','a'}", "Check failed: "),
    "a constant of type opaque": ("%zero = s32[] constant(0)", "%zero = opaque[] constant(0)", "Check failed: "),
    "a tile of negative size": (PARAMETER, PARAMETER.replace("{0}", "{0:T(0)(-1)}"), "Tile dimension size"),
}


@pytest.mark.parametrize("case", FATAL)
def test_a_text_on_which_xla_ends_its_process_is_an_error_with_its_reason(case: str, tmp_path: Path) -> None:
    old, new, reason = FATAL[case]
    assert old in CPU_SYNC
    path = tmp_path / "m.txt"
    path.write_text(CPU_SYNC.replace(old, new))
    with pytest.raises(HloFileError) as error:
        read_module(str(path))
    # Another release may give an error instead.
    assert str(error.value).startswith(f"{path}: jaxlib ")
    if "XLA ends its process" in str(error.value):
        assert f"cannot parse it (XLA ends its process: {reason}" in str(error.value)
    path.write_text(CPU_SYNC)
    assert read_module(str(path)).name == "jit_step", "the next text has a new process"


def test_a_stack_overflow_is_an_error_that_names_the_signal() -> None:
    with pytest.raises(xla_text.XlaTextError, match=r"XLA ends its process: SIG(SEGV|BUS)"):
        xla_text.parse("HloModule m\n\nENTRY e { ROOT p = " + "(" * 400_000)


def test_a_proto_that_xla_cannot_print_is_an_error() -> None:
    with pytest.raises(xla_text.XlaTextError):
        xla_text.print_module(b"\x1a\x02\x12\x00")
    no_devices = CPU_SYNC.replace(GROUPS, "replica_groups=mesh['a'=0,'b'=8] {'a'}")
    with pytest.raises(
        xla_text.XlaTextError, match=r"XLA ends its process: Check failed|expected axis|more than one device"
    ):
        xla_text.print_module(xla_text.parse(no_devices))


def test_texts_share_one_process_which_outlives_errors_and_is_replaced_when_killed() -> None:
    def server() -> int:
        assert xla_text._server is not None
        return xla_text._server._process.pid

    def parsed() -> str:
        return xla_text.print_module(xla_text.parse(CPU_SYNC))

    first = parsed()
    begun = server()
    with pytest.raises(xla_text.XlaTextError, match="error: expects name"):
        xla_text.parse("HloModule m\n\nENTRY {\n")
    assert parsed() == first
    assert server() == begun
    os.kill(begun, signal.SIGKILL)
    os.waitid(os.P_PID, begun, os.WEXITED | os.WNOWAIT)
    assert parsed() == first
    assert server() != begun


def test_a_forked_process_has_a_parser_of_its_own() -> None:
    program = (
        "import os, sys; from hlo_samples import ALL_GATHER, CPU_SYNC\n"
        "from xla_shmem.hlo.xla_text import parse, print_module\n"
        "parse(CPU_SYNC)\n"
        "child = os.fork()\n"
        "text, name = (CPU_SYNC, 'jit_step') if child else (ALL_GATHER, 'jit_gather')\n"
        "for _ in range(50): assert print_module(parse(text)).startswith(f'HloModule {name}')\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 0)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    subprocess.run([sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": path}, check=True, timeout=60)


def test_an_interrupted_request_does_not_answer_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(stream: object) -> tuple[bytes, bytes]:
        raise KeyboardInterrupt

    xla_text.parse(CPU_SYNC)
    with monkeypatch.context() as patch:
        patch.setattr(xla_text, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            xla_text.parse(ALL_GATHER)
    assert xla_text.print_module(xla_text.parse(CPU_SYNC)).startswith("HloModule jit_step")
