"""All collectives of jobs on several hosts compute what NumPy computes, over groups of every kind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from comparison import wrong_results
from host_programs import Groups, ops_over, program_of, set_of
from random_job import RandomJob, Shape

pytestmark = pytest.mark.timeout(120)

#: Ranks of each host, and whether what crosses hosts is divided.
JOBS = (
    ((2, 2), "off"),
    ((2, 2), "on"),
    ((3, 3), "on"),
    ((1, 3), "on"),
    pytest.param(((4, 4), "on"), marks=pytest.mark.slow),
    pytest.param(((2, 2, 2, 2), "on"), marks=pytest.mark.slow),
)
TYPES = ("int32", "float32", "float16", "complex64", "int8")


def _first_ranks(hosts: tuple[int, ...]) -> list[int]:
    return [sum(hosts[:i]) for i in range(len(hosts) + 1)]


def groups_of(hosts: tuple[int, ...]) -> dict[str, Groups]:
    """Groups of ranks: of each host, across hosts, both kinds in one collective, all ranks."""
    n, begin = sum(hosts), _first_ranks(hosts)
    found: dict[str, Groups] = {"all": [list(range(n))], "all_backwards": [list(range(n))[::-1]]}
    if len(set(hosts)) == 1:
        found["within"] = [list(range(first, last)) for first, last in itertools.pairwise(begin)]
        found["across"] = [list(range(i, n, hosts[0])) for i in range(hosts[0])]
        found["all_in_turns"] = [[rank for group in found["across"] for rank in group]]
    if n % 2 == 0:
        found["neighbours"] = [[i, i + 1] for i in range(0, n, 2)]
    return found


@pytest.fixture(scope="module", params=JOBS, ids=lambda job: f"{'+'.join(map(str, job[0]))}-{job[1]}")
def job(request: pytest.FixtureRequest) -> Iterator[tuple[RandomJob, bool]]:
    hosts, hierarchical = request.param
    with RandomJob(Shape(sum(hosts), 1, hosts), {"XLA_SHMEM_HIERARCHICAL": hierarchical}) as made:
        yield made, hierarchical == "on"


@pytest.mark.parametrize("elements", [3, 20_001])
def test_every_collective_over_every_kind_of_group(job: tuple[RandomJob, bool], elements: int) -> None:
    job_on_hosts, divides = job
    hosts = job_on_hosts.shape.hosts
    programs = []
    for kind, groups in groups_of(hosts).items():
        # XLA:CPU cannot run a broadcast, nor does the pass if groups have other numbers of ranks on their hosts.
        broadcast = kind == "within" or (divides and len(set(hosts)) == 1 and kind != "neighbours")
        ops = [op for dtype in TYPES for op in ops_over(groups, dtype, broadcast=broadcast)]
        programs.append(program_of(kind, ops, ranks=sum(hosts), elements=elements))
    chosen = set_of(*programs)
    assert wrong_results(chosen, job_on_hosts.results_of(chosen)) == []
