"""Compiler pass, transport runtime and XLA FFI handlers of xla-shmem.

The sources are module.cc and *_bindings.cc in xla_patch/bindings/python. tests/bindings/test_core_stub.py compares
this file with the built module. Classes marked ``type_check_only`` and aliases with an underscore do not exist at run
time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict, final, type_check_only

from typing_extensions import CapsuleType

from xla_shmem.runtime.store import Store

#: XLA's global device id, process, host, NVLink domain, PE.
_Device: TypeAlias = tuple[int, int, int, int, int]
#: Device id -> domain. Devices of one domain can put into each other's memory. A missing device reaches no other.
_Reach: TypeAlias = Mapping[int, int]
#: µs: median, lower and upper end of its confidence interval.
_Time: TypeAlias = tuple[float, float, float]
#: op, dtype, devices of a group, bytes of the result, time on NVSHMEM, time on DEFAULT (None: DEFAULT cannot run it),
#: NVLink domains that a group spans. If they are several, the time on NVSHMEM is that of the divided collective.
_TunedRow: TypeAlias = tuple[str, str, int, int, _Time, _Time | None, int, Mapping[str, _Time]]
_Backend: TypeAlias = Literal["NVSHMEM", "DEFAULT", "HIERARCHICAL"]

@type_check_only
class CollectiveOp(TypedDict):
    """One row of the table of collectives."""

    name: str
    """Its HLO opcode: ``"all-reduce"``, ...; without ``-start``."""
    short_name: str
    """Name that the command line also accepts; ``""`` if there is none."""
    reduces: bool
    """Whether it has a computation."""
    shapes: Literal["same", "gathered", "scattered", "exchanged", "ragged"]
    """What its result has of its operands: the same shape, a part of each member, or its part of each. In exchanges
    both have a part for each member. Rows of ragged ones differ in number."""
    on_cpu: bool
    """Whether the pass lowers it for XLA:CPU."""
    on_gpu: bool
    """Whether the pass lowers it for XLA:GPU."""
    targets: tuple[str, str, str]
    """Custom calls of the whole transfer, its start and its done; ``""`` if there is none."""

@type_check_only
class ModuleHeader(TypedDict):
    """Facts about a module that need no full read."""

    name: str
    """Name of the module."""
    replicas: int
    """Replicas in the device assignment; 0 if the module has none."""
    partitions: int
    """Partitions in the device assignment; 0 if the module has none."""
    devices: list[int]
    """Device ids in the device assignment, sorted."""
    is_gpu_form: bool
    """Whether XLA:GPU compiled it: a collective is a start/done pair, or has a backend config."""
    awaits_partitioning: bool
    """Whether XLA's partitioner has not run on a module with shardings, so that collectives are missing."""

@type_check_only
class CollectiveRecord(TypedDict):
    """One collective of a module. A start/done pair counts as one.

    Bytes that are not UTF-8 are replaced by U+FFFD.
    """

    name: str
    """HLO name of the instruction; for a pair, of the start."""
    op: str
    """``"all-reduce"``, ``"collective-permute"``, ``"all-gather"``, ...; without ``-start``."""
    dtype: str
    """``"f32"``; ``"f32,bf16"`` for a combined collective of two types."""
    bytes: int
    """Bytes of the result on one device: the sum over the tuple elements."""
    group_size: int
    """Devices of the largest group; 0 if unknown."""
    num_groups: int
    """Number of replica groups; for a permute, number of sets of devices that its pairs connect."""
    num_pairs: int
    """Source-target pairs of a permute; 0 for other ops."""
    reduction: str
    """Of an all-reduce: ``"sum"``, ``"prod"``, ``"min"``, ``"max"``, ``"and"``, ``"or"``, or ``"none"`` for another
    computation. Of other ops: ``""``."""
    backend: _Backend
    """The decision of the rules."""
    lowered: _Backend
    """The backend that runs it: the decision of the rules unless the transport vetoed it."""
    veto: str | None
    """Why a decision for NVSHMEM is not carried out; None if there is no veto."""
    rule: str
    """Name of the rule that decided; ``"stock"`` for a module of stock XLA."""
    reason: str
    """The decision in a sentence, with the numbers."""
    chosen_way: str | None
    """The way that the pass chose for XLA to take, as :func:`ways` names it; None for XLA's choice, and for NVSHMEM."""
    model: str | None
    """For NVSHMEM by a rule that does not ask the cost model: a sentence if the model expects DEFAULT to be faster."""
    computation: str
    """Name of the computation that holds it."""
    in_loop: bool
    """Whether it runs inside a while loop."""
    executions: int | None
    """Executions in one run of the module. None if a trip count is unknown or a branch decides."""
    source_file: str | None
    """File of the user's code; None if the module does not say."""
    source_line: int
    """Line in ``source_file``; 0 if the module does not say."""
    part_of: str | None
    """Name of the divided collective that it is a part of; None for all others."""
    num_domains: int
    """Of a divided collective and of its parts: NVLink domains of a group of the whole, of a permute those of all its
    devices. 0 for all others."""
    kernel: str | None
    """Of one that XLA:GPU runs by a kernel of its own: ``"one-shot"``, ``"two-shot"``, or ``"own"`` if its kind is not
    known."""
    mode: str | None
    """``"symmetric"``, ``"peer"`` or ``"private"`` memory, if XLA:GPU wrote it."""
    is_sync: bool
    """Whether XLA:GPU runs it on the stream of the computation."""
    operand_space: int
    """Memory space of operand 0; 0 is the default one."""
    result_space: int
    """Memory space of the first result."""

@type_check_only
class RuleStep(TypedDict):
    """The answer of one rule for one collective."""

    rule: str
    question: str
    evidence: str
    """The facts behind the answer, with the numbers; ``""`` if the rule was not asked."""
    verdict: Literal["not asked", "passed", "DEFAULT", "NVSHMEM", "HIERARCHICAL"]
    """The last rule that names a backend decides."""

@type_check_only
class Explanation(TypedDict):
    """One collective as the module describes it, and the decision of the rules about it."""

    written: CollectiveRecord
    """As :func:`inspect_module` lists it."""
    decided: CollectiveRecord
    """The same with the decision for the given options."""
    trace: list[RuleStep]
    """In the order in which the rules are asked. Empty if the participants are unknown."""
    groups: list[list[int]]
    """Device ids of each group; empty for a permute."""
    pairs: list[tuple[int, int]]
    """Source and target device of each pair of a permute."""
    shape: str
    """Of the result on one device, as in HLO text: ``"f32[8,1024]"``, ``"(f32[8], bf16[4])"``."""

@type_check_only
class ScheduledInstruction(TypedDict):
    """One instruction of a computation, with the cost of one execution."""

    name: str
    opcode: str
    category: Literal["compute", "collective", "control", "other"]
    """``"control"``: while, call and conditional; their work is in the computations they call. ``"other"`` costs
    nothing: parameters, constants, tuples, bitcasts. Copies are ``"compute"``."""
    called: list[str]
    """Computations that a ``"control"`` instruction calls; for a while, the body and then the condition. Else empty."""
    flops: int | None
    """2·M·N·K for a matrix product; 1 per element of an elementwise instruction; the sum of its parts for a fusion.
    For cuDNN's attention 4 · scores · size of a head, in its backward 10 · the same; half of that if it is causal.
    None if only a library knows, as for a convolution by cuDNN, and for attention whose mask depends on data."""
    bytes: int | None
    """Bytes read and written in memory. A slice, or an update in place, counts the slice only. None if unknown."""
    fused_attention: bool
    """Whether it is attention in one kernel of cuDNN's, forward or backward."""
    start: str | None
    """Of a done: the name of its start. Else None."""
    collective: bool
    """Whether it moves data between devices, or is the start or the done of such a transfer."""

@type_check_only
class ComputationSchedule(TypedDict):
    """The instructions of one computation, in the order in which they run."""

    name: str
    executions: int | None
    """Executions in one run of the module. None if a trip count is unknown or a branch decides."""
    in_loop: bool
    """Whether it runs inside a while loop."""
    scheduled: bool
    """Whether XLA's scheduler chose the order. If not, it is the order of the module, which is a possible one."""
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
class KernelForm(TypedDict):
    """How the kernel of a collective is launched.

    Attributes:
      in_packets: the messages are packets.
      in_switch: the NVLink switch reduces, or multiplies what is gathered.
      two_shot: an all-reduce in two exchanges.
      blocks, threads: of the grid, and of a block.
      bytes_of_block: of a message, or with two shots of what a member reduces.
      shares_slots: the chunks go through slots that all senders to a GPU share.
      chunk_bytes: of a slot, or of what a member has in a place of the staging memory.
      memory_bytes: of all lanes, on each GPU.
    """

    in_packets: bool
    in_switch: bool
    two_shot: bool
    blocks: int
    threads: int
    bytes_of_block: int
    shares_slots: bool
    chunk_bytes: int
    memory_bytes: int

@type_check_only
class NvshmemLibrary(TypedDict):
    """An open NVSHMEM host library."""

    path: str
    """The candidate that opened."""
    version: tuple[int, int, int]
    """Major, minor and patch version that the library reports."""

@type_check_only
class GpuFacts(TypedDict):
    """Result of :func:`gpu_open`."""

    nvshmem_path: str
    """The candidate that opened, "" if none did."""
    nvshmem_version: str
    """Such as ``"3.8.0"``."""
    nvshmem_error: str
    """Why no candidate opened, "" if one did or there are none. The message says what to install."""
    driver_version: int
    """CUDA release that the driver supports: 1000 * major + 10 * minor."""
    compute_capability: tuple[int, int]
    """Major, minor."""
    multiprocessors: int
    """SMs of the device."""
    can_copy_permutes: bool
    """Whether copies can carry permutes, with the puts asked for. If not, they must be kernels in all processes."""
    free_bytes: int
    """Free memory of the device."""

@final
class Option:
    """A row of the table of options (xla_patch/options/table.h)."""

    @property
    def name(self) -> str:
        """Keyword of :func:`xla_shmem.configure`."""

    @property
    def env(self) -> str:
        """Variable of the environment."""

    @property
    def type(
        self,
    ) -> Literal["choice", "bytes", "count", "seconds", "ops", "path", "library", "job", "tuning"]:
        """What values are: ``"choice"`` one of :attr:`words`, ``"library"`` the path of one, ``"job"`` a job's key."""

    @property
    def default(self) -> str:
        """As a user writes it; ``""`` if there is none."""

    @property
    def example(self) -> str:
        """A value."""

    @property
    def words(self) -> tuple[str, ...]:
        """The values of a choice; of numbers, words such as ``"auto"`` that can stand in their place."""

    @property
    def can_be_none(self) -> bool:
        """Whether :meth:`read` can return None, or there is no default."""

    @property
    def least(self) -> int:
        """Least value of ``"bytes"`` and ``"count"``; 0 for others."""

    @property
    def values(self) -> str:
        """What a value must be: ``"'auto' or a size of at least 8MiB"``."""

    @property
    def text(self) -> str:
        """What the option does, in Markdown."""

    @property
    def on_cpu(self) -> bool:
        """Whether it has an effect on XLA:CPU."""

    @property
    def on_gpu(self) -> bool:
        """Whether it has an effect on XLA:GPU."""

    @property
    def in_tools(self) -> bool:
        """Whether commands of xla-shmem that run no job read it."""

    @property
    def in_patched_jaxlib(self) -> bool:
        """Whether a patched jaxlib reads it."""

    @property
    def decides(self) -> bool:
        """Whether decisions about collectives depend on it."""

    @property
    def changes_times(self) -> bool:
        """Whether a tuning table holds only for the value with which it was measured."""

    @property
    def equal_on_ranks(self) -> bool:
        """Whether all processes of a job on GPUs must have the same value."""

    def read(self, text: bytes) -> int | float | bytes | tuple[tuple[str, int | None], ...] | None:
        """Returns the value that ``text`` stands for, None for a word without a value. Texts stay bytes.

        Raises:
          ValueError: it is not allowed; the message says what it must be, and follows "must be".
        """

class Topology:
    """Process, host, NVLink domain and PE of every device of the job. Equal on all ranks."""

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
        """Signed 64-bit hash over all devices. Depends on the devices only, so it is equal on all ranks."""

    @property
    def devices(self) -> list[_Device]:
        """The devices, sorted by device id."""

class Transport:
    """The collectives that the SHMEM runtime can carry. The pass vetoes all others."""

    def __init__(self, available: bool, reason: str = "", reach: _Reach | None = None) -> None:
        """Describes a transport that carries everything for which the runtime has kernels.

        Args:
          available: False vetoes every decision for NVSHMEM.
          reason: why it is not available, as a sentence; the text of the veto.
          reach: None: every device reaches every other.
        """

    @property
    def available(self) -> bool:
        """If False, every decision for NVSHMEM is vetoed."""

    @property
    def reason(self) -> str:
        """Why it is not available; ``""`` if it is."""

class TuningTable:
    """Measured times of collectives on both backends, for profile ``"tuned"``."""

    def __init__(self, rows: Sequence[_TunedRow]) -> None:
        """Takes the rows in any order.

        Raises:
          ValueError: a name is unknown, a number is out of range, or a row occurs twice.
        """

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    def faster(
        self,
        op: str,
        dtype: str,
        group_size: int,
        bytes: int,
        domains: int = 1,
        *,
        settable: Sequence[str] = [],
        in_one_process: bool = False,
    ) -> str | None:
        """Returns what the rules choose for a collective whose result has ``bytes`` bytes.

        ``"NVSHMEM"``, ``"HIERARCHICAL"`` or ``"DEFAULT"``; the name of a way, as :func:`ways` has it; ``"neither"`` if
        one median lies in the interval of the other; None if the op was not measured.

        Args:
          domains: NVLink domains that a group spans. For more than one, a divided collective is compared with a whole
            one.
          settable: words of the ways that the pass can choose besides ``nvshmem``. Where XLA may take a kernel of its
            own for the op, it counts as taken.
          in_one_process: whether all devices of a group are in one process.

        Raises:
          ValueError: the op, the dtype or a word is unknown.
        """

    def times(self, op: str, dtype: str, group_size: int, bytes: int) -> dict[str, float] | None:
        """Returns the medians in µs of a collective in one NVLink domain; None if the op was not measured.

        By ``"NVSHMEM"``, ``"DEFAULT"`` if that runs it, and the names of ways. Sizes that were not measured are
        interpolated (docs/bench.md).

        Raises:
          ValueError: the op or the dtype is unknown.
        """

def options() -> list[Option]:
    """Returns the table of options."""

def check_names(names: Sequence[str]) -> None:
    """Checks the names of variables.

    Raises:
      ValueError: one begins with ``XLA_SHMEM_`` and is no option, nor a name that xla-shmem sets for its processes,
        builds or tests. The message is a sentence about the first such name.
    """

def no_such_option(variable: str) -> str:
    """Returns the sentence about a variable that is no option, with the option that it may have meant."""

def idle_option(texts: Mapping[str, bytes], *, cpu: bool, gpu: bool) -> tuple[str, str] | None:
    """Returns (name, sentence) of the first option that certainly has no effect; None if each may have one.

    Args:
      texts: what the user wrote, by the option's name.
      cpu: whether the process runs collectives on CPUs.
      gpu: whether it runs them on GPUs.
    """

def read_size(text: bytes) -> int:
    """Returns the bytes of a size such as ``16MiB``, ``4K`` or ``65536``.

    Raises:
      ValueError: it is not a size; the message follows "must be".
    """

def gpu_generation(major: int) -> str:
    """Returns ``"hopper"`` or ``"blackwell"`` for a compute capability; ``""`` for one without a cost model."""

def expected_times(op: str, bytes: int, group_size: int, num_devices: int, gpu: str) -> tuple[float, float] | None:
    """Returns the times in µs on NVSHMEM and NCCL by the cost model (docs/bench.md); None without one.

    Args:
      op: HLO's name.
      bytes: of the result.
      group_size: devices of a group; of a permute, those that its pairs connect.
      num_devices: devices of the module.
      gpu: ``"hopper"`` or ``"blackwell"``.
    """

def ways() -> list[tuple[str, str]]:
    """Returns the ways of running a collective on GPUs: the word of ``XLA_SHMEM_BACKENDS``, and the name in reports."""

def way_flags(word: str, op: str) -> list[str]:
    """Returns the flags of XLA that make all collectives of an op run in a way; empty if nothing does.

    XLA must know the first; the others are needed on those releases that know them.

    Raises:
      ValueError: the word or the op is unknown.
    """

def planned_time(
    op: str,
    bytes: int,
    group_size: int,
    num_devices: int,
    *,
    profile: str = "upstream",
    threshold: int = 16777216,
    ops: Sequence[tuple[str, int | None]] = [],
    tuning: TuningTable | None = None,
    gpu: str = "",
    backends: Sequence[str] = [],
    settable: Sequence[str] = [],
) -> float | None:
    """Returns the time in µs of an f32 collective in one NVLink domain, on the backend that the rules choose for it.

    As ``tuning`` measured it, or else by the cost model; None without either. Arguments are those of
    :func:`expected_times` and :func:`run_pass`.
    """

#: NCCL's channels for sends and receives, and the share of NVLink's bandwidth that its kernels reach.
NCCL_CHANNELS: int
NCCL_LINK_SHARE: float

def nccl_send_channels(bytes: int, num_devices: int, most: int) -> int:
    """Returns NCCL's channels for a send in a communicator of ``num_devices``: at most ``most`` for a peer."""

def transfer_times(
    op: str,
    bytes: int,
    group_size: int,
    *,
    nvlink_gb_per_s: float,
    memory_gb_per_s: float,
    channels: int,
    channel_gb_per_s: float,
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Returns the times of :func:`expected_times` on links that are described instead of a generation's.

    Args:
      op, bytes, group_size: as there.
      nvlink_gb_per_s: NVLink of a GPU in one direction.
      memory_gb_per_s: speed of copies within a GPU.
      channels, channel_gb_per_s: NCCL's channels for a permute's send, and the speed of each.

    Returns:
      On NVSHMEM and on NCCL: µs, and the share of NVLink's bandwidth while bytes move. None as there.
    """

@final
class PassResult:
    """Result of :func:`run_pass`."""

    @property
    def module(self) -> bytes | None:
        """The rewritten ``HloModuleProto``; None if nothing changed."""

    @property
    def records(self) -> list[CollectiveRecord]:
        """The collectives of the module."""

def gpu_transport(reach: _Reach) -> Transport:
    """Returns the transport between GPUs.

    Args:
      reach: domain of each device; devices of one domain can write into each other's memory.
    """

def collective_ops() -> list[CollectiveOp]:
    """Returns the table of collectives (xla_patch/types/collective_op.h)."""

def cpu_transport(reach: _Reach) -> Transport:
    """Returns the shared-memory transport between the devices of one domain of ``reach``, which is usually a host."""

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
    gpu: str = "",
    hierarchical: str = "auto",
    backends: Sequence[str] = [],
    settable: Sequence[str] = [],
    one_at_a_time: bool = False,
    mark_default_collectives: bool = False,
    marks_keep_aliasing: bool = False,
) -> PassResult:
    """Decides the backend of every collective of a module, and rewrites the collectives that go to SHMEM.

    Releases the GIL. The result depends on the arguments only, so all ranks get the same one.

    Args:
      module: serialised, scheduled ``HloModuleProto``.
      profile: the set of rules: ``"upstream"``, ``"domain"`` or ``"tuned"``.
      threshold: bytes. All-reduces of this size or larger stay on DEFAULT. 2^63-1: no limit. Ignored by ``"tuned"``.
      ops: (op, limit in bytes or None) of each op to consider. If empty: all-reduce and collective-permute, and with
        ``"tuned"`` all ops.
      tuning: measured times for ``"tuned"``. None: no measurements.
      lowering: ``"cpu"`` or ``"gpu"``: the platform to rewrite for. ``"none"``: write the decisions into the attributes
        and rewrite nothing.
      gpu: ``"hopper"`` or ``"blackwell"`` for the cost model; ``""`` for none.
      hierarchical: ``"on"``, ``"off"`` or ``"auto"``: whether collectives that cross NVLink domains are divided, by the
        cost model of such a division with ``"auto"``.
      backends: words of ``XLA_SHMEM_BACKENDS`` that may be chosen; if empty, all.
      settable: those that the pass can choose for one collective in this release of XLA, besides ``"nvshmem"``.
      one_at_a_time: for XLA:CPU, whether each collective waits for the one that is scheduled before it.
      mark_default_collectives: for XLA:CPU, whether calls record those that stay on the default backend.
      marks_keep_aliasing: not in a module that would lose the aliasing of its parameters only for them.

    Raises:
      ValueError: the bytes are not a well-formed module; its collectives cannot be put in order; the profile, an op,
        the lowering or the GPU is unknown; or a number of bytes is negative.
    """

def unwrap_module(data: bytes) -> bytes:
    """Returns the serialised ``HloModuleProto`` in data: data itself, or the one in an ``HloProto`` or ``HloSnapshot``.

    Raises:
      ValueError: there is none; the message follows a file's name.
    """

def module_header(module: bytes) -> ModuleHeader:
    """Reads name, device assignment and form of a module.

    Args:
      module: serialised ``HloModuleProto``.

    Raises:
      ValueError: a top-level field or the device assignment is malformed; the message follows a file's name.
    """

def with_default_assignment(module: bytes, replicas: int, partitions: int) -> bytes:
    """Adds XLA's default device assignment to a module that has none.

    Device ``r * partitions + p`` runs replica r of partition p.

    Args:
      module: serialised ``HloModuleProto``.
      replicas: number of replicas.
      partitions: number of partitions.

    Raises:
      ValueError: no devices, or more than 2^20; the message follows a file's name.
    """

def inspect_module(module: bytes) -> list[CollectiveRecord]:
    """Lists the collectives of a module with the decisions that the module records.

    Reads modules of this pass and of stock XLA.

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
    gpu: str = "",
    hierarchical: str = "auto",
    backends: Sequence[str] = [],
    settable: Sequence[str] = [],
) -> list[Explanation]:
    """Decides as :func:`run_pass` does, keeps the answer of each rule, and changes nothing.

    Takes modules that :func:`run_pass` has rewritten too; their PEs are those of ``topology``. Arguments and errors are
    those of :func:`run_pass`. The order is that of :func:`inspect_module`.
    """

def schedule(module: bytes) -> list[ComputationSchedule]:
    """Lists the computations of a module with the cost of their instructions; callees first, the entry last.

    Leaves out the computations inside fusions, reductions and async wrappers, which run as one instruction.

    Args:
      module: serialised ``HloModuleProto``.

    Raises:
      ValueError: the bytes are not a well-formed module.
    """

class PassHook:
    """The entry of the compiler pass for one platform; see :func:`cpu_pass` and :func:`gpu_pass`."""

    def set_hooks(
        self,
        connect: Callable[[], str],
        observe: Callable[[bytes, list[CollectiveRecord]], None] | None = None,
        unread: Callable[[int, str], None] | None = None,
    ) -> None:
        """Sets the callbacks. Any thread may call them, until the process ends.

        Args:
          connect: called for the first module if :meth:`set_options` was not called before. It calls
            :meth:`set_options` and returns ``""``, or returns an error, which fails the compilation.
          observe: called with every module that has collectives. An exception fails the compilation.
          unread: called with the bytes of every module that the pass cannot read, and the reason.
        """

    def set_options(
        self,
        topology: Topology,
        transport: Transport,
        *,
        profile: str = "upstream",
        threshold: int = 16777216,
        ops: Sequence[tuple[str, int | None]] = [],
        tuning: TuningTable | None = None,
        gpu: str = "",
        hierarchical: str = "auto",
        backends: Sequence[str] = [],
        settable: Sequence[str] = [],
        one_at_a_time: bool = False,
        mark_default_collectives: bool = False,
        marks_keep_aliasing: bool = False,
    ) -> None:
        """Sets topology, transport and rules, for modules that are compiled from now on.

        Args:
          profile: as in :func:`run_pass`.
          threshold: as in :func:`run_pass`.
          ops: as in :func:`run_pass`.
          tuning: as in :func:`run_pass`.
          gpu: as in :func:`run_pass`.
          hierarchical: as in :func:`run_pass`.
          backends: as in :func:`run_pass`.
          settable: as in :func:`run_pass`.
          one_at_a_time: as in :func:`run_pass`.
          mark_default_collectives: as in :func:`run_pass`.
          marks_keep_aliasing: as in :func:`run_pass`.

        Raises:
          ValueError: the profile or an op is unknown, or a number of bytes is negative.
        """

    def reset(self) -> None:
        """Undoes :meth:`set_options`, so that the next module calls ``connect``."""

    def run(self, module: bytes) -> bytes | None:
        """Runs the pass on a serialised HloModuleProto; returns the rewritten module, or None if nothing changes.

        jaxlib registers a transform of XLA:CPU only as a callable, so XLA:CPU calls this method. XLA:GPU enters through
        the C API of its plugin (:meth:`GpuPlugin.register_pass`).

        Raises:
          RuntimeError: the module is malformed, or ``connect`` returned an error.
        """

def cpu_pass() -> PassHook:
    """Returns the entry of the pass for XLA:CPU."""

def gpu_pass() -> PassHook:
    """Returns the entry of the pass for XLA:GPU."""

class GpuPlugin:
    """A loaded PJRT plugin of XLA:GPU. Registers the pass and its handlers."""

    def __init__(self, api: CapsuleType) -> None:
        """Takes the capsule of the plugin's ``PJRT_Api``, which JAX passes to plugin callbacks.

        Raises:
          RuntimeError: the plugin is too old or lacks an extension. The message says which one and what to install.
        """

    @property
    def version(self) -> str:
        """Version of the plugin's C API, such as ``"0.112"``."""

    def register_pass(self, name: str) -> None:
        """Makes XLA run the pass on every module after scheduling.

        Raises:
          RuntimeError: the plugin returned an error.
        """

    def clear_pass(self, name: str) -> None:
        """Undoes :meth:`register_pass`.

        Raises:
          RuntimeError: the plugin returned an error.
        """

    def register_handler(self, target: str, stages: Mapping[str, object]) -> None:
        """Registers an FFI handler.

        Args:
          target: name of the custom call.
          stages: capsules by stage: ``instantiate``, ``prepare``, ``initialize``, ``execute``.

        Raises:
          RuntimeError: the plugin returned an error.
        """

def gpu_open(
    nvshmem_candidates: list[str],
    device: int,
    cuda_library: str = "libcuda.so.1",
    *,
    puts: str = "driver",
    permute: str = "auto",
) -> GpuFacts:
    """Opens the CUDA driver, a device and NVSHMEM. Does not join an NVSHMEM world. May be called for several devices.

    Args:
      nvshmem_candidates: paths or sonames of NVSHMEM's host library, in the order to try; none: it is not opened.
      device: CUDA ordinal.
      cuda_library: the driver's library.
      puts, permute: as of :func:`gpu_start`.

    Raises:
      RuntimeError: the driver or the device is missing or too old, or cannot do what ``puts`` or ``permute`` ask for.
        The message says what to install or to set.
      ValueError: ``puts`` or ``permute`` is unknown.
    """

def gpu_load_kernels(kernels: bytes, device: int | None = None) -> None:
    """Loads the device code into an opened device.

    Args:
      kernels: :func:`kernel_source` compiled for this GPU, as cubin or PTX.
      device: CUDA ordinal; None: the device that was opened first.

    Raises:
      RuntimeError: :func:`gpu_open` has not succeeded, or the driver refuses the code.
    """

def gpu_unique_id() -> bytes:
    """Returns a new id of an NVSHMEM world: 128 bytes. One process calls this and sends the id to the others.

    Raises:
      RuntimeError: :func:`gpu_open` has not succeeded, or NVSHMEM cannot listen on a network interface.
    """

def gpu_make_heap(
    world: int, own: Sequence[tuple[int, int]], n_pes: int, bytes: int, sharing: str, multicast: bool = False
) -> list[tuple[int, bytes]]:
    """Makes the memory of this process's PEs in a driver heap (xla_patch/nvshmem/gpu/driver_heap.h).

    Args:
      world: number of the world, for :func:`gpu_join_heap` and :func:`gpu_start`.
      own: PE of the world and CUDA ordinal of each of this process's devices there.
      n_pes: PEs of the world.
      bytes: of each PE.
      sharing: how other processes map the memory: ``"none"``, ``"files"`` (one host) or ``"fabric"`` (one NVLink
        fabric).
      multicast: whether reductions in the NVLink switch are wanted; equal in all processes of the world.

    Returns:
      What the other processes of the world import: for each PE, and then for the multicast object (-1) if this process
      has made it, the bytes of a fabric handle, or of a file descriptor, which the caller closes.

    Raises:
      RuntimeError: :func:`gpu_open` has not succeeded, or the driver has no such memory.
      ValueError: ``sharing`` is unknown.
    """

def gpu_join_heap(world: int, imported: Sequence[tuple[int, bytes]]) -> str:
    """Maps the memory of all PEs of a world. All its processes call this, after :func:`gpu_make_heap` in all of them.

    Args:
      world: its number.
      imported: results of :func:`gpu_make_heap` of the other processes. File descriptors stay the caller's.

    Returns:
      "" or why this process cannot have the multicast memory that :func:`gpu_make_heap` was asked for.

    Raises:
      RuntimeError: the driver does not map the memory of a process.
    """

def gpu_open_multicast(world: int) -> None:
    """Makes the multicast memory of a world. In all its processes :func:`gpu_join_heap` has returned "".

    Args:
      world: its number.

    Raises:
      RuntimeError: the driver does not make it.
    """

def gpu_drop_heaps() -> None:
    """Gives the driver heaps of this process back, if its job does not start."""

def gpu_start(
    pe: int,
    n_pes: int,
    unique_id: bytes,
    arena_bytes: int,
    puts: str,
    deadline_s: float,
    *,
    permute: str = "auto",
    multiprocessors: int = 0,
    multimem: bool = False,
    pcie: bool = False,
    timed: bool = False,
    device: int | None = None,
    heap: int | None = None,
) -> int:
    """Starts a device: allocates its symmetric arena, filled with zeros, in a driver heap or in NVSHMEM's.

    After :func:`gpu_load_kernels`. May be called once for a device. Without ``heap`` it joins the NVSHMEM world, which
    is collective. NVSHMEM's variables must then be the same in all processes before one of them makes the unique id
    (``xla_shmem.runtime.nvshmem_settings``).

    Args:
      pe, n_pes: the device's PE, and the number of PEs of the world.
      unique_id: result of :func:`gpu_unique_id`, equal on all PEs. Unused with ``heap``.
      arena_bytes: bytes of symmetric memory, equal on all PEs.
      puts: ``"nvshmem"`` or ``"driver"``.
      deadline_s: seconds after which an unfinished transfer fails the job, counted from when the GPU starts it.
      permute: what carries permutes, as of option ``gpu_permute``. Equal on all PEs.
      multiprocessors: SMs of the smallest GPU of the world, which limit the blocks of kernels; 0: this GPU's. Equal on
        all PEs.
      multimem: whether to look for multicast memory, for :func:`gpu_use_multimem`. Equal on all PEs.
      pcie: whether two PEs reach each other over PCIe alone, so that fewer messages go in packets. Equal on all PEs.
      timed: whether to measure on the device when collectives begin and end, for :func:`gpu_observe`.
      device: CUDA ordinal; None: the device that was opened first.
      heap: number of the world whose driver heap :func:`gpu_join_heap` has mapped; None: NVSHMEM's heap.

    Returns:
      The bytes between the start of the heap and the arena, which must be equal on all PEs.

    Raises:
      RuntimeError: NVSHMEM does not start, a PE is out of reach, or there is not enough memory.
      ValueError: ``puts`` or ``permute`` is unknown.
    """

def gpu_observe(
    process: int,
    processes: Sequence[int],
    pes: Sequence[int],
    *,
    record_directory: str,
    statistics: bool,
    trace_file: str,
) -> list[str]:
    """Turns on records, statistics and traces of the collectives on this process's GPUs, like :func:`observe`.

    Must be called after :func:`gpu_start` of all devices, whose ``timed`` statistics and traces need, and before the
    first collective.

    Args:
      process: number of this process.
      processes: processes of the job on this host.
      pes: the job's PEs of this process's GPUs.
      record_directory, statistics, trace_file: as of :func:`observe`.

    Returns:
      A sentence for each part that does not work. The job runs without that part.
    """

def gpu_report() -> None:
    """Prints the statistics of the GPUs, once, and writes the trace so far. Waits at most a second for what runs."""

def gpu_in_graphs() -> tuple[int, int]:
    """Returns how many calls CUDA graphs have captured on this process's GPUs, and how many collectives they have run.

    Groups of one member do not count.
    """

def gpu_admit(worlds: Mapping[int, Sequence[int]], topology_fingerprint: int) -> None:
    """Permits executables that were compiled for a topology to run.

    Args:
      worlds: by CUDA ordinal of this process's devices, for each PE of the device's world, its PE in the job.
      topology_fingerprint: :attr:`Topology.fingerprint` of that topology.
    """

def set_gpu_admit_hook(hook: Callable[[], object]) -> None:
    """Sets a callback for executables that are loaded before :func:`gpu_admit`.

    Args:
      hook: calls :func:`gpu_admit`. Its exceptions are ignored, because the executable may be for GPUs of another
        machine; such an executable fails when it runs.
    """

def gpu_has_multicast() -> bool:
    """Returns whether :func:`gpu_start` was asked for multicast memory and has found it on this process's GPUs."""

def gpu_use_multimem() -> None:
    """Has the NVLink switch do reductions of all PEs, of the types that it has.

    All processes of the world must have multicast memory, and call this before the first collective.
    """

def gpu_arena_bytes(n_pes: int, multimem: bool = False) -> int:
    """Returns the bytes of symmetric memory that each of ``n_pes`` PEs needs.

    Args:
      multimem: as of :func:`gpu_start`.
    """

def gpu_kernel_reduction(reduction: str, dtype: str) -> tuple[int, int]:
    """Returns the numbers by which the device code knows a reduction: elements and kind.

    Args:
      reduction: ``"sum"``, ``"prod"``, ``"min"``, ``"max"``, ``"and"``, ``"or"`` or ``"xor"``.
      dtype: HLO's name, such as ``"f32"``.

    Raises:
      ValueError: the device code has no such reduction.
    """

def nvshmem_world_settings(symmetric_bytes: int, hosts: int, multimem: bool) -> dict[str, str]:
    """Returns NVSHMEM's variables for a world, by name.

    Args:
      symmetric_bytes: bytes that xla-shmem allocates on each PE.
      hosts: hosts of the world.
      multimem: whether NVSHMEM is to make multicast memory.
    """

def nvshmem_heap_bytes(settings: dict[str, str], own_steps: bool) -> int:
    """Returns the bytes that NVSHMEM's heap takes on each PE.

    Args:
      settings: of :func:`nvshmem_world_settings`.
      own_steps: the user has chosen the steps in which the heap grows, so they are not counted.
    """

def nvshmem_check_world(members: list[tuple[int, str, str, int, int]], heap_bytes: int, heap: str = "nvshmem") -> str:
    """Returns "" or why no process of a world can start.

    Args:
      members: for each PE its process, host, PCI address of its GPU, IMEX channels that the process sees, and bytes of
        free memory of the GPU.
      heap_bytes: what the heap takes on each PE.
      heap: what makes the memory, ``"nvshmem"`` or ``"driver"``.

    Raises:
      ValueError: ``heap`` is unknown.
    """

def imex_channels() -> int:
    """Returns how many IMEX channels this process sees."""

def nvshmem_chosen_by_user(environ: dict[str, str]) -> str:
    """Returns those of NVSHMEM's variables in ``environ`` that must be equal in all processes.

    Returns:
      ``"NAME=value NAME=value"``, sorted; "" for none.
    """

def host_identity() -> str:
    """Returns a text that is equal in processes that are on one host for NVSHMEM: boot id and host name."""

def agree_in_job(
    store: Store,
    process: int,
    processes: int,
    prefix: str,
    patience_s: float,
    *,
    error: str,
    agreement: str,
    facts: str,
) -> tuple[str, list[str]]:
    """Announces this process to the others and waits for all of them. Collective over the job.

    Args:
      store: of the job.
      process: number of this process.
      processes: how many there are.
      prefix: of the keys.
      patience_s: seconds to wait for a process that has announced nothing.
      error: why this process cannot take part, "" if it can.
      agreement: what must be equal in all processes.
      facts: of this process, as one line.

    Returns:
      Why the job cannot start, the same in all processes, "" if it can; and then the facts of each process.
    """

def kernel_source() -> str:
    """Returns the CUDA source of the device code."""

def gpu_compile(source: str, compute_capability: tuple[int, int], nvrtc_candidates: list[str]) -> bytes:
    """Compiles CUDA C++ with NVRTC and returns a binary for the CUDA driver.

    Args:
      source: CUDA C++ without ``#include``.
      compute_capability: of the GPU, such as ``(9, 0)``.
      nvrtc_candidates: paths or sonames of libnvrtc, in the order to try.

    Raises:
      RuntimeError: no library opens, or the source has an error.
    """

def gpu_decoded_calls() -> int:
    """Returns how many calls this process's GPUs have decoded, each at its first execution on a GPU."""

def kernel_form(op: str, bytes: int, members: int, multimem: bool = False) -> KernelForm:
    """Returns how the kernel of a collective of all GPUs of a domain is launched, with as much memory as `auto` takes.

    Needs no GPU.

    Args:
      op: "all-reduce", ..., but no ragged all-to-all.
      bytes: of a message to a member; of an all-reduce its operand.
      members: GPUs of the group and of the domain.
      multimem: with the NVLink switch, which has the reduction.

    Raises:
      ValueError: the op is unknown, or the group has one member.
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
    """Enqueues a permute on a stream, without XLA. For measurements.

    Args:
      operation: id of the transfer, for :func:`gpu_done`.
      source, target: PEs of the NVSHMEM world; -1 for none.
      operands, results: device addresses.
      bytes: bytes of each operand, and of its result.
      stream: a CUstream.
      whole: True: the whole transfer on this stream, as CUDA graphs need it. False: the start only.

    Raises:
      RuntimeError: :func:`gpu_start` has not succeeded, or the driver returned an error.
      ValueError: the numbers of operands, results and sizes differ.
    """

def gpu_all_reduce(
    operation: int,
    reduction: str,
    dtype: str,
    group: Sequence[int],
    operands: Sequence[int],
    results: Sequence[int],
    bytes: Sequence[int],
    stream: int,
    whole: bool,
) -> None:
    """Enqueues an all-reduce.

    Args:
      reduction: ``"sum"``, ``"prod"``, ``"min"`` or ``"max"``.
      dtype: ``"f32"``, ... (nvshmem/gpu_reductions.h). The other arguments are those of :func:`gpu_permute`.

    Raises:
      RuntimeError: as :func:`gpu_permute`.
      ValueError: as :func:`gpu_permute`; or the GPU path has no such reduction.
    """

def gpu_done(operation: int, stream: int) -> None:
    """Makes the stream wait for the transfer that was started last under ``operation``.

    Raises:
      RuntimeError: there is no such transfer, or the job has failed.
    """

def gpu_put_signal(destination: int, source: int, bytes: int, word: int, value: int, pe: int, stream: int) -> None:
    """Enqueues one put, followed by its signal.

    ``destination`` and ``word`` are local addresses of symmetric objects.

    Raises:
      RuntimeError: :func:`gpu_start` has not succeeded, or the driver returned an error.
    """

def gpu_wait(word: int, value: int, stream: int) -> None:
    """Enqueues a wait until a signal word is at least ``value``.

    Raises:
      RuntimeError: as in :func:`gpu_put_signal`.
    """

def gpu_symmetric(bytes: int) -> int:
    """Allocates symmetric memory outside the arena and returns its address. Collective over the world.

    Raises:
      RuntimeError: there is not enough memory.
    """

def cuda_handlers() -> dict[str, HandlerStages]:
    """Returns the FFI targets of XLA:GPU by name."""

def cpu_handlers() -> dict[str, HandlerStages]:
    """Returns the FFI targets of the collectives on XLA:CPU by name."""

def after_target() -> str:
    """Returns the target on XLA:CPU of a call that does nothing; its result is its first operand."""

def cpu_handler_state() -> HandlerState:
    """Returns the type of the handlers' state, for XLA's ``register_custom_type``."""

def empty_call() -> CapsuleType:
    """Returns an FFI handler that takes any arguments and does nothing: that of :func:`after_target`.

    `xla-shmem bench` measures its overhead.
    """

def create_segment(key: str, process: int, bytes: int, single_copy: str = "auto") -> None:
    """Creates the shared-memory segment of this process. Removes the segments of dead jobs first.

    Args:
      key: 32 lower-case hex digits of its name, which nobody else knows. The launcher removes what is left of a job
        by the first 16.
      process: number of this process.
      bytes: size of the segment.
      single_copy: XLA_SHMEM_SINGLE_COPY, which says what processes are permitted to read the memory of this one.

    Raises:
      RuntimeError: the key is malformed, the process has a segment already, or there is not enough memory.
    """

def observe(
    processes: Sequence[int], local_pes: Sequence[int], *, record_directory: str, statistics: bool, trace_file: str
) -> list[str]:
    """Turns on records, statistics and traces of this process's collectives. Must be called before :func:`connect`.

    Args:
      processes: processes of the job on this host.
      local_pes: PEs of this process.
      record_directory: directory of the job for the flight recorder's files; ``""``: no records.
      statistics: whether to print a table to stderr when the process ends.
      trace_file: file that a trace is appended to; ``""``: no trace.

    Returns:
      A sentence for each part that does not work. The job runs without that part.
    """

def report() -> None:
    """Prints the statistics, once, and writes the trace so far. It happens anyway when the process exits normally."""

def connect(
    pes: Sequence[tuple[int, int]],
    process_reachable: Sequence[bool],
    segment_keys: Sequence[str],
    topology_fingerprint: int,
    spin_us: float,
    deadline_s: float,
    *,
    late_after_s: float = 60,
    single_copy: bool = True,
    finish_in_caller: bool = False,
) -> None:
    """Maps the segments of the job. Later calls do nothing.

    Args:
      pes: (process, global device id) of every PE, in PE order. The PEs of a process are consecutive.
      process_reachable: for every process, whether this process can map its memory.
      segment_keys: for every process, the key of its segment; those that are not reachable may have any.
      topology_fingerprint: :attr:`Topology.fingerprint` of the job. Executables for another topology are refused.
      spin_us: µs that a waiting thread polls before it sleeps.
      deadline_s: seconds without progress after which an operation fails.
      late_after_s: seconds without progress after which a line on stderr names the process that is late.
      single_copy: whether PEs may read each other's memory, if the system permits it and it is faster.
      finish_in_caller: whether a collective keeps XLA's thread until it has finished.

    Raises:
      RuntimeError: this process has no segment, another segment cannot be mapped, or the heap is too small.
    """

def failure() -> str:
    """Returns why the job has failed; ``""`` if it has not."""

def connected() -> bool:
    """Returns whether :func:`connect` has succeeded."""

def begin_end() -> None:
    """Records that the program of this process has come to its end. The first call counts."""

def mark_at_end() -> None:
    """Says to the other processes that no collective of this one is under way, and that none will begin."""

def count_peers() -> tuple[int, int, int]:
    """Returns how many other processes of this host are running, at their end, and lost.

    A process is lost if it has exited or is stopped by a signal.
    """

def await_question() -> int:
    """Sleeps until another process asks what this one does. One thread calls it, without the GIL.

    Returns:
      The number of the question; 0 after :func:`stop_questions`, or before :func:`connect`.
    """

def answer(question: int, text: str) -> None:
    """Answers a question with a text that follows the word "it"; at most 255 bytes of it are told."""

def stop_questions() -> None:
    """Lets :func:`await_question` return 0, now and later."""

def set_connect_hook(hook: Callable[[], str]) -> None:
    """Sets a callback for executables that are loaded before :func:`connect`.

    Args:
      hook: returns ``""``, or why the executable cannot be loaded. Any thread may call it, until the process ends.
    """

def nvshmem_library(candidates: Sequence[str]) -> NvshmemLibrary:
    """Opens the first of ``candidates`` (paths or sonames) that ``dlopen`` accepts, and keeps it open.

    Does not initialise NVSHMEM, so it works without a GPU. Releases the GIL.

    Raises:
      RuntimeError: no candidate opens, or the first that opens is too old or lacks a function. The message lists the
        candidates.
    """
