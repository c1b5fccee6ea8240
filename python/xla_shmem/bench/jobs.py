"""The jobs of a benchmark. They run side by side and execute commands one at a time."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

from xla_shmem.bench import variants
from xla_shmem.bench.plan import Plan
from xla_shmem.bench.rendezvous import Listener, receive, send
from xla_shmem.errors import BenchError, JobError
from xla_shmem.launch.huge_pages import huge_page_variables
from xla_shmem.launch.launcher import GRACE
from xla_shmem.launch.launcher_process import LAUNCHER, cpu_environment, gpu_environment, last_lines, stop
from xla_shmem.launch.rank_environment import reserve_port
from xla_shmem.options.given import without_idle_options

#: Seconds until a job that does not start, or does not answer a command, counts as stuck. The end of a rank is noticed
#: at once, and the waits of SHMEM and gloo have their own deadlines.
START_WITHIN = 300.0
ANSWER_WITHIN = 1800.0

#: Command of a rank, without the arguments.
WORKER = (sys.executable, "-m", "xla_shmem.bench.worker")


class JobFailed(JobError):
    """A job ended or does not answer. The message shows the last lines of its output.

    Attributes:
      job: its name.
      variant: the variant that it was running; "" if it was doing something else.
    """

    def __init__(self, message: str, job: str = "", variant: str = "") -> None:
        super().__init__(message)
        self.job = job
        self.variant = variant


class Job:
    """A running job whose ranks wait for commands at their connections.

    Args:
      name: that of the job in `variants.VARIANTS`.
      command: command that starts the job.
      environment: environment of the command.
      ranks: number of ranks that will connect.
      folder: folder for the output.

    Attributes:
      hosts: names of the hosts on which its ranks run, by rank.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: dict[str, str], ranks: int, folder: Path
    ) -> None:
        self.name = name
        self._output = folder / f"{name.replace('/', '-')}.log"
        self._connections: dict[int, Connection] = {}
        self._ranks = ranks
        self._variant = ""
        self.hosts: dict[int, str] = {}
        with self._output.open("wb") as sink:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that Ctrl-C reaches the coordinator only, which stops the job
            )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, error: type[BaseException] | None, *details: object) -> None:
        """Tells the ranks to end; after an error closes the connections, which ends them at once. Stops the rest."""
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                if error is None:
                    send(connection, {"do": "end"})
            connection.close()
        if self.complete:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
        stop(self._process)

    def add(self, rank: int, connection: Connection, *, host: str = "", ranks: int | None = None) -> None:
        """Adds the connection of a rank.

        Args:
          rank: its number in JAX's job.
          host: name of its host.
          ranks: number of ranks of that job; None if it is known to be right.

        Raises:
          JobFailed: the launcher started another number of ranks.
        """
        self._connections[rank] = connection
        self.hosts[rank] = host
        if ranks not in (None, self._ranks):
            self._fail(f"has {ranks} ranks, and --num-ranks is {self._ranks}: both must be the launcher's number")

    def ranks_of_hosts(self) -> dict[str, int]:
        """Returns the number of ranks on each host, in the order of the ranks."""
        return dict(collections.Counter(host for _, host in sorted(self.hosts.items())))

    @property
    def complete(self) -> bool:
        """Whether all ranks have connected."""
        return len(self._connections) == self._ranks

    def check_alive(self) -> None:
        """Checks that the job still runs.

        Raises:
          JobFailed: the job has ended.
        """
        code = self._process.poll()
        if code is not None:
            self._fail(f"ended with exit code {code}")

    def ask(self, do: str, **arguments: Any) -> list[dict[str, Any]]:
        """Sends a command to all ranks and returns their answers, in the order of the ranks.

        Raises:
          JobFailed: a rank has ended, or did not answer for `ANSWER_WITHIN` seconds.
        """
        self.tell(do, **arguments)
        return self.answers(do)

    def tell(self, do: str, **arguments: Any) -> None:
        """Sends a command to all ranks; `answers` must be called next.

        Raises:
          JobFailed: a rank has ended.
        """
        self._variant = arguments.get("variant", "")
        for rank, connection in sorted(self._connections.items()):
            try:
                send(connection, {"do": do, **arguments})
            except OSError:
                self._fail(f"lost rank {rank} before '{do}'")

    def answers(self, do: str) -> list[dict[str, Any]]:
        """Returns the answers to the command `do`, in the order of the ranks.

        Raises:
          JobFailed: as for `ask`.
        """
        waiting: dict[Any, int] = {connection: rank for rank, connection in self._connections.items()}
        answers: dict[int, dict[str, Any]] = {}
        give_up = time.monotonic() + ANSWER_WITHIN
        while waiting:
            ready = wait(list(waiting), max(0.0, give_up - time.monotonic()))
            if not ready:
                self._fail(f"did not answer '{do}' for {ANSWER_WITHIN:.0f} s (ranks {sorted(waiting.values())})")
            for connection in ready:
                rank = waiting.pop(connection)
                try:
                    answers[rank] = receive(self._connections[rank])
                except (EOFError, OSError):
                    self._fail(f"lost rank {rank} in '{do}'")
        return [answers[rank] for rank in sorted(answers)]

    def _fail(self, event: str) -> NoReturn:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)  # so that the output is complete
        said = f"the {self.name} job {event}. Last lines of its output:\n{last_lines(self._output)}"
        raise JobFailed(said, self.name, self._variant)


def mpi_command(plan: Plan, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Returns the command `mpirun` with its options, without the program.

    Args:
      plan: its ranks and command.
      environ: variables of the job, which name the library of MPIwrapper.

    Raises:
      BenchError: MPI cannot be used here. The message says what to install or set.
    """
    library = environ.get("MPITRAMPOLINE_LIB", "")
    how = "build https://github.com/eschnett/MPIwrapper with this machine's MPI and set it to libmpiwrapper.so"
    if not library:
        raise BenchError(f"--vs mpi: MPITRAMPOLINE_LIB is not set; {how}.")
    if not Path(library).is_file():
        raise BenchError(f"--vs mpi: MPITRAMPOLINE_LIB is {library}, which is not a file; {how}.")
    command = shlex.split(plan.mpirun)
    if not command or shutil.which(command[0]) is None:
        raise BenchError(
            f"--vs mpi: there is no {command[0] if command else 'mpirun'}; install an MPI (Debian: apt-get install "
            "openmpi-bin libopenmpi-dev), or give its command with --mpirun."
        )
    return [*command, "-n", str(plan.processes)]


def mpi_environment(plan: Plan, cores: int) -> dict[str, str]:
    """Returns settings of Open MPI that the user has not set: for more ranks than cores, and for user root."""
    wanted: dict[str, str] = {}
    if plan.processes > cores:
        # Without yielding, a rank that polls keeps the core that the other rank needs.
        wanted |= {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    if os.geteuid() == 0:
        wanted |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {name: value for name, value in wanted.items() if name not in os.environ}


def mpi_settings(plan: Plan) -> list[str]:
    """Returns the version of MPI and the command that starts its job, for the report. Empty if MPI is not compared.

    Raises:
      BenchError: as for `mpi_command`.
    """
    if "mpi" not in plan.rivals:
        return []
    command = mpi_command(plan)
    asked = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=False)
    version = (asked.stdout.splitlines() or ["unknown version"])[0]
    variables = {**os.environ, **mpi_environment(plan, len(os.sched_getaffinity(0)))}
    parameters = (f"{name}={value}" for name, value in variables.items() if name.startswith("OMPI_MCA_"))
    return [f"MPI: {version}: {' '.join([*parameters, *command])}"]


@dataclasses.dataclass(frozen=True)
class Start:
    """How a job is started.

    Attributes:
      prefix: command that starts the ranks, without their program.
      environment: environment of the command.
      ranks: number of ranks.
      arguments: arguments of the ranks' program after the listener's address, the name of the job and `ranks`.
      program: the ranks' program; None for `WORKER`.
    """

    prefix: Sequence[str]
    environment: dict[str, str]
    ranks: int
    arguments: Sequence[str] = ()
    program: Sequence[str] | None = None


def launched(plan: Plan, environ: Mapping[str, str], *, flag: bool = True, one_process: bool = False) -> Start:
    """Returns the start of a job by `xla-shmem launch` with the variables `environ`.

    Options that have no effect in it are left out: those of another platform, or of a profile that it does not have.

    Args:
      flag: whether xla-shmem is on.
      one_process: whether one rank has all devices.
    """
    environ = without_idle_options(environ, cpu=True, gpu=plan.gpus is not None)
    ranks, devices = (1, plan.pes) if one_process else (plan.processes, plan.devices_per_process)
    bind = ["--bind"] if plan.bind else []
    prefix = [*LAUNCHER, "-n", str(ranks), "--devices-per-process", str(devices), *bind, "--"]
    if plan.launcher:
        environment = cpu_environment(environ, flag=flag) | {"JAX_NUM_CPU_DEVICES": str(devices)}
        return Start([*shlex.split(plan.launcher), *_set_in_ranks(environment)], environment, ranks)
    if plan.gpus is None:
        return Start(prefix, cpu_environment(environ, flag=flag), ranks)
    return Start(prefix, gpu_environment(environ, flag=flag, shared=plan.shares_gpu), ranks)


def _set_in_ranks(environment: Mapping[str, str]) -> list[str]:
    """A command that gives a program what differs from this process's environment; not all launchers pass it on."""
    unset = [f"--unset={name}" for name in sorted(set(os.environ) - set(environment))]
    changed = [f"{name}={value}" for name, value in sorted(environment.items()) if os.environ.get(name) != value]
    return ["env", *unset, *changed]


@contextlib.contextmanager
def connected_jobs(starts: Mapping[str, Start], *, other_hosts: bool = False) -> Iterator[dict[str, Job]]:
    """Starts jobs, yields them by name when all ranks are connected, and ends them.

    Args:
      starts: how each is started.
      other_hosts: whether ranks may run on other hosts, which a socket of this one does not reach.

    Raises:
      BenchError: the socket cannot be created.
      JobFailed: a job did not start.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xla-shmem-bench-")))
        listener = stack.enter_context(Listener(folder, other_hosts=other_hosts))
        jobs = {}
        for name, start in starts.items():
            program = start.program or WORKER
            command = [*start.prefix, *program, listener.address, name, str(start.ranks), *start.arguments]
            jobs[name] = stack.enter_context(Job(name, command, start.environment, start.ranks, folder))
        _accept(listener, jobs)
        yield jobs


@contextlib.contextmanager
def running_jobs(plan: Plan) -> Iterator[dict[str, Job]]:
    """Starts the jobs of a plan, yields the job of each variant that can run, and ends them.

    Raises:
      BenchError: the plan compares with MPI, and MPI cannot be used here.
      JobFailed: a job did not start.
    """
    names = [name for name in ("shmem", *plan.rivals) if name not in plan.obstacles()]
    starts: dict[str, Start] = {}
    with contextlib.ExitStack() as stack:
        for variant in map(variants.named, names):
            if variant.name == "mpi":
                starts[variant.job] = under_mpi(plan, stack)
            elif variant.job not in starts:
                starts[variant.job] = start_of(plan, variant)
        jobs = stack.enter_context(connected_jobs(starts, other_hosts=bool(plan.launcher)))
        yield {name: jobs[variants.named(name).job] for name in names}


def start_of(plan: Plan, variant: variants.Variant) -> Start:
    """Returns the start of the job of a variant, by `xla-shmem launch`."""
    # Unless the user chose otherwise, SHMEM runs all operations of all sizes.
    rules = {"XLA_SHMEM_OPS": "all", "XLA_SHMEM_THRESHOLD": "none", "XLA_SHMEM_HIERARCHICAL": "on"}
    environ = {**rules, **os.environ, **dict(variant.environ)}
    if flags := variant.xla_flags()[0]:
        environ["XLA_FLAGS"] = " ".join([environ.get("XLA_FLAGS", ""), *flags]).strip()
    return launched(plan, environ, flag=variant.flag, one_process=variant.one_process)


def under_mpi(plan: Plan, stack: contextlib.ExitStack, environ: Mapping[str, str] = os.environ) -> Start:
    """Returns the start of a job on JAX's MPI collectives.

    Args:
      plan: its ranks and `mpirun`.
      stack: holds the port of the job's coordinator.
      environ: variables of the job; MPITRAMPOLINE_LIB is the library of MPIwrapper.

    Raises:
      BenchError: as for `mpi_command`.
    """
    command = mpi_command(plan, environ)
    holder, port = reserve_port()
    stack.enter_context(holder)
    cores = len(os.sched_getaffinity(0))
    environment = cpu_environment(environ, flag=False) | mpi_environment(plan, cores)
    environment |= huge_page_variables(environ)  # as `launch` does for the others
    environment["JAX_NUM_CPU_DEVICES"] = "1"
    return Start(command, environment, plan.processes, (f"127.0.0.1:{port}",))


def _accept(listener: Listener, jobs: dict[str, Job]) -> None:
    give_up = time.monotonic() + START_WITHIN
    while not all(job.complete for job in jobs.values()):
        for job in jobs.values():
            job.check_alive()
        if time.monotonic() > give_up:
            late = [name for name, job in jobs.items() if not job.complete]
            raise JobFailed(f"the ranks of {', '.join(late)} did not start within {START_WITHIN:.0f} s.", late[0])
        if (accepted := listener.accept()) is not None:
            connection, hello = accepted
            jobs[hello["job"]].add(hello["rank"], connection, host=hello["host"], ranks=hello["ranks"])
