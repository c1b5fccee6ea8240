"""Mistakes planted in a copy of our sources are found on the emulator, and the sources as they are pass the same runs.

A mistake is a text that stands once in a file, and its replacement. A run is a job of two PEs without JAX
(mutants/worker.cc) with a seed, which orders the emulator's work and chooses the sizes. A mistake counts as found if a
run ends with wrong elements, with an error of the GPU path or its watchdog, or with the emulator's own abort. What is
left out before a load is not found: the emulator delays stores to other GPUs, and no loads.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from emulator import Emulator
from planted_mistakes import ROOT, Mutant, SourceCopy, run, without_a_place

PROJECT = Path(__file__).resolve().parent / "mutants"

SEEDS = range(1, 9)
#: Of them those with permutes by kernels.
BY_KERNEL = (2, 5, 7)
PES = 2

#: Seconds. The sources as they are must also pass on a loaded machine; a mistake that makes a PE wait is found sooner.
CALM_DEADLINE, MUTANT_DEADLINE = 60, 5

#: Exit codes of the worker that mean a mistake was found.
WRONG_ELEMENTS, GPU_ERROR, DRIVER_ERROR, STUCK = 1, 2, 3, 70

#: Of a lane that reduces in the switch.
_REDUCE = "staging.Reduce(turn - 1, [&](int member) { return ChunkAt(arguments, at - step, member); });\n"
_POST = "    if (stages || reduces) {\n      FenceAliases();\n      lane.Post();\n    }\n"

MUTANTS = {
    "a receiver does not wait for the signal": Mutant(
        "thunks/gpu/pair_rings.cc",
        "  stream.WaitEqual(Word(layout_.Arrived(from, message)), TaggedWord(tag, message + 1));\n",
        "",
    ),
    "a signal is set before its data": Mutant(
        "nvshmem/gpu/device.cc",
        "    Put(dest, source, bytes, pe);\n    Signal(word, value, pe);\n",
        "    Signal(word, value, pe);\n    Put(dest, source, bytes, pe);\n",
    ),
    "the first and the last operation of a batch are swapped": Mutant(
        "nvshmem/gpu/device.cc",
        "    const int result = cuda.stream_batch_mem_op(",
        "    std::swap(batch.front(), batch.back());\n    const int result = cuda.stream_batch_mem_op(",
    ),
    "words of other GPUs are written by a driver that cannot": Mutant(
        "thunks/gpu/gpu_runtime.cc",
        "writes ? gpu::Signals::kWrites : gpu::Signals::kCopies",
        "writes ? gpu::Signals::kWrites : gpu::Signals::kWrites",
    ),
    "a copied signal is copied before its data": Mutant(
        "nvshmem/gpu/device.cc",
        "    Put(dest, source, bytes, pe);\n    Put(word, word, sizeof(*word), pe);\n",
        "    Put(word, word, sizeof(*word), pe);\n    Put(dest, source, bytes, pe);\n",
    ),
    "signals and waits are left in the batch": Mutant("thunks/gpu/collective_permute.cc", "  receives.Flush();\n", ""),
    "a signal is put off behind the next chunk": Mutant(
        "thunks/gpu/collective_permute.cc",
        "      if (!in_place) puts.Flush();",
        "      if (!in_place && i + kSendStreams >= chunks.size()) puts.Flush();",
    ),
    "a send does not wait for the stream that writes its operand": Mutant(
        "thunks/gpu/collective_permute.cc",
        "for (CudaStream stream : used) device.WaitFor(begun, stream);",
        "device.WaitFor(begun, streams.receive);",
    ),
    "a done does not wait for what was received": Mutant(
        "thunks/gpu/transfers.cc",
        "  started_[key] = {std::move(ended)};\n",
        "  started_[key] = {{ended.begin() + 1, ended.end()}};\n",
    ),
    "a done does not wait until the operand is sent": Mutant(
        "thunks/gpu/transfers.cc", "  started_[key] = {std::move(ended)};\n", "  started_[key] = {{ended[0]}};\n"
    ),
    "a done does not wait for the kernel": Mutant("thunks/gpu/transfers.cc", "{device_->Mark(lanes)};", "{};"),
    "a kernel does not wait for the stream that writes its operand": Mutant(
        "thunks/gpu/transfers.cc", "  if (!alone) device_->Order(lanes, stream);\n", ""
    ),
    "a lane does not wait for messages": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh", "      if (all || Receives(member)) Await(member, message);\n", ""
    ),
    "a lane sends before the slot is empty": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh",
        "      lane.AwaitPeers(/*all=*/true, before > 1 ? before - 1 : before * shares);\n",
        "",
    ),
    "a lane takes the chunk that it has not awaited": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh",
        "take(before, range_of);",
        "take(lane.posted(), range_of);",
    ),
    "a pair that moves has two slots": Mutant(
        "nvshmem/gpu/kernels/arguments.h", "constexpr int kLaneSlots = 4;", "constexpr int kLaneSlots = 2;"
    ),
    "a lane posts before all threads have copied": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh",
        "  __device__ void Post() {\n    __syncthreads();\n",
        "  __device__ void Post() {\n",
    ),
    "a lane reads before all threads have seen the message": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh",
        "      if (all || Receives(member)) Await(member, message);\n    });\n    __syncthreads();\n",
        "      if (all || Receives(member)) Await(member, message);\n    });\n",
    ),
    "a word of a lane changes while threads look for slots by it": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh",
        "    __syncthreads();  // until here other threads look for slots by the words\n",
        "",
    ),
    "a lane forgets how many messages it has sent": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh",
        "    ForPeers([&](int member) { *Sent(sent_, member) = messages_[member]; });\n",
        "",
    ),
    "messages take turns in one slot": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh", "return pair * kSlots + message % kSlots;", "return pair * kSlots;"
    ),
    "a word is stored without release": Mutant(
        "nvshmem/gpu/kernels/platform.cuh", "st.release.sys.global.u64", "st.relaxed.sys.global.u64"
    ),
    "a word is released for the own GPU alone": Mutant(
        "nvshmem/gpu/kernels/platform.cuh", "st.release.sys.global.u64", "st.release.gpu.global.u64"
    ),
    "packets are stored in halves": Mutant(
        "nvshmem/gpu/kernels/platform.cuh",
        'asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(words), "l"(first), "l"(second)'
        ' : "memory");',
        'asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(words), "r"(NumberOfWord(first)),'
        ' "r"(TagOfWord(first)), "r"(NumberOfWord(second)), "r"(TagOfWord(second)) : "memory");',
    ),
    "a pair of packets is taken for whole": Mutant(
        "nvshmem/gpu/kernels/packets.cuh", " || NumberOfWord(seen.second) != number;", ";"
    ),
    "bytes of packets are taken before their numbers": Mutant(
        "nvshmem/gpu/kernels/packets.cuh",
        "NumberOfWord(seen.first) != number || NumberOfWord(seen.second) != number;",
        "false;",
    ),
    "packets keep the number of the message before": Mutant(
        "nvshmem/gpu/kernels/packets.cuh",
        "TaggedWord(arguments_.tag, messages_[member] + 1);",
        "TaggedWord(arguments_.tag, messages_[member]);",
    ),
    "packets are sent before their slot is empty": Mutant(
        "nvshmem/gpu/kernels/packets.cuh", "      if (TagOfWord(messages_[member]) != 0) AwaitHead(member);\n", ""
    ),
    "a PE that receives nothing takes its packets for read": Mutant(
        "nvshmem/gpu/kernels/packets.cuh",
        "      if (!Receives(member)) return;\n      AwaitHead(member);\n",
        "      if (Receives(member)) AwaitHead(member);\n",
    ),
    "a PE with nothing to send sends no packet": Mutant(
        "nvshmem/gpu/kernels/packets.cuh",
        "      StorePairRelaxed(slot, messages_[member], messages_[member]);\n",
        "      if (arguments_.send_to != kNoMember) StorePairRelaxed(slot, messages_[member], messages_[member]);\n",
    ),
    "packets are reduced before all have come": Mutant(
        "nvshmem/gpu/kernels/kernels.cu",
        "    __syncthreads();\n    Reduce(",
        "    Reduce(",
    ),
    "lanes share their slots of packets": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh",
        "SlotIndex<kPacketSlots>(owner, sender, message);",
        "SlotIndex<kPacketSlots>(owner, sender, message) % kPacketSlots;",
    ),
    "the parts of a message all begin where it does": Mutant(
        "thunks/gpu/lanes.cc", "arguments.part_of_member ? 0 : bytes;", "0 * bytes;"
    ),
    "a lane leaves the end of its share": Mutant(
        "nvshmem/gpu/kernels/messages.cuh",
        "(blockIdx.x + 1) * arguments.of_lane",
        "(blockIdx.x + 1) * arguments.of_lane - 16",
    ),
    "members reduce a little less than all": Mutant(
        "thunks/gpu/launch_form.cc",
        "Padded(DivideUp(total, members))",
        "Padded(DivideUp(total, members) - 16)",
    ),
    "a result of the switch stays on the PE that reduced it": Mutant(
        "nvshmem/gpu/kernels/multimem.cuh", "    if (kOnAllPes) {\n", "    if (false) {\n"
    ),
    "the switch reduces before the peers have staged their operands": Mutant(
        "nvshmem/gpu/kernels/multimem.cuh",
        "    if (turn != 0) lane.AwaitPeers(/*all=*/true, turn);\n",
        "",
    ),
    "results of the switch are taken before all members have stored them": Mutant(
        "nvshmem/gpu/kernels/multimem.cuh",
        "(turn - 2,\n" + 41 * " " + "[&](int member) { return ChunkAt(arguments, at - 2 * step, member); });",
        "(turn - 1, [&](int member) { return ChunkAt(arguments, at - step, member); });",
    ),
    "results of the switch are announced before they are stored": Mutant(
        "nvshmem/gpu/kernels/multimem.cuh",
        f"    if (reduces) {_REDUCE}{_POST}",
        f"{_POST}    if (reduces) {_REDUCE}",
    ),
    "no fence lies between accesses through aliases": Mutant(
        "nvshmem/gpu/kernels/multimem.cuh", "      FenceAliases();\n      lane.Post();\n", "      lane.Post();\n"
    ),
    "a chunk is staged in the place that peers still read": Mutant(
        "nvshmem/gpu/kernels/multimem.cuh", "(used_ + turn) % kLaneSlots", "(used_ + turn) % 2"
    ),
    "a chunk is staged for a member in the part of another": Mutant(
        "nvshmem/gpu/kernels/multimem.cuh", "arguments_.members + Fresh(member))", "arguments_.members)"
    ),
    "lanes share their staging memory": Mutant(
        "nvshmem/gpu/kernels/multimem.cuh", "Word{blockIdx.x} * kLaneSlots", "Word{0} * kLaneSlots"
    ),
    "the kernel of a permute leaves results that nobody sends": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh", "      ClearTogether(piece.dest, piece.bytes);\n", ""
    ),
    "the kernel of a permute takes what its target sends": Mutant(
        "thunks/gpu/lanes.cc", "  arguments.receive_from = source;\n", "  arguments.receive_from = target;\n"
    ),
    "the kernel of a permute sends nothing": Mutant(
        "thunks/gpu/lanes.cc", "  arguments.send_to = target;\n", "  arguments.send_to = kNoMember;\n"
    ),
    "a start does not wait until its slot is empty": Mutant(
        "nvshmem/gpu/kernels/split.cuh",
        "      for (unsigned looks = 1; LoadRelaxed(word) < message_.before; ++looks) Heed(looks, target);\n",
        "",
    ),
    "a start waits for blocks that the message before did not have": Mutant(
        "thunks/gpu/split_permutes.cc",
        "static_cast<int>(std::exchange(to_[peer].Of(message).blocks, form.blocks));",
        "static_cast<int>(std::exchange(to_[peer].Of(message).blocks, form.blocks) != 0 ? form.blocks : 0);",
    ),
    "a done does not wait for its message": Mutant(
        "nvshmem/gpu/kernels/split.cuh", "    lane.AwaitArrived(source);\n", ""
    ),
    "a start posts before all threads have copied": Mutant(
        "nvshmem/gpu/kernels/split.cuh",
        "  __device__ static void Store(Word* word, Word value) {\n    __syncthreads();\n",
        "  __device__ static void Store(Word* word, Word value) {\n",
    ),
    "a message has a slot though the done of the one before may come later": Mutant(
        "thunks/gpu/split_permutes.cc", "  if (slot.in_use) return std::nullopt;\n", ""
    ),
    "a message without a slot is left behind": Mutant(
        "thunks/gpu/transfers.cc",
        "    XLA_SHMEM_RETURN_IF_ERROR(StartKernel(key, *rest, /*alone=*/false, stream));  // which is followed\n",
        "",
    ),
    "a done leaves results that nobody sends": Mutant(
        "thunks/gpu/split_permutes.cc", "  arguments.clears = permute.source < 0;\n", ""
    ),
    "a kernel ends before its last block": Mutant(
        "nvshmem/gpu/kernels/exchange.cuh",
        "    if (CountBlock(ended_blocks) != gridDim.x - 1) return;\n",
        "    if (CountBlock(ended_blocks) != 0) return;\n",
    ),
    "a ragged lane does not wait for messages": Mutant(
        "nvshmem/gpu/kernels/ragged_all_to_all.cuh",
        "      lane_.Await(member, lane_.posted());\n      Hear(member);\n",
        "      Hear(member);\n",
    ),
    "a ragged lane stops when it has sent all": Mutant(
        "nvshmem/gpu/kernels/ragged_all_to_all.cuh",
        "state_.last[member] != 0 && state_.slice[member] == arguments_.slices;",
        "state_.slice[member] == arguments_.slices;",
    ),
    "a ragged lane stops when it has received all": Mutant(
        "nvshmem/gpu/kernels/ragged_all_to_all.cuh",
        "state_.last[member] != 0 && state_.slice[member] == arguments_.slices;",
        "state_.last[member] != 0;",
    ),
    "a ragged message is longer than its slot": Mutant(
        "nvshmem/gpu/kernels/ragged_all_to_all.cuh",
        "arguments_.lanes.slot_bytes - offset - sizeof(PieceHead));",
        "arguments_.lanes.slot_bytes);",
    ),
    "a ragged message that is continued begins anew": Mutant(
        "nvshmem/gpu/kernels/ragged_all_to_all.cuh", "    state_.next_done[member] = done;\n", ""
    ),
    "ragged rows of the PE itself stay where they are": Mutant(
        "nvshmem/gpu/kernels/ragged_all_to_all.cuh", "    CopyOwnRows();\n", ""
    ),
    "slots are smaller than what is put into them": Mutant(
        "thunks/gpu/arena_layout.cc",
        "message % num_slots_ * slot_bytes_;",
        "message % num_slots_ * (slot_bytes_ / 2);",
    ),
    "a slot is used again before its credit": Mutant(
        "thunks/gpu/pair_rings.cc", "  stream.WaitAtLeast(credit, awaited);\n", ""
    ),
    "a send stream relies on the other one's wait for credit": Mutant(
        "thunks/gpu/pair_rings.cc", "awaited_[to * kSendStreams + SendStream(to, ahead)]", "awaited_[to * kSendStreams]"
    ),
    "credit counts a slot too many": Mutant(
        "thunks/gpu/pair_rings.cc",
        "  stream.Signal(Word(layout_.Credit(pe_)), received_[from], from);\n",
        "  stream.Signal(Word(layout_.Credit(pe_)), received_[from] + 2, from);\n",
    ),
    "a credit comes before the slot was read": Mutant(
        "thunks/gpu/collective_permute.cc",
        "    EnqueueResults(receives, permute, pieces, arrived);\n"
        "    if (source >= 0) rings.EnqueueCredit(source, receives);\n",
        "    if (source >= 0) rings.EnqueueCredit(source, receives);\n"
        "    EnqueueResults(receives, permute, pieces, arrived);\n",
    ),
    "the ends of a message choose other chunks": Mutant(
        "thunks/gpu/collective_permute.cc",
        "rings.layout().slot_bytes()));",
        "rings.layout().slot_bytes() / (1 + rings.pe())));",
    ),
}


class Sources(SourceCopy):
    """A copy of xla_patch/ and a build of the worker from it."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._build = ROOT / "build" / "gpu_mutants" / "build"
        super().__init__(ROOT / "build" / "gpu_mutants" / "sources")
        include = next(ROOT.glob(".venv-gpu-*/nvidia/cu13/include"))
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        run(
            *("cmake", "-S", str(PROJECT), "-B", str(self._build), "-G", "Ninja", *launcher),
            *(f"-DSOURCES={self.folder}", f"-DCUDA_INCLUDE_DIR={include}"),
            f"-DCUDA_LIBRARY={emulator.libraries / 'libcuda.so.1'}",
        )

    def build(self) -> None:
        """Builds what has changed."""
        run("cmake", "--build", str(self._build))

    def run(self, seed: int, deadline: int) -> list[tuple[int, str]]:
        """Runs a job with a deadline in seconds; returns exit code and stderr of each PE."""
        settings = {
            "NVSHMEM_SYMMETRIC_SIZE": str(64 << 20),
            "NVSHMEM_MAX_TEAMS": "16",
            "NVSHMEM_DISABLE_NCCL": "1",
            "NVSHMEM_REMOTE_TRANSPORT": "none",
            "NVSHMEM_DISABLE_NVLS": "1",
            "CUDA_DEVICE_MAX_CONNECTIONS": "1" if seed % 2 else "8",
            "MUTANTS_PERMUTE": "kernel" if seed in BY_KERNEL else "copies",
        }
        # Sums in the switch, or by the kernel for GPUs without it.
        if seed % 3 == 1:
            settings |= {
                "NVSHMEM_MAX_TEAMS": "64",
                "NVSHMEM_DISABLE_NVLS": "0",
                "GPU_EMULATOR_COMPUTE_CAPABILITY": "90",
                "MUTANTS_MULTIMEM": "1",
            }
        # Drivers with and without stream memory operations on other GPUs.
        version = "13010" if seed % 3 == 0 else "13000"
        environ = self._emulator.environment(
            PES, [], GPU_EMULATOR_SEED=str(seed), GPU_EMULATOR_VERSION=version, **settings
        )
        with tempfile.TemporaryDirectory() as notes:
            command = [str(self._build / "mutants_worker")]
            pes = [
                subprocess.Popen(
                    [*command, str(pe), notes, str(seed), str(deadline)], env=environ, stderr=subprocess.PIPE, text=True
                )
                for pe in range(PES)
            ]
            ended = [_end(pe) for pe in pes]
        return [(pe.returncode, errors) for pe, errors in zip(pes, ended, strict=True)]


def _end(pe: subprocess.Popen[str]) -> str:
    """What a PE says. One whose peer has ended waits for its deadline, and ends; one that does not is killed."""
    try:
        return pe.communicate(timeout=100)[1]
    except subprocess.TimeoutExpired:
        pe.kill()
        return f"{pe.communicate()[1]}\nit has not ended within 100 s"


@pytest.fixture(scope="module")
def sources(emulator: Emulator) -> Sources:
    return Sources(emulator)


def test_every_mistake_has_its_place() -> None:
    assert without_a_place(MUTANTS) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_sources_as_they_are_pass_with_all_seeds(sources: Sources) -> None:
    sources.build()
    for seed in SEEDS:
        for pe, (code, errors) in enumerate(sources.run(seed, CALM_DEADLINE)):
            assert code == 0, f"seed {seed}, PE {pe} ended with {code}:\n{errors}"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_mistake_is_found(sources: Sources, name: str) -> None:
    mutant = MUTANTS[name]
    sources.plant(mutant)
    try:
        sources.build()
        for seed in SEEDS:
            codes = [code for code, _ in sources.run(seed, MUTANT_DEADLINE)]
            # A signal is the emulator's abort.
            if any(code < 0 or code in (WRONG_ELEMENTS, GPU_ERROR, DRIVER_ERROR, STUCK) for code in codes):
                return
    finally:
        sources.restore(mutant)
    pytest.fail(f"not found with seeds {list(SEEDS)}")
