"""All collectives of jobs on several hosts compute what NumPy computes, over groups of every kind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from host_programs import Groups, ops_over, program_of, set_of
from random_job import RandomJob, Shape, wrong_results

pytestmark = pytest.mark.timeout(120)

#: Ranks of each host.
JOBS = ((2, 2), (3, 3), (1, 3))
TYPES = ("int32", "float32", "float16", "complex64", "int8")


def _first_ranks(hosts: tuple[int, ...]) -> list[int]:
    return [sum(hosts[:i]) for i in range(len(hosts) + 1)]


def groups_of(hosts: tuple[int, ...]) -> dict[str, Groups]:
    """Groups of ranks: of each host, across hosts, both kinds in one collective, all ranks."""
    n, begin = sum(hosts), _first_ranks(hosts)
    found: dict[str, Groups] = {"all": [list(range(n))], "all-backwards": [list(range(n))[::-1]]}
    if len(set(hosts)) == 1:
        found["within"] = [list(range(first, last)) for first, last in itertools.pairwise(begin)]
        found["across"] = [list(range(i, n, hosts[0])) for i in range(hosts[0])]
        found["all-in-turns"] = [[rank for group in found["across"] for rank in group]]
    if n % 2 == 0:
        found["neighbours"] = [[i, i + 1] for i in range(0, n, 2)]
    return found


@pytest.fixture(scope="module", params=JOBS, ids=str)
def job(request: pytest.FixtureRequest) -> Iterator[RandomJob]:
    hosts = request.param
    with RandomJob(Shape(sum(hosts), 1, hosts)) as made:
        yield made


@pytest.mark.parametrize("dtype", TYPES)
def test_every_collective_over_every_kind_of_group(job: RandomJob, dtype: str) -> None:
    hosts = job.shape.hosts
    ranks = range(sum(hosts))
    programs = []
    for kind, groups in groups_of(hosts).items():
        ops = [op for op in ops_over(groups) if dtype != "complex64" or op["op"] not in ("pmax", "pmin")]
        ops = [op for op in ops if dtype not in ("float16", "complex64") or "reduction" not in op]
        name = f"{kind.replace('-', '_')}_{dtype}"
        programs += [
            program_of(ops, name=f"{name}_{size}", order=ranks, elements=size, dtype=dtype) for size in (3, 20_001)
        ]
    chosen = set_of(*programs)
    assert wrong_results(chosen, job.results_of(chosen)) == []
