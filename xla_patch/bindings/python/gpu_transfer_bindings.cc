#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/gpu/decoded_call.h"
#include "xla_patch/bindings/python/bindings.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/reduction_kernels.h"
#include "xla_patch/thunks/gpu/arena_layout.h"
#include "xla_patch/thunks/gpu/gpu_process.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/launch_form.h"
#include "xla_patch/thunks/gpu/message_tag.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;

using Addresses = std::vector<uintptr_t>;

void* Pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

// Runs `call`, which returns a Status, on the device that was opened first, with its context current and without the
// GIL.
template <typename Call>
void Enqueue(Call call) {
  const std::vector<GpuRuntime*>& devices = GpuProcess::Get().devices();
  if (devices.empty() || !devices.front()->started()) {
    throw std::runtime_error("the GPU path of this process has not started");
  }
  GpuRuntime& runtime = *devices.front();
  const Status status = [&] {
    nb::gil_scoped_release release;
    const gpu::ScopedContext context(runtime.device());
    return call(runtime);
  }();
  RuntimeErrorUnlessOk(status);
}

gpu::Buffers ToBuffers(const Addresses& operands, const Addresses& results, const std::vector<size_t>& bytes) {
  if (operands.size() != bytes.size() || results.size() != bytes.size()) {
    throw nb::value_error("operands, results and bytes must have one length");
  }
  gpu::Buffers buffers;
  for (const uintptr_t operand : operands) buffers.operands.push_back(static_cast<const char*>(Pointer(operand)));
  for (const uintptr_t result : results) buffers.results.push_back(static_cast<char*>(Pointer(result)));
  buffers.bytes = bytes;
  return buffers;
}

void Permute(uint64_t operation, int source, int target, const Addresses& operands, const Addresses& results,
             const std::vector<size_t>& bytes, uintptr_t stream, bool whole) {
  gpu::PermuteArguments permute{"permute", gpu::TagOfOperation(operation), source, target,
                                ToBuffers(operands, results, bytes)};
  Enqueue([&](GpuRuntime& runtime) {
    return whole ? runtime.transfers().RunPermute(permute, Pointer(stream))
                 : runtime.transfers().StartPermute({operation, 0}, permute, Pointer(stream));
  });
}

void AllReduce(uint64_t operation, const std::string& reduction, const std::string& dtype, std::vector<int> group,
               const Addresses& operands, const Addresses& results, const std::vector<size_t>& bytes, uintptr_t stream,
               bool whole) {
  const std::optional<ReductionKind> kind = ReductionNamed(reduction);
  const std::optional<ElementType> type = ElementTypeNamed(dtype);
  if (!kind.has_value() || !type.has_value() || !gpu::FindKernelReduction(*type, *kind).has_value()) {
    throw nb::value_error(("the GPU path has no reduction \"" + reduction + "\" of " + dtype).c_str());
  }
  gpu::GroupArguments all_reduce;
  all_reduce.name = "all-reduce";
  all_reduce.tag = gpu::TagOfOperation(operation);
  all_reduce.reduction = *kind;
  all_reduce.group = std::move(group);
  all_reduce.types.assign(bytes.size(), *type);
  all_reduce.buffers = ToBuffers(operands, results, bytes);
  Enqueue([&](GpuRuntime& runtime) {
    return whole ? runtime.transfers().RunGroup(all_reduce, Pointer(stream))
                 : runtime.transfers().StartGroup({operation, 0}, all_reduce, Pointer(stream));
  });
}

void Done(uint64_t operation, uintptr_t stream) {
  Enqueue([&](GpuRuntime& runtime) { return runtime.transfers().Finish({operation, 0}, "done", Pointer(stream)); });
}

void PutSignal(uintptr_t destination, uintptr_t source, size_t bytes, uintptr_t word, uint64_t value, int pe,
               uintptr_t stream) {
  Enqueue([&](GpuRuntime& runtime) {
    gpu::BatchedStream batched(&runtime.device(), Pointer(stream));
    batched.PutSignal(Pointer(destination), Pointer(source), bytes, static_cast<uint64_t*>(Pointer(word)), value, pe);
    batched.Flush();
    return runtime.device().TakeError();
  });
}

void Wait(uintptr_t word, uint64_t value, uintptr_t stream) {
  Enqueue([&](GpuRuntime& runtime) {
    gpu::BatchedStream batched(&runtime.device(), Pointer(stream));
    batched.WaitAtLeast(static_cast<uint64_t*>(Pointer(word)), value);
    batched.Flush();
    return runtime.device().TakeError();
  });
}

uintptr_t Symmetric(size_t bytes) {
  void* memory = nullptr;
  Enqueue([&](GpuRuntime& runtime) {
    memory = runtime.Symmetric(bytes);
    return memory != nullptr ? Status() : Status::Error("no symmetric memory left: raise NVSHMEM_SYMMETRIC_SIZE");
  });
  return reinterpret_cast<uintptr_t>(memory);
}

nb::dict KernelForm(const std::string& name, size_t bytes, int members, bool multimem) {
  const CollectiveOp op = ParseOp(name);
  if (members < 2) throw nb::value_error("a collective of fewer than two members is no kernel");
  const gpu::LaneLayout layout =
      ValueOrThrow(gpu::LaneLayout::Create(members, gpu::LaneLayout::RecommendedBytes(members, multimem), multimem));
  const size_t total = (bytes + gpu::kPackBytes - 1) / gpu::kPackBytes * gpu::kPackBytes;
  const bool two_shot = op == CollectiveOp::kAllReduce && (multimem || total > gpu::OneShotBytes(members));
  const bool may_use_switch = multimem && (IsReducing(op) || op == CollectiveOp::kAllGather);
  const size_t peers = op == CollectiveOp::kCollectivePermute ? 1 : members - 1;
  const gpu::CollectiveShape shape = two_shot ? gpu::kTwoShot : IsReducing(op) ? gpu::kReduce : gpu::kMove;
  const gpu::LaunchForm form = gpu::FormOf(layout, shape, may_use_switch, total, members, peers);
  nb::dict dict;
  dict["in_packets"] = form.in_packets;
  dict["in_switch"] = form.in_switch;
  dict["two_shot"] = two_shot;
  dict["blocks"] = form.blocks;
  dict["threads"] = form.threads;
  dict["bytes_of_block"] = form.of_lane;
  dict["shares_slots"] = form.shares_slots;
  dict["chunk_bytes"] = form.ChunkBytes(layout);
  dict["memory_bytes"] = layout.bytes();
  return dict;
}

}  // namespace

void BindGpuTransfers(nb::module_& m) {
  m.def("gpu_decoded_calls", &DecodedCalls,
        "Number of calls that this process's GPUs have decoded, each at its first execution on a GPU.");
  m.def(
      "kernel_form", &KernelForm, nb::arg("op"), nb::arg("bytes"), nb::arg("members"), nb::arg("multimem") = false,
      "How the kernel of a collective of all GPUs of a domain is launched, with as much memory as `auto` takes. bytes: "
      "of a message to a member; of an all-reduce its operand. multimem: with the NVLink switch. Needs no GPU. "
      "ValueError for an unknown op or a group "
      "of one.");
  m.def("gpu_permute", &Permute, nb::arg("operation"), nb::arg("source"), nb::arg("target"), nb::arg("operands"),
        nb::arg("results"), nb::arg("bytes"), nb::arg("stream"), nb::arg("whole"),
        "Enqueues a permute: its start, or all of it (`whole`) in the form for CUDA graphs. Raises RuntimeError.");
  m.def("gpu_all_reduce", &AllReduce, nb::arg("operation"), nb::arg("reduction"), nb::arg("dtype"), nb::arg("group"),
        nb::arg("operands"), nb::arg("results"), nb::arg("bytes"), nb::arg("stream"), nb::arg("whole"),
        "Enqueues an all-reduce, as gpu_permute. `reduction`: \"sum\", ...; `dtype`: \"f32\", ... Raises RuntimeError, "
        "or "
        "ValueError if the GPU path has no such reduction.");
  m.def("gpu_done", &Done, nb::arg("operation"), nb::arg("stream"),
        "Joins the transfer that was started last under `operation`. Raises RuntimeError.");
  m.def("gpu_put_signal", &PutSignal, nb::arg("destination"), nb::arg("source"), nb::arg("bytes"), nb::arg("word"),
        nb::arg("value"), nb::arg("pe"), nb::arg("stream"), "Enqueues one put with its signal. Raises RuntimeError.");
  m.def("gpu_wait", &Wait, nb::arg("word"), nb::arg("value"), nb::arg("stream"),
        "Enqueues a wait until a signal word is at least `value`. Raises RuntimeError.");
  m.def("gpu_symmetric", &Symmetric, nb::arg("bytes"),
        "Allocates symmetric memory besides the arena; collective over the world. Raises RuntimeError.");
}

}  // namespace xla_shmem
