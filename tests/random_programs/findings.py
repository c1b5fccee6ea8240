"""A set of programs whose results are wrong, as a Python program that can be run by itself."""

from __future__ import annotations

import pprint
from collections.abc import Mapping

from jax_source import PREAMBLE, source_of
from program_form import ProgramSet
from random_job import SETTINGS, Shape

_HEAD = '''\
"""Run this file in the root of the repository:

{command}
"""
import sys

sys.path[:0] = ["tests/e2e", "tests/random_programs"]

'''

_RUN = """\
# The inputs, who starts which run, and the same functions for NumPy. A run is a program and the seed of its inputs.
programs = \\
{data}


from program_runs import run_alone

run_alone(programs, [{names}])
"""


def as_python(programs: ProgramSet, shape: Shape, settings: Mapping[str, str]) -> str:
    """The text of the program. Each process prints what is wrong of its results."""
    variables = {"XLA_FLAGS": "--xla_gpu_experimental_enable_nvshmem=true", "JAX_PLATFORMS": "cpu"} | SETTINGS
    lines = [f"    {name}={value} \\" for name, value in (variables | dict(settings)).items()]
    start = f"xla-shmem launch -n {shape.processes}"
    if shape.hosts:
        start = f"python tests/hosts/run_on_hosts.py --ranks {','.join(map(str, shape.hosts))}"
    lines.append(f"    {start} --devices-per-process {shape.devices} -- python FILE")
    names = [f"function{i}" for i in range(len(programs["programs"]))]
    functions = [source_of(program, name) for program, name in zip(programs["programs"], names, strict=True)]
    data = pprint.pformat(programs, width=110, compact=True, sort_dicts=False)
    parts = [PREAMBLE, *functions, _RUN.format(data=data, names=", ".join(names))]
    return _HEAD.format(command="\n".join(lines)) + "\n\n".join(parts)
