"""The double of NVSHMEM refuses wrong calls, which the real library does not check."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180, func_only=True)

_SETTINGS = """
os.environ.update(NVSHMEM_SYMMETRIC_SIZE="1048576", NVSHMEM_DISABLE_NCCL="1", NVSHMEM_REMOTE_TRANSPORT="none")
"""

# A world of one PE; {0} runs before the first call of NVSHMEM, {1} is the wrong call. Offsets are those of
# nvshmemx_init_attr_t.
_PROGRAM = """
import ctypes, os
{0}
library = ctypes.CDLL("libnvshmem_host.so.3")
library.nvshmem_malloc.restype = ctypes.c_void_p
identity, attributes, context = (ctypes.c_char * 128)(), (ctypes.c_int * 36)(), ctypes.c_void_p()
flags, rank, ranks, current, bytes_put, pe, null_stream = 8, 0, 1, True, 16, 0, False
attributes[0], attributes[4], attributes[6] = (1 << 16) + 144, (1 << 16) + 128, (1 << 16) + 24
assert library.nvshmemx_get_uniqueid(identity) == 0
{1}
library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
if current:
    library.cuCtxPushCurrent_v2(context)
assert library.nvshmemx_set_attr_uniqueid_args(rank, ranks, identity, attributes) == 0
assert library.nvshmemx_hostlib_init_attr(flags, attributes) == 0
assert library.nvshmemx_init_status() == 2
memory, stream = library.nvshmem_malloc(ctypes.c_size_t(256)), ctypes.c_void_p()
assert memory
library.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0)
source = ctypes.create_string_buffer(1 << 21)
library.nvshmemx_putmem_on_stream(
    ctypes.c_void_p(memory), source, ctypes.c_size_t(bytes_put), pe, None if null_stream else stream)
print("done", flush=True)
os._exit(0)  # the put may still read its source
"""


def _run(double: Path, wrong: str, early: str = _SETTINGS) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"LD_LIBRARY_PATH": str(double)}
    command = [sys.executable, "-c", _PROGRAM.format(early, wrong)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_the_right_calls_work(double: Path) -> None:
    done = _run(double, "")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("attributes[0] = 144", "nvshmemx_init_attr_t has version 0 with 144 bytes"),
        ("attributes[0] = (3 << 16) + 144", "nvshmemx_init_attr_t has version 3 with 144 bytes"),
        ("attributes[4] = (1 << 16) + 124", "nvshmemx_init_args_t has version 1 with 124 bytes"),
        ("attributes[6] = (2 << 16) + 24", "nvshmemx_uniqueid_args_t has version 2 with 24 bytes"),
        ("identity[0] = 0", "nvshmemx_uniqueid_t has version 1 with 0 bytes"),
        ("identity[4] = 1", "this unique id is not of nvshmemx_get_uniqueid"),
        ("flags = 2", "init with flags 2"),
        ("rank = 1", "init as PE 1 of 1"),
        ("current = False", "init without a current CUDA context"),
        ("bytes_put = 1 << 21", "nvshmemx_putmem_on_stream for memory that is not in this PE's symmetric heap"),
        ("pe = 1", "nvshmemx_putmem_on_stream for PE 1"),
        ("null_stream = True", "nvshmemx_putmem_on_stream on the null stream"),
    ],
)
def test_a_wrong_call_ends_the_process_with_its_reason(double: Path, wrong: str, words: str) -> None:
    ended = _run(double, wrong)
    assert ended.returncode == -signal.SIGABRT, ended.stdout
    assert f"nvshmem double: {words}\n" in ended.stderr


def test_settings_that_come_after_the_unique_id_are_ignored(double: Path) -> None:
    ended = _run(double, wrong=_SETTINGS, early="")
    assert ended.returncode == -signal.SIGABRT, ended.stdout
    assert "nvshmem double: NVSHMEM_SYMMETRIC_SIZE is no number of bytes\n" in ended.stderr
