"""The double of NVSHMEM refuses wrong calls, which the real library does not check."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import process_jobs
import pytest
from emulator import Emulator

pytestmark = pytest.mark.timeout(180, func_only=True)

_SETTINGS = """
os.environ.update(NVSHMEM_SYMMETRIC_SIZE="64M", NVSHMEM_DISABLE_NCCL="1", NVSHMEM_REMOTE_TRANSPORT="none")
os.environ.update(NVSHMEM_MAX_TEAMS="16", NVSHMEM_DISABLE_NVLS="1")
"""

# A PE of a world; {0} runs before the first call of NVSHMEM, {1} is the wrong call. Offsets are those of
# nvshmemx_init_attr_t.
_PROGRAM = """
import ctypes, os, pathlib, sys, time
{0}
cuda, library = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(os.environ["XLA_SHMEM_NVSHMEM_LIBRARY"])
library.nvshmem_malloc.restype = ctypes.c_void_p
identity, attributes, context = (ctypes.c_char * 128)(), (ctypes.c_int * 36)(), ctypes.c_void_p()
rank, ranks = int(sys.argv[1]), int(sys.argv[2])
flags, current, bytes_put, pe, null_stream = 8, True, 16, 0, False
team, beyond, nvls, copies = 0, 0, False, False
attributes[0], attributes[4], attributes[6] = (1 << 16) + 144, (1 << 16) + 128, (1 << 16) + 24
note = pathlib.Path(sys.argv[3])
if rank == 0:
    assert library.nvshmemx_get_uniqueid(identity) == 0
    (note / "draft").write_bytes(bytes(identity))
    (note / "draft").rename(note / "id")
while not (note / "id").exists():
    time.sleep(0.001)
identity.raw = (note / "id").read_bytes()
{1}
device = ctypes.c_int()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[1])) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
if current:
    cuda.cuCtxPushCurrent_v2(context)
assert library.nvshmemx_set_attr_uniqueid_args(rank, ranks, identity, attributes) == 0
assert library.nvshmemx_hostlib_init_attr(flags, attributes) == 0
assert library.nvshmemx_init_status() == 2
memory, stream, other = library.nvshmem_malloc(ctypes.c_size_t(4096)), ctypes.c_void_p(), ctypes.c_void_p()
assert memory
cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0)
cuda.cuStreamCreateWithPriority(ctypes.byref(other), 1, 0)
chosen = None if null_stream else stream
library.nvshmemx_putmem_on_stream(
    ctypes.c_void_p(memory), ctypes.c_void_p(memory + 2048), ctypes.c_size_t(bytes_put), pe, chosen)
library.nvshmemx_mc_ptr.restype = ctypes.c_void_p
multicast = library.nvshmemx_mc_ptr(team, ctypes.c_void_p(memory + beyond))
assert (multicast is not None) == nvls, multicast
if copies:
    cuda.cuMemcpyAsync(ctypes.c_void_p(multicast), ctypes.c_void_p(memory), ctypes.c_size_t(16), stream)
assert cuda.cuStreamSynchronize(stream) == 0
print("done", flush=True)
os._exit(0)
"""


def _run(
    emulator: Emulator, directory: Path, wrong: str, early: str = _SETTINGS, ranks: int = 1, **machine: str
) -> list[subprocess.CompletedProcess[str]]:
    """Runs a world; its PEs may go on for a minute when PE 0 has ended."""
    environ = process_jobs.environment(emulator, directory) | {"GPU_EMULATOR_NVSHMEM_TIMEOUT": "30"} | machine
    program = _PROGRAM.format(early, wrong)
    children = []
    for rank in range(ranks):
        command = [sys.executable, "-c", program, str(rank), str(ranks), str(directory)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        children.append(subprocess.Popen(command, env=environ, **pipes))  # type: ignore[call-overload]
    said = [children[0].communicate(timeout=60)]
    for child in children[1:]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(60)
        child.kill()
        said.append(child.communicate())
    return [
        subprocess.CompletedProcess(child.args, child.returncode, *text)
        for child, text in zip(children, said, strict=True)
    ]


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_right_calls_work(emulator: Emulator, tmp_path: Path, ranks: int) -> None:
    for done in _run(emulator, tmp_path, "", ranks=ranks):
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
        ("bytes_put = 1 << 28", "nvshmemx_putmem_on_stream for memory that is not in this PE's symmetric heap"),
        ("pe = 1", "nvshmemx_putmem_on_stream for PE 1"),
        ("null_stream = True", "nvshmemx_putmem_on_stream on the null stream"),
        ("team = 1", "nvshmemx_mc_ptr of team 1: only that of the world is emulated"),
    ],
)
def test_a_wrong_call_ends_the_process_with_its_reason(
    emulator: Emulator, tmp_path: Path, wrong: str, words: str
) -> None:
    (ended,) = _run(emulator, tmp_path, wrong)
    assert ended.returncode == -signal.SIGABRT, ended.stdout
    assert f"emulated NVSHMEM: {words}\n" in ended.stderr


_WITH_NVLS = _SETTINGS + 'os.environ["NVSHMEM_DISABLE_NVLS"], os.environ["NVSHMEM_MAX_TEAMS"] = "0", "64"\n'


@pytest.mark.parametrize(
    ("early", "ranks", "capability", "nvls", "has"),
    [
        (_WITH_NVLS, 2, "90", "1", True),
        (_SETTINGS, 2, "90", "1", False),
        (_WITH_NVLS, 1, "90", "1", False),
        (_WITH_NVLS, 2, "85", "1", False),
        (_WITH_NVLS, 2, "90", "0", False),
    ],
)
def test_multicast_memory_is_there_with_nvlink_sharp_only(
    emulator: Emulator, tmp_path: Path, early: str, ranks: int, capability: str, nvls: str, has: bool
) -> None:
    machine = {"GPU_EMULATOR_COMPUTE_CAPABILITY": capability, "GPU_EMULATOR_NVLS": nvls}
    for done in _run(emulator, tmp_path, f"nvls = {has}", early, ranks, **machine):
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_memory_outside_of_the_heap_has_no_multicast_address(emulator: Emulator, tmp_path: Path) -> None:
    for done in _run(emulator, tmp_path, "beyond = 1 << 40", _WITH_NVLS, 2, GPU_EMULATOR_COMPUTE_CAPABILITY="90"):
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_copy_to_a_multicast_address_ends_the_process_with_a_sentence(emulator: Emulator, tmp_path: Path) -> None:
    wrong = "nvls, copies = True, True"
    for ended in _run(emulator, tmp_path, wrong, _WITH_NVLS, 2, GPU_EMULATOR_COMPUTE_CAPABILITY="90"):
        assert ended.returncode == -signal.SIGABRT, ended.stdout
        assert "is a multicast address, which only multimem instructions may use" in ended.stderr


def test_too_few_teams_for_the_duplicates_of_nvlink_sharp_end_the_process(emulator: Emulator, tmp_path: Path) -> None:
    few = _WITH_NVLS.replace('"64"', '"51"')
    ended = _run(emulator, tmp_path, "", few, 2)
    assert [pe.returncode for pe in ended] == [1, 1], ended
    why = "unable to allocate enough duplicate teams (NVSHMEM_MAX_TEAMS)"
    # The PE that comes second may find that its peer has gone.
    assert any(why in pe.stderr for pe in ended), ended
    assert all(why in pe.stderr or "could not connect its heap" in pe.stderr for pe in ended), ended


def test_settings_that_come_after_the_unique_id_are_ignored(emulator: Emulator, tmp_path: Path) -> None:
    (ended,) = _run(emulator, tmp_path, wrong=_SETTINGS, early="")
    assert ended.returncode == -signal.SIGABRT, ended.stdout
    assert "emulated NVSHMEM: NVSHMEM_DISABLE_NCCL is not 1\n" in ended.stderr
