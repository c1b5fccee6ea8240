"""Reads XLA:GPU's dumps of a compiled module: the final HLO, the thunks in order, and the places of values."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

_INSTRUCTION = re.compile(
    r"^  (?:ROOT )?%(?P<name>[\w.-]+) = (?P<shape>.*?) (?P<opcode>[a-z][\w-]*)\((?P<operands>.*?)\)(?P<rest>,.*)?$"
)
# From jax 0.11 element 1 of a tuple is "%tuple#1"; before, it is an instruction get-tuple-element.
_OPERAND = re.compile(r"%(?P<name>[\w.-]+)(?:#(?P<element>\d+))?")
_THUNK = re.compile(r"^(?P<indent> *)(?P<id>\d+): (?P<kind>k\w+)")
_PAIR = re.compile(r"\basync_id=(\d+)")
_VALUE = re.compile(r"^ value: <\d+ (?P<name>\S+) @\d+> \(size=(?P<size>\d+),offset=(?P<offset>\d+)\)")
_ALLOCATION = re.compile(r"^allocation (?P<index>\d+): size (?P<size>\d+),")
_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"[^"]*"|\{[^{}]*\})*\}')
_OWN_ATTRIBUTES = re.compile(r", frontend_attributes=\{xla_shmem\.[^{}]*\}")
#: Kinds of thunks that are a collective of NCCL.
COLLECTIVES = {
    "kAllReduce",
    "kCollectivePermute",
    "kAllGather",
    "kReduceScatter",
    "kAllToAll",
    "kCollectiveBroadcast",
    "kRaggedAllToAll",
}
#: The kind of a collective that XLA:GPU runs by a kernel of its own.
XLA_KERNEL = "kCollectiveKernel"


@dataclass(frozen=True)
class Instruction:
    """An instruction of the final module.

    Attributes:
      operands: their names; ``name{1}`` for an element of a tuple, as in ``Module.slices``.
    """

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    rest: str

    @property
    def target(self) -> str:
        """The target of a custom call, else ""."""
        found = re.search(r'custom_call_target="([^"]*)"', self.rest)
        return found[1] if found else ""

    def integers(self, attribute: str) -> list[int]:
        """An array in the backend config of a custom call."""
        found = re.search(rf"\b{attribute} = array<i64: ([^>]*)>", self.rest)
        assert found, f"{self.name} has no {attribute}: {self.rest}"
        return [int(number) for number in found[1].split(",")]


@dataclass(frozen=True)
class Thunk:
    """A thunk, in the order in which XLA runs them.

    Attributes:
      kind: XLA's name for it, such as ``kCustomKernel``.
      name: the instruction it was made for.
      inside: kind of the thunk around it, "" at the top; bodies of loops count as the top.
      pair: number of the async pair that it is, or is in; "" if XLA does not print it.
    """

    kind: str
    name: str
    inside: str
    pair: str


@dataclass(frozen=True, order=True)
class Slice:
    """The place of a value in memory."""

    allocation: int
    offset: int
    size: int


class Module:
    """The dumps of one module."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix

    def _read(self, ending: str) -> str:
        return self.path(ending).read_text()

    def path(self, ending: str) -> Path:
        """The one file of the module with this ending."""
        (path,) = self._folder.glob(f"{self._prefix}*{ending}")
        return path

    @functools.cached_property
    def hlo(self) -> str:
        """Text of the final module."""
        return self._read("after_optimizations.txt")

    @functools.cached_property
    def plain_hlo(self) -> str:
        """The computations without source locations and without our attributes."""
        text = self.hlo[self.hlo.index("\n%") :] if "\n%" in self.hlo else self.hlo[self.hlo.index("\nENTRY") :]
        return _OWN_ATTRIBUTES.sub("", _METADATA.sub("", text))

    @functools.cached_property
    def instructions(self) -> dict[str, Instruction]:
        """All instructions by name."""
        found = {}
        for line in self.hlo.splitlines():
            if match := _INSTRUCTION.match(line):
                operands = tuple(
                    each["name"] + (f"{{{each['element']}}}" if each["element"] else "")
                    for each in _OPERAND.finditer(match["operands"])
                )
                rest = match["rest"] or ""
                found[match["name"]] = Instruction(match["name"], match["shape"], match["opcode"], operands, rest)
        return found

    def calls(self, target: str) -> list[Instruction]:
        """The custom calls of this target."""
        return [instruction for instruction in self.instructions.values() if instruction.target == target]

    @property
    def thunk_text(self) -> str:
        """The thunk sequence as XLA prints it."""
        return self._read(".thunk_sequence.txt")

    @functools.cached_property
    def thunks(self) -> list[Thunk]:
        """The thunks as emitted."""
        return self._parse(self.thunk_text)

    @functools.cached_property
    def final_thunks(self) -> list[Thunk]:
        """The thunks after XLA has made command buffers."""
        return self._parse(self._read("thunk_sequence_after_thunk_passes.txt"))

    def _parse(self, text: str) -> list[Thunk]:
        names: dict[int, str] = {}
        for entry in self._read("thunk_metadata.txt").split("thunk_metadata {")[1:]:
            annotation = re.search(r'profile_annotation: "(.*)"', entry)
            number = re.search(r"thunk_id: (\d+)", entry)
            if annotation and number:
                names[int(number[1])] = annotation[1]
        thunks: list[Thunk] = []
        around: list[tuple[int, str]] = []
        pair = ""
        for line in text.splitlines():
            if match := _THUNK.match(line):
                indent = len(match["indent"])
                while around and around[-1][0] >= indent:
                    around.pop()
                inside = around[-1][1] if around else ""
                if inside != "kAsyncStart":
                    found = _PAIR.search(line)
                    pair = found[1] if found else ""
                name = names.get(int(match["id"]), "")
                thunks.append(Thunk(match["kind"], name, "" if inside == "kWhile" else inside, pair))
                around.append((indent, match["kind"]))
        return thunks

    def order(self, thunks: list[Thunk] | None = None) -> list[str]:
        """One word a thunk: our targets by name, XLA's collectives as the same words, all else by instruction.

        So a module that was lowered and one that was not compare equal if everything runs in the same order.
        """
        words: list[str] = []
        last = ""  # the pair of the last start, if its collective is a kernel of XLA's
        for thunk in self.thunks if thunks is None else thunks:
            target = self.instructions[thunk.name].target if thunk.name in self.instructions else ""
            if target == "xla_shmem.meet":
                continue
            if target.startswith("xla_shmem."):
                words.append("start" if target.endswith("_start") else "done" if target.endswith("_done") else "whole")
            elif thunk.kind == "kAsyncStart":
                words.append("start")
            elif thunk.kind == XLA_KERNEL:
                last = thunk.pair
            elif thunk.kind == "kAsyncDone":
                # XLA leaves a pair around its own kernel with nothing to run beside it.
                is_alone = words[-1] == "start" and thunk.pair == last != ""
                words[-1:] = ["whole"] if is_alone else [words[-1], "done"]
            elif thunk.kind in COLLECTIVES:
                if thunk.inside != "kAsyncStart":
                    words.append("whole")
            else:
                words.append(f"{thunk.kind} {thunk.name}")
        return words

    @functools.cached_property
    def slices(self) -> dict[str, set[Slice]]:
        """The place of each value; elements of tuples are ``name{0}``."""
        slices: dict[str, set[Slice]] = {}
        allocation = -1
        for line in self._read("buffer-assignment.txt").splitlines():
            if found := _ALLOCATION.match(line):
                allocation = int(found["index"])
            elif found := _VALUE.match(line):
                slices.setdefault(found["name"], set()).add(Slice(allocation, int(found["offset"]), int(found["size"])))
        return slices

    @functools.cached_property
    def given_back(self) -> set[int]:
        """Numbers of the parameters whose memory holds a result."""
        found = re.findall(
            r"^allocation .*, parameter (\d+),.*maybe-live-out", self._read("buffer-assignment.txt"), re.M
        )
        return set(map(int, found))

    @functools.cached_property
    def donated(self) -> set[int]:
        """Numbers of the parameters that the module allows results to overwrite."""
        found = re.search(r"input_output_alias=\{(.*?) \}", self.hlo.splitlines()[0])
        return set(map(int, re.findall(r": \((\d+),", found[1]))) if found else set()

    @functools.cached_property
    def allocated(self) -> int:
        """Bytes of all allocations."""
        text = self._read("buffer-assignment.txt")
        return sum(int(match["size"]) for line in text.splitlines() if (match := _ALLOCATION.match(line)))


class Dump:
    """All modules that one worker compiled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def modules(self, program: str) -> list[Module]:
        """The modules of this name in the order they were compiled."""
        prefixes = [
            path.name.removesuffix(".thunk_sequence.txt")
            for path in self._folder.glob(f"module_*.jit_{program}.thunk_sequence.txt")
        ]
        return [
            Module(self._folder, prefix)
            for prefix in sorted(prefixes, key=lambda prefix: int(re.findall(r"\d+", prefix)[0]))
        ]

    def __getitem__(self, program: str) -> Module:
        """The module of this name that was compiled first."""
        return self.modules(program)[0]


def assert_same_but_for_names(ours: Module, theirs: Module) -> None:
    """A module that XLA reads back may get other suffixes of names (jax 0.11), so names count by their order."""

    def numbered(hlo: str) -> str:
        order: dict[str, str] = {}
        return re.sub(r"%[\w.-]+", lambda name: order.setdefault(name[0], f"%{len(order)}"), hlo)

    assert numbered(ours.plain_hlo) == numbered(theirs.plain_hlo)
    assert ours.thunk_text == theirs.thunk_text
    assert sorted(map(sorted, ours.slices.values())) == sorted(map(sorted, theirs.slices.values()))
