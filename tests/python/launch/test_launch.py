"""Output and environment of jobs of `xla-shmem launch`, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched_jobs import command, environment, launch


def test_every_rank_runs_and_its_lines_carry_its_number() -> None:
    result = launch(3, "import os; print('I am', os.environ['XLA_SHMEM_LOCAL_RANK'])")
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["[0] I am 0", "[1] I am 1", "[2] I am 2"]
    assert result.stderr == ""


def test_stdout_and_stderr_stay_apart() -> None:
    result = launch(1, "import sys; print('out'); print('err', file=sys.stderr)")
    assert (result.stdout, result.stderr) == ("[0] out\n", "[0] err\n")


def test_no_prefix_passes_lines_as_they_are() -> None:
    result = launch(1, "print('{\"a\": 1}')", "--no-prefix")
    assert result.stdout == '{"a": 1}\n'


def test_last_line_without_newline_is_not_lost() -> None:
    assert launch(1, "import os; os.write(1, b'no newline')").stdout == "[0] no newline\n"


def test_ranks_have_no_stdin() -> None:
    assert launch(1, "import sys; print(repr(sys.stdin.read()))").stdout == "[0] ''\n"


def test_options_of_the_program_are_passed_on() -> None:
    result = subprocess.run(
        command("launch", "-n", "1", sys.executable, "-c", "import sys; print(sys.argv[1:])", "-n", "--help"),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.stdout == "[0] ['-n', '--help']\n"


def test_a_closed_output_ends_the_job() -> None:
    program = "import itertools\nfor i in itertools.count(): print(i)"
    launcher = subprocess.Popen(
        command("launch", "-n", "2", "--", sys.executable, "-c", program),
        env=environment(),
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
    result = launch(2, _PSUM, *options, JAX_PLATFORMS="cpu", XLA_FLAGS="", RESULTS=str(tmp_path))
    assert result.returncode == 0, result.stderr
    total = float(sum(range(1, 2 * devices + 1)))
    for rank in range(2):
        assert (tmp_path / str(rank)).read_text() == repr((rank, 2, devices, total))


def test_bound_ranks_have_processors_of_their_own() -> None:
    processors = sorted(os.sched_getaffinity(0))
    ranks = min(2, len(processors))
    program = "import os; print(sorted(os.sched_getaffinity(0)))"
    done = launch(ranks, program, "--bind")
    assert done.returncode == 0, done.stderr
    shares = [json.loads(line.split("] ", 1)[1]) for line in done.stdout.splitlines()]
    each = len(processors) // ranks
    assert sorted(shares) == [processors[rank * each : (rank + 1) * each] for rank in range(ranks)]
