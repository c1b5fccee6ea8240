"""What the kernels of the GPU path take: registers, spills, fences, accesses of other GPUs, by kernel and architecture.

    python tools/kernel_account.py [--ptxas PATH] [80 90 100 103 120]

Compiles the device code as a job does (xla_patch/nvshmem/gpu/nvrtc.cc), with NVIDIA's run-time compiler and `ptxas` of
their wheels. Needs no GPU and measures no time; tools/kernel_estimate.py estimates it.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xla_shmem import _core
from xla_shmem.gpu import libraries

ROOT = Path(__file__).resolve().parents[1]

#: GPUs of data centres since Ampere, and the consumer's Blackwell: ten times the compute capability.
ARCHITECTURES = (80, 90, 100, 103, 120)

#: A warp that runs one waits for its earlier stores, on their way to other GPUs too.
_FENCE = re.compile(r"^\s*(?:@%p\d+ )?(?:st\.release|fence\.(?:acq_rel|sc)|membar|atom\.(?:acq_rel|release))", re.M)
#: It forgets the first-level cache.
_ACQUIRE = re.compile(r"^\s*(?:@%p\d+ )?(?:ld|atom)\.acquire", re.M)
#: Another GPU, or the host, sees it or is seen: NVLink's latency lies between two that depend on each other.
_SYSTEM = re.compile(r"^\s*(?:@%p\d+ )?(?:ld|st|atom|red|multimem)\.[\w.]*\bsys\b", re.M)
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
#: The head of a kernel or of a function that kernels call.
_HEAD = re.compile(r"^(?:\.\w+ )*\.(?:entry|func)\b", re.M)
_THREADS = re.compile(r"\.maxntid (\d+)")
_FACTS = re.compile(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", re.S)
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


class CompilerError(RuntimeError):
    """A compiler is missing or refused the device code; the message has its output."""


@dataclass(frozen=True)
class Account:
    """One kernel on one architecture.

    Attributes:
      threads: of a block, at most.
      registers: of a thread.
      stack: bytes of a thread in local memory.
      spills: bytes that a thread stores and loads because it lacks registers, in the kernel and what it calls.
      fences: instructions that wait for earlier stores.
      acquires: loads with acquire.
      system: loads and stores of system scope, in the code as it stands: a loop counts once.
    """

    architecture: int
    kernel: str
    threads: int
    registers: int
    stack: int
    spills: int
    fences: int
    acquires: int
    system: int


def find_ptxas() -> Path:
    """Returns the newest `ptxas` that `scripts/setup_gpu_aot.sh` has fetched.

    Raises:
      CompilerError: there is none.
    """
    found = sorted(ROOT.glob(".venv-gpu-*/nvidia/cu13/bin/ptxas"))
    if not found:
        raise CompilerError("no ptxas: run scripts/setup_gpu_aot.sh .venv/bin, or name one with --ptxas")
    return found[-1]


def account(architecture: int, ptxas: Path, source: str | None = None) -> list[Account]:
    """Returns the account of each kernel of `source`, by default the device code.

    Raises:
      CompilerError: a compiler is missing or refuses it.
    """
    ptx = _ptx(source or _core.kernel_source(), architecture)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "kernels.ptx"
        text.write_text(ptx)
        command = [str(ptxas), "-v", f"-arch=sm_{architecture}", str(text), "-o", f"{folder}/kernels.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompilerError(f"ptxas for sm_{architecture}: {done.stderr}")
    bodies = _bodies(ptx)
    return [_account(architecture, kernel, said, bodies[kernel]) for kernel, said in _FACTS.findall(done.stderr)]


def _account(architecture: int, kernel: str, said: str, body: str) -> Account:
    """Of what ptxas says of a kernel and the functions that it calls."""
    stacks = [[int(number) for number in found] for found in _STACK.findall(said)]
    registers, threads = _REGISTERS.search(said), _THREADS.search(body)
    if not stacks or registers is None:
        raise CompilerError(f"ptxas does not say what {kernel} takes: {said}")
    return Account(
        architecture,
        kernel,
        threads=int(threads.group(1)) if threads else 1,
        registers=int(registers.group(1)),
        stack=max(stack for stack, _, _ in stacks),
        spills=sum(stores + loads for _, stores, loads in stacks),
        fences=len(_FENCE.findall(body)),
        acquires=len(_ACQUIRE.findall(body)),
        system=len(_SYSTEM.findall(body)),
    )


def _bodies(ptx: str) -> dict[str, str]:
    """The PTX of each kernel, without the functions that it calls: they copy, reduce, or end a long wait."""
    heads = [head.start() for head in _HEAD.finditer(ptx)]
    ends = dict(zip(heads, [*heads[1:], len(ptx)], strict=True))
    return {start.group(1): ptx[start.end() : ends[start.start()]] for start in _ENTRY.finditer(ptx)}


def _ptx(source: str, architecture: int) -> str:
    """Compiles with NVRTC, with the options of nvrtc.cc."""
    paths = libraries.nvrtc(13).paths
    nvrtc = next((library for path in paths if (library := _open(path)) is not None), None)
    if nvrtc is None:
        raise CompilerError(f"no NVRTC among {', '.join(paths) or 'nothing'}: pip install nvidia-cuda-nvrtc")
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    options = [f"--gpu-architecture=compute_{architecture}".encode(), b"--std=c++17", b"--fmad=false"]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size, content = (
        (nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
        if failed
        else (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    )
    count = ctypes.c_size_t()
    size(program, ctypes.byref(count))
    text = ctypes.create_string_buffer(count.value)
    content(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise CompilerError(f"NVRTC for compute_{architecture}: {text.value.decode()}")
    return text.value.decode()


def _open(path: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(path)
    except OSError:
        return None


def main(arguments: Sequence[str]) -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="Registers, spills, stack and fences of the GPU path's kernels.")
    parser.add_argument("--ptxas", type=Path)
    parser.add_argument("architectures", nargs="*", type=int, default=ARCHITECTURES)
    chosen = parser.parse_args(arguments)
    print("kernel              sm threads registers spills stack fences acquires system")
    try:
        for architecture in chosen.architectures:
            for row in account(architecture, chosen.ptxas or find_ptxas()):
                print(
                    f"{row.kernel:<17} {row.architecture:>4} {row.threads:>7} {row.registers:>9} {row.spills:>6}"
                    f" {row.stack:>5} {row.fences:>6} {row.acquires:>8} {row.system:>6}"
                )
    except CompilerError as error:
        print(f"kernel_account: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
