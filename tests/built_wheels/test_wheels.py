"""The wheels of `make wheels` run jobs in bare environments: no compiler, nothing of this checkout, each CPython."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename
from shmem_statistics import calls_on_shmem

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
PLATFORM = f"manylinux_2_28_{os.uname().machine}"
#: The tags of the wheel that each Python must get, of those that `make wheels` was to build.
TAGS = {"3.11": ("cp311", "cp311"), "3.12": ("cp312", "abi3"), "3.13": ("cp312", "abi3"), "3.14": ("cp312", "abi3")}
if os.environ.get("WHEEL_PYTHONS") == "3.12":
    del TAGS["3.11"]
JOB = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_gpu_experimental_enable_nvshmem=true", "XLA_SHMEM_STATS": "1"}

pytestmark = pytest.mark.timeout(600)


def wheel_for(version: str) -> Path:
    tag = Tag(*TAGS[version], PLATFORM)
    (found,) = [path for path in DIST.glob("*.whl") if tag in parse_wheel_filename(path.name)[3]]
    return found


def bare_environment(version: str, folder: Path) -> Path:
    """Creates an environment with pip and nothing else, and returns the folder of its commands."""
    command = [ROOT / "scripts" / "find_python.sh", version]
    python = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not python:
        pytest.skip(f"Python {version} is not on this machine")
    subprocess.run([python, "-m", "venv", folder], check=True)
    return folder / "bin"


def run(commands: Path, *command: str | Path, **extra: str) -> str:
    """Runs a command that finds only these commands, without variables for Python, JAX or XLA, and checks its end."""
    dropped = ("XLA_", "JAX_", "OMPI_", "PYTHON")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    done = subprocess.run(
        [commands / command[0], *command[1:]],
        env=environ | {"PATH": str(commands)} | extra,
        cwd=commands.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def check_job(commands: Path) -> None:
    """The flag works by `doctor`, and a job of two ranks runs its permute on SHMEM."""
    assert "CPU  the flag works" in run(commands, "xla-shmem", "doctor", JAX_PLATFORMS="cpu")
    two = ("launch", "-n", "2", "--devices-per-process", "1", "--")
    output = run(commands, "xla-shmem", *two, "python", ROOT / "examples" / "ring.py", **JOB)
    assert "rank 0 received [1]" in output
    assert "rank 1 received [0]" in output
    assert calls_on_shmem("collective-permute", output) == [1, 1], output


def check_workloads(commands: Path) -> None:
    """Without the wheel of long_context its commands say what to install; with it they are there."""
    done = subprocess.run([commands / "xla-shmem", "train", "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, "pip install ./python/long_context" in done.stderr) == (2, True), done
    (workloads,) = DIST.glob("long_context-*-py3-none-any.whl")
    run(commands, "pip", "install", "--quiet", "--no-deps", workloads)
    assert "--learning-rate" in run(commands, "xla-shmem", "train", "--help")


@pytest.mark.parametrize("version", TAGS)
def test_a_wheel_runs_a_job_without_a_compiler(version: str, tmp_path: Path) -> None:
    commands = bare_environment(version, tmp_path / "bare")
    assert not any(shutil.which(compiler, path=str(commands)) for compiler in ("cc", "c++", "gcc", "g++", "clang++"))
    run(commands, "pip", "install", "--quiet", "--only-binary=:all:", wheel_for(version))
    check_job(commands)
    check_workloads(commands)


def test_the_containers_commands_work_beside_an_older_jax(tmp_path: Path) -> None:
    """The RUN lines of examples/Containerfile, in an environment with JAX 0.10.2 in the place of NVIDIA's image."""
    commands = bare_environment("3.12", tmp_path / "bare")
    run(commands, "pip", "install", "--quiet", "jax==0.10.2")
    containerfile = io.BytesIO((ROOT / "examples" / "Containerfile").read_bytes())
    instructions = DockerfileParser(fileobj=containerfile).structure
    copied = shutil.copytree(DIST, tmp_path / "copied")
    assert "dist /opt/xla-shmem" in [line["value"] for line in instructions if line["instruction"] == "COPY"]
    lines = [line["value"] for line in instructions if line["instruction"] == "RUN"]
    assert lines
    shell = os.pathsep.join([str(commands), "/usr/bin", "/bin"])
    for line in lines:
        subprocess.run(
            ["sh", "-ec", line.replace("/opt/xla-shmem", str(copied))], env=os.environ | {"PATH": shell}, check=True
        )
    assert run(commands, "python", "-c", "import importlib.metadata as m; print(m.version('jax'))") == "0.10.2\n"
    check_job(commands)
