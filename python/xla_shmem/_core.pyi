"""Compiler pass, transport runtime and XLA FFI handlers of xla-shmem.

The sources are module.cc and *_bindings.cc in xla_patch/bindings/python; tests/bindings/test_core_stub.py
compares this file with the built module. Classes marked ``type_check_only`` and the aliases with an underscore
describe values and do not exist at run time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict, final, type_check_only

from typing_extensions import CapsuleType

#: device_id (XLA's global one), process, host, nvlink_domain, pe (rank in the SHMEM world).
_Device: TypeAlias = tuple[int, int, int, int, int]
#: Device id -> reach domain: devices of one domain can put into each other's memory, missing ones reach nobody.
_Reach: TypeAlias = Mapping[int, int]
#: µs: median, and the ends of the interval that it lies in as far as was measured.
_Time: TypeAlias = tuple[float, float, float]
#: op, dtype, devices of a group, bytes of the result; time on NVSHMEM; on DEFAULT, None for what it does not run.
_TunedRow: TypeAlias = tuple[str, str, int, int, _Time, _Time | None]
_Backend: TypeAlias = Literal["NVSHMEM", "DEFAULT"]

@type_check_only
class CollectiveRecord(TypedDict):
    """One collective of a module; a start/done pair is one.

    Text that is not UTF-8 in the module has U+FFFD in its place.
    """

    name: str
    """HLO name of the instruction, of its start for a pair."""
    op: str
    """``"all-reduce"``, ``"collective-permute"``, ``"all-gather"``, ...; never with ``-start``."""
    dtype: str
    """``"f32"``; ``"f32,bf16"`` for a combined one of several types."""
    bytes: int
    """Bytes of the result on one device, tuple elements summed."""
    group_size: int
    """Devices of the largest group; 0 where that is not known."""
    num_groups: int
    """Replica groups; for a permute the sets of devices that its pairs connect."""
    num_pairs: int
    """Source-target pairs of a permute, else 0."""
    reduction: str
    """Of an all-reduce ``"sum"``, ``"prod"``, ``"min"``, ``"max"``, ``"and"`` or ``"or"``, ``"none"`` for
    any other computation; of other ops ``""``."""
    backend: _Backend
    """The decision of the rules."""
    lowered: _Backend
    """The decision after vetoes of the transport."""
    veto: str | None
    """Why a decision for NVSHMEM is not carried out; None if nothing stands against it."""
    rule: str
    """Name of the rule that decided; ``"stock"`` for what stock XLA wrote."""
    reason: str
    """The rule as a sentence, with its numbers."""
    computation: str
    """Name of the computation it is in."""
    in_loop: bool
    """Whether it runs inside a while loop."""
    executions: int | None
    """How often it runs in one run of the module; None where XLA has found no trip count, or a branch decides."""
    source_file: str | None
    """User code that it came from, None where the module does not say."""
    source_line: int
    """Line in ``source_file``; 0 where the module does not say."""

@type_check_only
class RuleStep(TypedDict):
    """One rule as it was put to a collective."""

    rule: str
    question: str
    evidence: str
    """What the answer rests on, with the numbers; ``""`` if it was not asked."""
    verdict: Literal["not asked", "passed", "DEFAULT", "NVSHMEM"]
    """The last rule that names a backend decides."""

@type_check_only
class Explanation(TypedDict):
    """One collective: what the module says of it, and what the rules say."""

    written: CollectiveRecord
    """As :func:`inspect_module` lists it."""
    decided: CollectiveRecord
    """With the options given."""
    trace: list[RuleStep]
    """In the order in which the rules are asked; empty if the module does not say who takes part."""
    groups: list[list[int]]
    """Device ids of each group; empty for a permute."""
    pairs: list[tuple[int, int]]
    """Source and target device of each pair of a permute."""

@type_check_only
class ScheduledInstruction(TypedDict):
    """One step of a computation, with what one execution of it takes."""

    name: str
    opcode: str
    category: Literal["compute", "collective", "control", "other"]
    """``"control"``: while, call, conditional, whose work is in what they call. ``"other"`` costs nothing:
    parameters, constants, tuples, bitcasts. Copies are ``"compute"``."""
    called: list[str]
    """Computations that ``"control"`` leads to; a while's body, then its condition. Else empty."""
    flops: int | None
    """2·M·N·K for products of matrices, 1 for each element of anything elementwise, for a fusion what it holds.
    None where only a library knows, such as for cuDNN's attention."""
    bytes: int | None
    """Read and written in memory. Of what is sliced, or updated in place, the slice. None if that is no number."""
    start: str | None
    """Of a done: the name of what it waits for."""
    collective: bool
    """Whether it moves data between devices, or starts or completes that."""

@type_check_only
class ComputationSchedule(TypedDict):
    """Instructions of one computation in the order they run."""

    name: str
    executions: int | None
    """How often it runs in one run of the module; None where XLA has found no trip count, or a branch decides."""
    in_loop: bool
    """Whether it runs inside a while loop."""
    scheduled: bool
    """Whether the scheduler chose the order. If not, it is the module's, in which it could run."""
    instructions: list[ScheduledInstruction]

@type_check_only
class HandlerStages(TypedDict):
    """Capsules named ``xla._CUSTOM_CALL_TARGET``, by stage, as ``jax.ffi.register_ffi_target`` takes them."""

    instantiate: CapsuleType
    execute: CapsuleType

@type_check_only
class HandlerState(TypedDict):
    """Capsules of ``XLA_FFI_TypeId`` and ``XLA_FFI_TypeInfo``."""

    type_id: CapsuleType
    type_info: CapsuleType

@type_check_only
class NvshmemLibrary(TypedDict):
    """An NVSHMEM host library that was opened."""

    path: str
    """The candidate that opened."""
    version: tuple[int, int, int]
    """Major, minor, patch, as the library says."""

@type_check_only
class GpuFacts(TypedDict):
    """What :func:`gpu_open` found."""

    nvshmem_path: str
    """The candidate that opened."""
    nvshmem_version: str
    """Such as ``"3.8.0"``."""
    driver_version: int
    """CUDA release that the driver supports: 1000 * major + 10 * minor."""
    compute_capability: tuple[int, int]
    """Major, minor."""

class Topology:
    """Where the devices of the job sit, and which PE each one is. The same on every rank."""

    def __init__(self, devices: Sequence[_Device]) -> None:
        """Takes the devices in any order.

        Raises:
          ValueError: a device id or a PE occurs twice, or a number is negative.
        """

    @property
    def num_devices(self) -> int:
        """Number of devices of the job."""

    @property
    def fingerprint(self) -> int:
        """Signed 64-bit hash over all devices; equal topologies have equal ones, on all ranks, in every run."""

    @property
    def devices(self) -> list[_Device]:
        """The devices, sorted by device id."""

class Transport:
    """What the SHMEM runtime can carry, for vetoes."""

    def __init__(self, available: bool, reason: str = "", reach: _Reach | None = None) -> None:
        """Carries what the runtime's own kernels do.

        Args:
          available: False vetoes every decision for NVSHMEM with ``reason``.
          reason: why it is not available, as a sentence.
          reach: None lets every device reach every other.
        """

    @property
    def available(self) -> bool:
        """False: every decision for NVSHMEM is vetoed with the reason."""

    @property
    def reason(self) -> str:
        """Why it is not available."""

class TuningTable:
    """Times of collectives on both backends, for profile ``"tuned"``."""

    def __init__(self, rows: Sequence[_TunedRow]) -> None:
        """Takes the lines in any order.

        Raises:
          ValueError: a name is unknown, a number cannot be, or a line occurs twice.
        """

    @property
    def num_rows(self) -> int:
        """Number of lines."""

    def faster(
        self, op: str, dtype: str, group_size: int, bytes: int
    ) -> Literal["NVSHMEM", "DEFAULT", "neither"] | None:
        """Returns which backend is faster for a collective with a result of so many bytes.

        ``"neither"`` where one median lies in the other's interval; None if the op was not measured.

        Raises:
          ValueError: the op or the dtype is unknown.
        """

@final
class PassResult:
    """What :func:`run_pass` did; made by it only."""

    @property
    def module(self) -> bytes | None:
        """The rewritten ``HloModuleProto``, or None if nothing had to change."""

    @property
    def records(self) -> list[CollectiveRecord]:
        """The collectives of the module."""

def gpu_transport(reach: _Reach) -> Transport:
    """Returns the transport between GPUs.

    Args:
      reach: device id -> number; devices of equal number can write into each other's memory.
    """

def cpu_transport(reach: _Reach) -> Transport:
    """Returns shared memory between the devices of one host, or whatever domains ``reach`` names."""

def run_pass(
    module: bytes,
    topology: Topology,
    transport: Transport,
    *,
    profile: str = "upstream",
    threshold: int = 16777216,
    ops: Sequence[tuple[str, int | None]] = [],
    tuning: TuningTable | None = None,
    lowering: str = "cpu",
) -> PassResult:
    """Decides for every collective of a module and rewrites it in place.

    Releases the GIL. The result depends on the arguments only, so it is the same on all ranks.

    Args:
      module: serialised, scheduled ``HloModuleProto``.
      profile: the set of rules, ``"upstream"``, ``"domain"`` or ``"tuned"``.
      threshold: bytes; all-reduces of that size and more stay with XLA. 2^63-1 for none. ``"tuned"`` has no use for it.
      ops: (op, limit in bytes or None) of each op to consider; none listed: all-reduce and collective-permute, for
        ``"tuned"`` all.
      tuning: the times that ``"tuned"`` goes by; None: nothing was measured.
      lowering: platform to rewrite for, ``"cpu"`` or ``"gpu"``; ``"none"`` only writes the decisions into the
        attributes.

    Raises:
      ValueError: the bytes are not a well-formed module, the profile, an op or the lowering is unknown, or a number
        of bytes is negative.
    """

def inspect_module(module: bytes) -> list[CollectiveRecord]:
    """Lists the collectives of a module with what this pass or stock XLA recorded about them.

    Args:
      module: serialised ``HloModuleProto``.

    Raises:
      ValueError: the bytes are not a well-formed module.
    """

def explain_module(
    module: bytes,
    topology: Topology,
    transport: Transport,
    *,
    profile: str = "upstream",
    threshold: int = 16777216,
    ops: Sequence[tuple[str, int | None]] = [],
    tuning: TuningTable | None = None,
    lowering: str = "cpu",
) -> list[Explanation]:
    """Decides for every collective as :func:`run_pass` does, and keeps what each rule saw; changes nothing.

    Collectives that :func:`run_pass` has rewritten are read back, their PEs being those of ``topology``. Arguments
    and errors as of :func:`run_pass`; the order is that of :func:`inspect_module`.
    """

def schedule(module: bytes) -> list[ComputationSchedule]:
    """Lists the computations that run, callees first and the entry last, with the work of their instructions.

    What fusions, reductions and async wrappers hold runs as one instruction and is not listed.

    Args:
      module: serialised ``HloModuleProto``.

    Raises:
      ValueError: the bytes are not a well-formed module.
    """

class GpuPlugin:
    """A loaded PJRT plugin of XLA:GPU, to register the pass and its handlers with."""

    def __init__(self, api: CapsuleType) -> None:
        """Takes the capsule of the plugin's ``PJRT_Api``, as JAX passes it to plugin callbacks.

        Raises:
          RuntimeError: the plugin is too old or lacks an extension; the message says which and what to install.
        """

    @property
    def version(self) -> str:
        """Version of the plugin's C API, such as ``"0.112"``."""

    def register_pass(self, name: str) -> None:
        """Runs the pass on every module after scheduling, in C++.

        Raises:
          RuntimeError: the plugin refuses.
        """

    def clear_pass(self, name: str) -> None:
        """Undoes :meth:`register_pass`.

        Raises:
          RuntimeError: the plugin refuses.
        """

    def register_handler(self, target: str, stages: Mapping[str, object]) -> None:
        """Makes an FFI handler known under the name that custom calls use.

        Args:
          target: name of the custom call.
          stages: capsules by stage: ``instantiate``, ``prepare``, ``initialize``, ``execute``.

        Raises:
          RuntimeError: the plugin refuses.
        """

def set_gpu_pass(
    topology: Topology,
    transport: Transport,
    *,
    profile: str = "upstream",
    threshold: int = 16777216,
    ops: Sequence[tuple[str, int | None]] = [],
    tuning: TuningTable | None = None,
) -> None:
    """Sets what the registered pass decides by, for modules compiled from now on.

    Args:
      profile: as of :func:`run_pass`.
      threshold: bytes; all-reduces of that size and more stay with XLA.
      ops: as of :func:`run_pass`.
      tuning: as of :func:`run_pass`.

    Raises:
      ValueError: the profile or an op is unknown, or a number of bytes is negative.
    """

def reset_gpu_pass() -> None:
    """Forgets :func:`set_gpu_pass`, so that the next module calls ``connect``."""

def set_gpu_pass_hooks(
    connect: Callable[[], str], observe: Callable[[bytes, list[CollectiveRecord]], None] | None = None
) -> None:
    """Sets what the registered pass calls, on any thread. Both are kept until the process ends.

    Args:
      connect: called at the first module unless :func:`set_gpu_pass` has been. It calls that and returns ``""``,
        or why it cannot, which fails the compilation.
      observe: told of every module with collectives. What it raises fails the compilation.
    """

def gpu_open(nvshmem_candidates: list[str], device: int, cuda_library: str = "libcuda.so.1") -> GpuFacts:
    """Opens the driver, a CUDA device and NVSHMEM; joins nothing yet.

    Args:
      nvshmem_candidates: paths or sonames of NVSHMEM's host library, in the order to try.
      device: CUDA ordinal.
      cuda_library: the driver's library.

    Raises:
      RuntimeError: one of them is missing or too old; the message says what to install.
    """

def gpu_unique_id() -> bytes:
    """Makes the id of an NVSHMEM world, 128 bytes, for one process to hand to the others.

    Raises:
      RuntimeError: :func:`gpu_open` has not succeeded, or NVSHMEM cannot listen on a network interface.
    """

def gpu_start(
    pe: int,
    n_pes: int,
    unique_id: bytes,
    arena_bytes: int,
    kernels: bytes,
    puts: str,
    reduce: str,
    deadline_s: float,
) -> None:
    """Joins the NVSHMEM world and takes the symmetric arena, zeroed. Collective over the world; once a process.

    Args:
      pe, n_pes: this process in the world.
      unique_id: of :func:`gpu_unique_id`, the same on all PEs.
      arena_bytes: of symmetric memory, the same on all PEs.
      kernels: :func:`kernel_source` compiled for this GPU, cubin or PTX.
      puts: ``"nvshmem"`` or ``"driver"``.
      reduce: ``"rings"`` or ``"teams"``.
      deadline_s: seconds after which a transfer that the GPU has come to fails the job.

    Raises:
      RuntimeError: NVSHMEM does not start, a PE is out of reach, or memory is short.
      ValueError: ``puts`` or ``reduce`` is unknown.
    """

def gpu_admit(world: list[int], topology_fingerprint: int) -> None:
    """Lets executables compiled for a topology run.

    Args:
      world: the job's PE of each PE of the NVSHMEM world.
      topology_fingerprint: of the topology they were compiled for.
    """

def set_gpu_admit_hook(hook: Callable[[], object]) -> None:
    """Sets what is called when an executable is loaded before :func:`gpu_admit`.

    Args:
      hook: should call that. What it raises is ignored: the executable may be for GPUs that are not there, and says so
        when it is run.
    """

def gpu_arena_bytes(n_pes: int) -> int:
    """Returns the bytes of symmetric memory that each of ``n_pes`` PEs has use for."""

def kernel_source() -> str:
    """Returns the CUDA source of the device code."""

def gpu_compile(source: str, compute_capability: tuple[int, int], nvrtc_candidates: list[str]) -> bytes:
    """Compiles CUDA C++ with NVRTC; returns what the CUDA driver loads.

    Args:
      source: without includes.
      compute_capability: of the GPU, such as ``(9, 0)``.
      nvrtc_candidates: paths or sonames of libnvrtc, in the order to try.

    Raises:
      RuntimeError: none of the libraries opens, or the compiler refuses.
    """

def gpu_permute(
    operation: int,
    source: int,
    target: int,
    operands: Sequence[int],
    results: Sequence[int],
    bytes: Sequence[int],
    stream: int,
    whole: bool,
) -> None:
    """Enqueues a permute on a stream, without XLA; for measurements.

    Args:
      operation: names the transfer to :func:`gpu_done`.
      source, target: PEs of the NVSHMEM world, -1 for none.
      operands, results: device addresses.
      bytes: of each operand and of its result.
      stream: a CUstream.
      whole: all of it on this stream, in the form that CUDA graphs hold; else only its start.

    Raises:
      RuntimeError: :func:`gpu_start` has not succeeded, or the driver refuses.
      ValueError: not as many results or sizes as operands.
    """

def gpu_all_reduce(
    operation: int,
    reduction: int,
    type: int,
    group: Sequence[int],
    operands: Sequence[int],
    results: Sequence[int],
    bytes: Sequence[int],
    stream: int,
    whole: bool,
) -> None:
    """Enqueues an all-reduce; ``reduction`` and ``type`` are numbered as in thunks/reduction.h, the rest is as for
    :func:`gpu_permute`."""

def gpu_done(operation: int, stream: int) -> None:
    """Joins the transfer that was started last under ``operation``.

    Raises:
      RuntimeError: there is none, or the job has failed.
    """

def gpu_put_signal(destination: int, source: int, bytes: int, word: int, value: int, pe: int, stream: int) -> None:
    """Enqueues one put and the signal behind it; ``destination`` and ``word`` are local addresses of symmetric objects.

    Raises:
      RuntimeError: :func:`gpu_start` has not succeeded, or the driver refuses.
    """

def gpu_wait(word: int, value: int, stream: int) -> None:
    """Enqueues a wait until a signal word is at least ``value``.

    Raises:
      RuntimeError: as :func:`gpu_put_signal`.
    """

def gpu_symmetric(bytes: int) -> int:
    """Takes symmetric memory besides the arena and returns its address. Collective over the world.

    Raises:
      RuntimeError: there is none left.
    """

def cuda_handlers() -> dict[str, HandlerStages]:
    """Returns the FFI targets of XLA:GPU by name."""

def cpu_handlers() -> dict[str, HandlerStages]:
    """Returns the FFI targets of XLA:CPU by name."""

def cpu_handler_state() -> HandlerState:
    """Returns the type of the state that the handlers keep, as XLA's ``register_custom_type`` takes it."""

def empty_call() -> CapsuleType:
    """Returns an FFI handler that does nothing, whatever it is given; `xla-shmem bench` times it."""

def create_segment(job_key: str, process: int, bytes: int) -> None:
    """Creates this process's shared-memory segment, after removing those of dead jobs.

    Args:
      job_key: 32 lower-case hex digits, the same in all processes of the job.
      process: number of this process.
      bytes: size of the segment.

    Raises:
      RuntimeError: the key is malformed, the process has a segment already, or the memory is not to be had.
    """

def observe(
    processes: Sequence[int], local_pes: Sequence[int], *, record_directory: str, statistics: bool, trace_file: str
) -> list[str]:
    """Sets what is noted of the collectives of this process; without it, nothing. To be called before :func:`connect`.

    Args:
      processes: those of the job on this host.
      local_pes: PEs of this process.
      record_directory: of the job, for the flight recorder's files; ``""`` for none.
      statistics: whether to print a table to stderr when the process ends.
      trace_file: to append a trace to; ``""`` for none.

    Returns:
      What does not work as asked, one sentence each; the job runs without it.
    """

def connect(
    pes: Sequence[tuple[int, int]],
    process_reachable: Sequence[bool],
    topology_fingerprint: int,
    spin_us: float,
    deadline_s: float,
    *,
    single_copy: bool = True,
) -> None:
    """Maps the segments of the job, once; later calls return at once.

    Args:
      pes: (process, global device id) of every PE, in PE order; the PEs of a process are consecutive.
      process_reachable: for every process, whether its memory can be mapped here.
      topology_fingerprint: of the job's :class:`Topology`; executables compiled for another one are refused.
      spin_us: microseconds that a waiting thread polls before it sleeps.
      deadline_s: seconds after which an operation that does not finish fails.
      single_copy: whether PEs may read each other's memory where the system permits it and it is faster.

    Raises:
      RuntimeError: there is no segment of this process, one of the others cannot be mapped, or the heap is
        too small.
    """

def failure() -> str:
    """Returns why the job has failed, ``""`` if it has not."""

def connected() -> bool:
    """Returns whether :func:`connect` has succeeded."""

def set_connect_hook(hook: Callable[[], str]) -> None:
    """Sets what is called, on any thread, when an executable is loaded before :func:`connect`.

    Args:
      hook: returns ``""``, or why the executable cannot be loaded. Kept until the process ends.
    """

def nvshmem_library(candidates: Sequence[str]) -> NvshmemLibrary:
    """Opens the first of ``candidates`` (paths or sonames) that ``dlopen`` takes, and keeps it open.

    Initialises nothing, so it works without a GPU. Releases the GIL.

    Raises:
      RuntimeError: none opens, or the one that does lacks a call or is too old; says what was tried.
    """
