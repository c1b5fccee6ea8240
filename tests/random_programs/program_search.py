"""Draws sets of random programs with Hypothesis and runs them in jobs; a wrong or failed set is made smaller."""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from comparison import wrong_results
from drawn_programs import program_sets
from findings import as_python
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from program_form import TYPES, ProgramSet
from random_job import JobFailure, RandomJob, Shape

#: Sets of a job; the next job has other settings.
SETS_OF_A_JOB = 300
#: Seconds for making a set smaller. A set that hangs takes as long as the deadline of a collective.
SHRINK_S = 240.0
JOB_SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"XLA_SHMEM_SINGLE_COPY": "off"},
    {"XLA_SHMEM_HEAP_SIZE": "16MiB", "XLA_SHMEM_SPIN_US": "0"},
)


@dataclass
class Ran:
    """What ran and was right.

    Attributes:
      programs: jitted functions, but a set of threads counts as one.
      sets: of programs.
      runs: of programs.
      collectives: what process 0 ran on SHMEM, by op.
    """

    programs: int = 0
    sets: int = 0
    runs: int = 0
    seconds: float = 0.0
    collectives: collections.Counter[str] = field(default_factory=collections.Counter)


class Finding(Exception):
    """A set of programs that fails, as small as Hypothesis made it.

    Attributes:
      programs: the set.
      text: the set as a Python program.
    """

    def __init__(self, programs: ProgramSet, why: str, again: str, text: str) -> None:
        self.programs, self.text = programs, text
        super().__init__(f"{why}\n\nIn a job of its own: {again}\n\n{text}")


class Search:
    """Sets of programs for jobs of one shape. `fault` is planted (planted_faults.py), `environ` is for all jobs.

    Without `several` a thread of a set has one program; inputs and conversions have `types`. A set that fails is made
    smaller for `shrink_s` seconds.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        threads: bool,
        several: bool = True,
        types: tuple[str, ...] = TYPES,
        fault: str = "",
        shrink_s: float = SHRINK_S,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.ran = Ran()
        self._environ = dict(environ or {})
        self._several, self._types, self._shrink_s = several, types, shrink_s
        self._shape, self._threads, self._fault = shape, threads, fault
        self._job: RandomJob | None = None
        self._job_settings: Mapping[str, str] = {}
        self._failed: tuple[ProgramSet, str] | None = None
        self._failures: list[tuple[ProgramSet, str]] = []
        self._end = math.inf
        self._shrink_end = math.inf

    def run(self, first_seed: int, *, programs: int, seconds: float = math.inf) -> None:
        """Runs at least as many programs, or for as long, in one job for each seed from `first_seed` on.

        Raises:
          Finding: a set computes something else than NumPy does, or fails.
        """
        begin, number = time.monotonic(), first_seed
        self._end = begin + seconds
        while self.ran.programs < programs and time.monotonic() < self._end:
            self._job_settings = self._environ | JOB_SETTINGS[number % len(JOB_SETTINGS)]
            self._run_seed(number, min(SETS_OF_A_JOB, programs - self.ran.programs))
            number += 1
            self.ran.seconds = time.monotonic() - begin

    def _run_seed(self, number: int, sets: int) -> None:
        sets_drawn = program_sets(
            self._shape.processes * self._shape.devices, self._threads, self._several, self._types
        )
        check = given(sets_drawn)(self._check)
        check = settings(
            max_examples=sets,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
        )(check)
        try:
            seed(number)(check)()
        except Exception as error:
            if self._failed is None:
                raise
            programs, why = self._failed
            why = f"seed {number}, processes x devices {self._shape}: {why}"
            if not isinstance(error, _Wrong):
                why += f"\n{type(error).__name__}: {error}"
            again = self._in_a_job_of_its_own(programs)
            text = as_python(programs, self._shape, self._job_settings)
            raise Finding(programs, why, again, text) from None
        finally:
            self._end_job()

    def _check(self, programs: ProgramSet) -> None:
        if self._failed is None and time.monotonic() > self._end:
            return
        if why := self._why_it_fails(programs):
            if not self._failures:
                self._shrink_end = time.monotonic() + self._shrink_s
            self._failed = programs, why
            self._failures.append(self._failed)
            # Hypothesis takes errors of other types or lines for other findings.
            raise _Wrong(why)
        if self._failed is None:
            self.ran.sets += 1
            self.ran.runs += len(programs["runs"])
            self.ran.programs += 1 if self._threads else len(programs["programs"])

    def _why_it_fails(self, programs: ProgramSet) -> str | None:
        if time.monotonic() > self._shrink_end:
            # Hypothesis runs the smallest set that failed once more. Any other set ends its shrinking if it passes.
            return next((why for failed, why in self._failures if failed == programs), None)
        try:
            self._run_in_job(programs)
        except (JobFailure, _Wrong) as error:
            return str(error)
        return None

    def _run_in_job(self, programs: ProgramSet) -> None:
        if self._job is None:
            self._job = RandomJob(self._shape, self._job_settings, self._fault)
        try:
            answers = self._job.results_of(programs)
        except JobFailure:
            self._end_job()
            raise
        if wrong := wrong_results(programs, answers):
            raise _Wrong("\n".join(wrong[:6]))

    def _in_a_job_of_its_own(self, programs: ProgramSet) -> str:
        self._end_job()
        try:
            self._run_in_job(programs)
        except (JobFailure, _Wrong) as error:
            return f"fails too: {str(error).splitlines()[0]}"
        return "passes. The programs before it matter, or it fails at times only."

    def _end_job(self) -> None:
        if self._job:
            self.ran.collectives += self._job.close()
        self._job = None


class _Wrong(AssertionError):
    """Results differ from NumPy's."""
