"""`xla-shmem launch` with real processes."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xla_shmem.job_segments import SHM_DIRECTORY
from xla_shmem.rank_environment import platform_note, rank_environment, reserve_port
from xla_shmem.rank_output import RankOutput, rank_prefix

PACKAGE_PARENT = str(Path(__file__).resolve().parents[2] / "python")

# The grace is 5 s for users; the tests that need SIGKILL do not wait that long.
_LAUNCHER = (
    "import sys; from xla_shmem.launch import launch; "
    "sys.exit(launch(sys.argv[3:], int(sys.argv[1]), grace=float(sys.argv[2])))"
)


def _environment(**extra: str) -> dict[str, str]:
    environ = {key: value for key, value in os.environ.items() if key != "XLA_SHMEM_JOB"}
    environ["PYTHONPATH"] = os.pathsep.join([*filter(None, sys.path), PACKAGE_PARENT])
    return environ | extra


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from xla_shmem.cli import main; main()", *arguments]


def _launch(num_ranks: int, program: str, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command("launch", "-n", str(num_ranks), *options, "--", sys.executable, "-c", program),
        env=_environment(**environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextlib.contextmanager
def _launched(num_ranks: int, program: str, *arguments: str, grace: float = 5.0) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _LAUNCHER,
            str(num_ranks),
            str(grace),
            sys.executable,
            "-c",
            program,
            *arguments,
        ],
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _pids(directory: Path, count: int) -> list[int]:
    """Waits for `count` files named by process ids."""
    assert _wait_for(lambda: len(list(directory.iterdir())) == count), list(directory.iterdir())
    return [int(file.name) for file in directory.iterdir()]


# A rank that announces itself by a file named by its pid, and then stays.
_STAY = "import os, sys, time; open(f'{sys.argv[1]}/{os.getpid()}', 'w').close(); time.sleep(60)"


def test_every_rank_runs_and_its_lines_carry_its_number() -> None:
    result = _launch(3, "import os; print('I am', os.environ['XLA_SHMEM_LOCAL_RANK'])")
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["[0] I am 0", "[1] I am 1", "[2] I am 2"]
    assert result.stderr == ""


def test_stdout_and_stderr_stay_apart() -> None:
    result = _launch(1, "import sys; print('out'); print('err', file=sys.stderr)")
    assert (result.stdout, result.stderr) == ("[0] out\n", "[0] err\n")


def test_no_prefix_passes_lines_as_they_are() -> None:
    result = _launch(1, "print('{\"a\": 1}')", "--no-prefix")
    assert result.stdout == '{"a": 1}\n'


def test_last_line_without_newline_is_not_lost() -> None:
    assert _launch(1, "import os; os.write(1, b'no newline')").stdout == "[0] no newline\n"


def test_ranks_have_no_stdin() -> None:
    assert _launch(1, "import sys; print(repr(sys.stdin.read()))").stdout == "[0] ''\n"


def test_options_of_the_program_are_not_taken_for_ours() -> None:
    result = subprocess.run(
        _command("launch", "-n", "1", sys.executable, "-c", "import sys; print(sys.argv[1:])", "-n", "--help"),
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.stdout == "[0] ['-n', '--help']\n"


def test_first_failure_stops_the_others_and_its_code_is_passed_on() -> None:
    begin = time.monotonic()
    result = _launch(
        3,
        "import os, sys, time\nif os.environ['XLA_SHMEM_LOCAL_RANK'] == '1': sys.exit(7)\ntime.sleep(60)",
    )
    assert result.returncode == 7
    assert result.stderr == "xla-shmem launch: rank 1 exited with code 7; stopping the others.\n"
    assert time.monotonic() - begin < 5


def test_signal_that_kills_a_rank_becomes_128_plus_its_number() -> None:
    result = _launch(
        2,
        "import os, time\nif os.environ['XLA_SHMEM_LOCAL_RANK'] == '0': os.kill(os.getpid(), 9)\ntime.sleep(60)",
    )
    assert result.returncode == 128 + 9
    assert "rank 0 was killed by SIGKILL; stopping the others." in result.stderr


def test_rank_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    program = "import signal, os, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + _STAY
    with _launched(2, program, str(tmp_path), grace=0.3) as launcher:
        pids = _pids(tmp_path, 2)
        os.kill(pids[0], signal.SIGKILL)
        _, stderr = launcher.communicate(timeout=10)
    assert launcher.returncode == 128 + 9
    assert "did not stop in time; sending SIGKILL" in stderr
    assert not any(_alive(pid) for pid in pids)


def test_grandchildren_die_with_a_failed_job(tmp_path: Path) -> None:
    program = (
        f"import subprocess, sys, time, os\nsubprocess.Popen([sys.executable, '-c', {_STAY!r}, sys.argv[1]])\n" + _STAY
    )
    with _launched(2, program, str(tmp_path)) as launcher:
        pids = _pids(tmp_path, 4)
        os.kill(int(_children(launcher.pid)[0]), signal.SIGKILL)
        launcher.communicate(timeout=10)
    assert launcher.returncode == 128 + 9
    assert _wait_for(lambda: not any(_alive(pid) for pid in pids), 2)


def test_background_child_of_a_finished_rank_does_not_keep_the_job_waiting(tmp_path: Path) -> None:
    program = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_STAY!r}, sys.argv[1]])"
    with _launched(1, program, str(tmp_path)) as launcher:
        assert launcher.wait(timeout=10) == 0
    assert _wait_for(lambda: not any(_alive(int(file.name)) for file in tmp_path.iterdir()), 2)


def test_ctrl_c_is_forwarded_and_leaves_no_trace(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "open(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\n"
        "try: time.sleep(60)\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    with _launched(2, program, str(tmp_path)) as launcher:
        pids = _pids(tmp_path, 2)
        launcher.send_signal(signal.SIGINT)
        stdout, stderr = launcher.communicate(timeout=10)
    assert launcher.returncode == 130
    assert sorted(stdout.splitlines()) == ["[0] interrupted", "[1] interrupted"]
    assert stderr == "xla-shmem launch: SIGINT; stopping the ranks.\n"
    assert not any(_alive(pid) for pid in pids)


def test_second_ctrl_c_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    program = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + _STAY
    with _launched(1, program, str(tmp_path), grace=30) as launcher:
        _pids(tmp_path, 1)
        launcher.send_signal(signal.SIGINT)
        assert launcher.stderr is not None
        launcher.stderr.readline()
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=10)
    assert launcher.returncode == 130


def test_sigterm_of_the_launcher_ends_the_job(tmp_path: Path) -> None:
    with _launched(2, _STAY, str(tmp_path)) as launcher:
        pids = _pids(tmp_path, 2)
        launcher.terminate()
        launcher.communicate(timeout=10)
    assert launcher.returncode == 143
    assert not any(_alive(pid) for pid in pids)


_SEGMENT = (
    "import os, sys, time\n"
    "job, rank = os.environ['XLA_SHMEM_JOB'], os.environ['XLA_SHMEM_LOCAL_RANK']\n"
    "name = f'/dev/shm/xla_shmem.{os.getuid()}.{job[:16]}0123456789abcdef.{rank}'\n"
    "open(name, 'w').close(); print(name, flush=True)\n"
)


def _segments_named_in(output: str) -> list[Path]:
    found = [Path(line.split(" ")[-1]) for line in output.splitlines()]
    assert found
    assert all(path.parent == SHM_DIRECTORY for path in found)
    return found


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "os.kill(os.getpid(), 9)"])
def test_shared_memory_is_unlinked_however_the_ranks_end(end: str) -> None:
    result = _launch(2, _SEGMENT + end)
    segments = _segments_named_in(result.stdout)
    assert not any(path.exists() for path in segments)


def test_shared_memory_of_other_jobs_is_left_alone() -> None:
    other = SHM_DIRECTORY / f"xla_shmem.{os.getuid()}.{secrets.token_hex(16)}.0"
    other.touch()
    try:
        _launch(1, _SEGMENT)
        assert other.exists()
    finally:
        other.unlink()


def test_killed_launcher_leaves_neither_processes_nor_shared_memory(tmp_path: Path) -> None:
    program = (
        _SEGMENT + f"import subprocess; subprocess.Popen([sys.executable, '-c', {_STAY!r}, sys.argv[1]])\n" + _STAY
    )
    with _launched(2, program, str(tmp_path)) as launcher:
        pids = _pids(tmp_path, 4)
        assert launcher.stdout is not None
        segments = _segments_named_in(launcher.stdout.readline() + launcher.stdout.readline())
        assert all(path.exists() for path in segments)
        launcher.kill()
        assert _wait_for(lambda: not any(_alive(pid) for pid in pids), 5)
        assert _wait_for(lambda: not any(path.exists() for path in segments), 5)


def test_nobody_reading_the_output_ends_the_job() -> None:
    program = "import itertools\nfor i in itertools.count(): print(i)"
    launcher = subprocess.Popen(
        _command("launch", "-n", "2", "--", sys.executable, "-c", program),
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert launcher.stdout is not None
    launcher.stdout.readline()
    launcher.stdout.close()
    assert launcher.wait(timeout=10) == 128 + signal.SIGPIPE
    assert launcher.stderr is not None
    assert b"Traceback" not in launcher.stderr.read()
    launcher.stderr.close()


def test_program_that_does_not_exist_is_one_sentence_and_127() -> None:
    result = subprocess.run(
        _command("launch", "-n", "2", "--", "/no/such/program"),
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 127
    assert result.stderr == "xla-shmem launch: cannot run /no/such/program: No such file or directory.\n"


@pytest.mark.parametrize("arguments", [["-n", "0", "true"], ["-n", "2"], ["true"], ["-n", "2", "--what", "true"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    result = subprocess.run(
        _command("launch", *arguments), env=_environment(), capture_output=True, timeout=30, check=False
    )
    assert result.returncode == 2
    assert b"Usage:" in result.stderr


_PSUM = """
import os
import jax
jax.distributed.initialize()
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
n = jax.device_count()
mesh = Mesh(np.array(jax.devices()), ('x',))
f = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, 'x'), mesh=mesh, in_specs=P('x'), out_specs=P()))
x = jax.make_array_from_callback((n,), NamedSharding(mesh, P('x')), lambda i: np.arange(1.0, n + 1)[i])
result = (jax.process_index(), jax.process_count(), jax.local_device_count(), float(np.asarray(f(x))[0]))
open(os.environ['RESULTS'] + f'/{jax.process_index()}', 'w').write(repr(result))  # gloo talks on stdout
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_jax_initializes_without_arguments_and_sums_over_the_ranks(devices: int, tmp_path: Path) -> None:
    options = [] if devices == 1 else ["--devices-per-process", str(devices)]
    result = _launch(2, _PSUM, *options, JAX_PLATFORMS="cpu", XLA_FLAGS="", RESULTS=str(tmp_path))
    assert result.returncode == 0, result.stderr
    total = float(sum(range(1, 2 * devices + 1)))
    for rank in range(2):
        assert (tmp_path / str(rank)).read_text() == repr((rank, 2, devices, total))


def test_ranks_get_what_jax_looks_for() -> None:
    environ = rank_environment(
        {"OMPI_VERSION": "5.0", "PATH": "/bin"},
        rank=1,
        num_ranks=4,
        devices_per_process=2,
        port=1234,
        job="j",
    )
    assert environ["JAX_COORDINATOR_ADDRESS"] == "127.0.0.1:1234"
    assert environ["OMPI_COMM_WORLD_RANK"] == "1"
    assert environ["JAX_LOCAL_DEVICE_IDS"] == "2,3"
    assert environ["PATH"] == "/bin"
    assert "OMPI_VERSION" not in environ


def test_device_ids_chosen_by_the_user_are_kept() -> None:
    environ = rank_environment(
        {"JAX_LOCAL_DEVICE_IDS": "0"}, rank=1, num_ranks=2, devices_per_process=1, port=1, job="j"
    )
    assert environ["JAX_LOCAL_DEVICE_IDS"] == "0"


def test_cpu_is_chosen_only_where_gpus_are_too_few_and_nothing_else_was_said() -> None:
    assert platform_note({}, 4, 0) is None
    assert platform_note({}, 4, 4) is None
    assert platform_note({"JAX_PLATFORMS": "cuda"}, 4, 1) is None
    note = platform_note({}, 4, 1)
    assert note is not None
    assert "need 4 devices and this machine has 1 GPU(s)" in note


def test_reserved_port_is_given_to_nobody_else() -> None:
    holder, port = reserve_port()
    with holder:
        others = [reserve_port() for _ in range(50)]
        assert port not in [other for _, other in others]
        for other, _ in others:
            other.close()


def test_long_line_is_forwarded_in_pieces() -> None:
    read_end, write_end = os.pipe()
    with open(os.devnull, "wb") as sink:
        output = RankOutput(read_end, sink, b"")
        for _ in range(10):
            os.write(write_end, b"x" * 30000)
            assert output.forward()
    assert len(output._line) <= 64 * 1024
    os.close(write_end)
    os.close(read_end)


def test_prefix_is_as_wide_as_the_largest_rank() -> None:
    assert rank_prefix(3, 12, colour=False) == b"[ 3] "
    assert rank_prefix(0, 2, colour=True) == b"\x1b[36m[0]\x1b[0m "


def _children(pid: int) -> list[str]:
    """Process ids of the ranks: the children that lead a process group of the launcher's session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            number = stat.parent.name
            _, parent, group, session = stat.read_text().rsplit(")", 1)[1].split()[:4]
            if int(parent) == pid and group == number and session != number:
                found.append(number)
    return found
