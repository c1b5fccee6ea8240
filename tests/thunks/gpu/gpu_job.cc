#include "tests/thunks/gpu/gpu_job.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/doubles/nvshmem_host_api.h"
#include "tests/shm/test_heap.h"

namespace xla_shmem::testing {

GpuJob::GpuJob(const GpuJobOptions& options) : driver_(CudaDouble::Driver()) {
  if (!options.batches) driver_.stream_batch_mem_op = nullptr;
  const size_t split_bytes = std::max<size_t>(options.split_bytes, 1 << 10);
  const size_t heap_bytes = options.arena_bytes + options.lane_bytes + split_bytes + (512 << 10);
  heap_ = HeapOfOneProcess(options.n_pes, heap_bytes / shm::kPageBytes * shm::kPageBytes);
  const Result<gpu::PairLayout> layout = gpu::PairLayout::Create(options.n_pes, options.arena_bytes);
  const Result<gpu::LaneLayout> lanes = gpu::LaneLayout::Create(options.n_pes, options.lane_bytes, options.multimem,
                                                                options.most_lanes, options.packet_bytes);
  if (!nvshmem_double::SetHeap(heap_.get()) || !layout.ok() || !lanes.ok()) abort();
  layout_ = *layout;
  const size_t arena = heap_->Allocate(options.arena_bytes);
  lane_memory_ = heap_->Allocate(options.lane_bytes);
  const size_t split_memory = heap_->Allocate(split_bytes);
  if (arena == SIZE_MAX || lane_memory_ == SIZE_MAX || split_memory == SIZE_MAX) abort();
  const gpu::SplitLayout splits = gpu::SplitLayout::Create(options.n_pes, options.split_bytes, lanes->lanes());
  if (options.driver_heap) MakeDriverHeap(options.n_pes, heap_bytes);
  for (int number = 0; number < options.n_pes; ++number) {
    char* const ring_address = Object(number, arena, options.arena_bytes);
    char* const lane_address = Object(number, lane_memory_, options.lane_bytes);
    char* const split_address = Object(number, split_memory, split_bytes);
    auto pe = std::make_unique<Pe>();
    pe->cuda = std::make_unique<CudaDouble>(number + 1, options.one_queue);
    pe->device = std::make_unique<gpu::Device>(&driver_, &CudaDouble::Shmem(), options.puts, pe->cuda->context());
    pe->device->SetHeap(driver_heap_.get());
    pe->device->SetSignals(options.signals);
    if (!pe->device->LoadKernels("kernels.cu").ok()) abort();
    const gpu::ScopedContext context(*pe->device);
    Pe* raw = pe.get();
    pe->watchdog = std::make_unique<gpu::Watchdog>(
        pe->device.get(), options.deadline, [raw](gpu::Watchdog::Event event, const std::string& reason) {
          raw->failures.push_back((event == gpu::Watchdog::Event::kStuck ? "stuck: " : "") + reason);
        });
    pe->timeline = std::make_unique<gpu::Timeline>(pe->device.get(), options.timed);
    pe->rings =
        std::make_unique<gpu::PairRings>(pe->device.get(), layout_, number, ring_address, options.first_message);
    SetMessages(layout_, ring_address, *lanes, lane_address, options.first_message);
    pe->operations = std::make_unique<gpu::KernelOperations>(number);
    pe->lanes = std::make_unique<gpu::Lanes>(pe->device.get(), pe->operations.get(), *lanes, number, lane_address);
    pe->splits = std::make_unique<gpu::SplitPermutes>(pe->device.get(), pe->operations.get(), pe->watchdog.get(),
                                                      splits, number, split_address, options.first_message);
    SetSplits(splits, split_address, options.first_message);
    if (options.multimem)
      pe->lanes->UseMultimem(static_cast<char*>(CudaDouble::Shmem().mc_ptr(kTeamWorld, lane_address)));
    pe->transfers = std::make_unique<gpu::Transfers>(pe->rings.get(), pe->lanes.get(), pe->splits.get(),
                                                     pe->watchdog.get(), pe->timeline.get(), options.permute);
    pe->compute = pe->cuda->CreateStream();
    pes_.push_back(std::move(pe));
  }
}

GpuJob::~GpuJob() {
  // Watchdogs use devices, and devices use doubles.
  for (auto& pe : pes_) pe->timeline.reset();
  for (auto& pe : pes_) pe->transfers.reset();
  for (auto& pe : pes_) pe->watchdog.reset();
  pes_.clear();
  nvshmem_double::SetHeap(nullptr);
}

void GpuJob::MakeDriverHeap(int n_pes, size_t bytes) {
  gpu::DriverHeap::Options heap;
  for (int pe = 0; pe < n_pes; ++pe) heap.own.push_back({pe, pe});
  heap.n_pes = n_pes;
  heap.bytes = bytes;
  Result<std::unique_ptr<gpu::DriverHeap>> made = gpu::DriverHeap::Create(&driver_, heap);
  if (!made.ok() || !(*made)->Open().ok()) abort();
  driver_heap_ = *std::move(made);
}

char* GpuJob::Object(int pe, size_t offset, size_t bytes) {
  if (driver_heap_ == nullptr) return heap_->base(pe) + offset;
  return static_cast<char*>(driver_heap_->Allocate(pe, bytes));
}

// Every packet has a number that 2^32 messages ago has left, and that is awaited again some messages after the numbers
// have wrapped round.
void GpuJob::SetPackets(const gpu::LaneLayout& lanes, gpu::LaneUse use, char* lane_memory, uint64_t messages) {
  auto* const sent = reinterpret_cast<uint64_t*>(lane_memory + lanes.PacketsSent(use));
  std::fill_n(sent, lanes.lanes() * lanes.n_pes(), static_cast<uint32_t>(messages));
  auto* const packets = reinterpret_cast<uint64_t*>(lane_memory + lanes.Packets(use));
  const size_t of_slot = lanes.packet_slot_bytes() / sizeof(uint64_t);
  const size_t slots = size_t{2} * lanes.lanes() * (lanes.n_pes() - 1);
  for (size_t i = 0; i < slots * of_slot; ++i) {
    const size_t parity = i / of_slot % 2;
    packets[i] = gpu::TaggedWord(0xdeadbeef, 4 + parity + 2 * (i / 2 % 8));
  }
}

void GpuJob::SetMessages(const gpu::PairLayout& pairs, char* arena, const gpu::LaneLayout& lanes, char* lane_memory,
                         uint64_t messages) {
  if (messages == 0) return;
  const uint64_t last = gpu::TaggedWord(kTag, messages);
  for (int peer = 0; peer < pairs.n_pes(); ++peer) {
    *reinterpret_cast<uint64_t*>(arena + pairs.Credit(peer)) = messages;
    *reinterpret_cast<uint64_t*>(arena + pairs.Arrived(peer, messages - 1)) = last;
  }
  for (const gpu::LaneUse use : {gpu::LaneUse::kOverlapping, gpu::LaneUse::kInLine}) {
    auto* const sent = reinterpret_cast<uint64_t*>(lane_memory + lanes.Sent(use));
    auto* const arrived = reinterpret_cast<uint64_t*>(lane_memory + lanes.Arrived(use));
    for (int pair = 0; pair < lanes.lanes() * lanes.n_pes(); ++pair) {
      sent[pair] = last;
      arrived[gpu::kLaneSlots * pair + messages % gpu::kLaneSlots] = last;
    }
    SetPackets(lanes, use, lane_memory, messages);
  }
}

void GpuJob::SetSplits(const gpu::SplitLayout& splits, char* memory, uint64_t messages) {
  for (uint64_t last = 0; last < splits.num_slots() && messages != 0; ++last) {
    const uint64_t message = messages - 1 - last;
    for (int peer = 0; peer < splits.n_pes(); ++peer) {
      auto* const arrived = reinterpret_cast<uint64_t*>(memory + splits.Arrived(peer, message));
      auto* const consumed = reinterpret_cast<uint64_t*>(memory + splits.Consumed(peer, message));
      std::fill_n(arrived, splits.lanes(), gpu::TaggedWord(kTag, message + 1));
      std::fill_n(consumed, splits.lanes(), message + 1);
    }
  }
}

bool GpuJob::Synchronize() {
  bool idle = true;
  for (auto& pe : pes_) idle &= pe->cuda->Synchronize();
  for (size_t pe = 0; pe < pes_.size() && !idle; ++pe) {
    fprintf(stderr, "PE %zu:%s\n", pe, pes_[pe]->cuda->Blocked().c_str());
  }
  return idle;
}

}  // namespace xla_shmem::testing
