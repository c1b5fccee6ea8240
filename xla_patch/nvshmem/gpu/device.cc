#include "xla_patch/nvshmem/gpu/device.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace xla_shmem::gpu {
namespace {

// What all GPUs take as the parameters of a kernel.
static_assert(sizeof(SplitArguments) <= 4096 && sizeof(RaggedArguments) <= 4096);

}  // namespace

void Device::Check(int result, const char* call) {
  if (result == kCudaSuccess) return;  // without the lock: each command comes here
  const Status status = CudaStatus(*cuda_, result, call);
  std::lock_guard<std::mutex> lock(mutex_);
  if (error_.empty()) error_ = status.message();
}

bool Device::failed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return !error_.empty();
}

Status Device::TakeError() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (error_.empty()) return {};
  return Status::Error(std::exchange(error_, {}));
}

// Looks all functions up at once: the driver may not load one while a stream of the thread is captured.
Status Device::LoadKernels(const void* image) {
  const ScopedContext context(*this);
  Check(cuda_->module_load_data(&module_, image), "cuModuleLoadData");
  for (const std::string kernel : {"move", "reduce", "move_packets", "reduce_packets", "ragged_all_to_all",
                                   "send_message", "receive_message", "trap", "switch_reduction", "switch_gather"}) {
    if (failed()) break;
    CudaFunction function = nullptr;
    const int result = cuda_->module_get_function(&function, module_, kernel.c_str());
    if (result == kCudaSuccess) functions_[kernel] = function;
    const bool optional = kernel.rfind("switch_", 0) == 0;  // old compilers leave them out
    if (!optional) Check(result, ("cuModuleGetFunction of " + kernel).c_str());
  }
  return TakeError();
}

CudaStream Device::CreateStream() {
  int least = 0;
  int greatest = 0;
  Check(cuda_->ctx_get_stream_priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange");
  CudaStream stream = nullptr;
  Check(cuda_->stream_create_with_priority(&stream, kStreamNonBlocking, greatest), "cuStreamCreateWithPriority");
  return stream;
}

void Device::Copy(void* destination, const void* source, size_t bytes, CudaStream stream) {
  if (bytes == 0 || failed()) return;
  Check(cuda_->memcpy_async(AddressOf(destination), AddressOf(source), bytes, stream), "cuMemcpyAsync");
}

void Device::Fill(void* destination, unsigned char value, size_t bytes, CudaStream stream) {
  if (bytes == 0 || failed()) return;
  Check(cuda_->memset_d8_async(AddressOf(destination), value, bytes, stream), "cuMemsetD8Async");
}

void Device::LaunchCollective(const CollectiveArguments& arguments, unsigned blocks, unsigned threads,
                              CudaStream stream) {
  const bool moves = arguments.shape == kMove, in_switch = arguments.multicast != nullptr;
  const std::string kernel = in_switch ? (moves ? "switch_gather" : "switch_reduction") : moves ? "move" : "reduce";
  if (!failed()) Launch(arguments.in_packets ? kernel + "_packets" : kernel, blocks, threads, &arguments, stream);
}

void Device::LaunchRaggedAllToAll(const RaggedArguments& arguments, unsigned blocks, unsigned threads,
                                  CudaStream stream) {
  if (!failed()) Launch("ragged_all_to_all", blocks, threads, &arguments, stream);
}

void Device::LaunchSplit(Half half, const SplitArguments& arguments, unsigned blocks, unsigned threads,
                         CudaStream stream) {
  const char* const kernel = half == Half::kSend ? "send_message" : "receive_message";
  if (!failed()) Launch(kernel, blocks, threads, &arguments, stream);
}

void Device::Launch(const std::string& kernel, unsigned grid, unsigned block, const void* argument, CudaStream stream) {
  const auto found = functions_.find(kernel);
  const CudaFunction function = found == functions_.end() ? nullptr : found->second;
  void* arguments[] = {const_cast<void*>(argument)};
  void** const parameters = argument == nullptr ? nullptr : arguments;
  if (remote_domain_) {
    LaunchAttribute domain{kLaunchMemSyncDomain, {0, kMemSyncDomainRemote}};
    const LaunchConfig config{grid, 1, 1, block, 1, 1, 0, stream, &domain, 1};
    Check(cuda_->launch_kernel_ex(&config, function, parameters, nullptr), "cuLaunchKernelEx");
  } else {
    Check(cuda_->launch_kernel(function, grid, 1, 1, block, 1, 1, 0, stream, parameters, nullptr), "cuLaunchKernel");
  }
}

EventRef Device::Mark(CudaStream stream, Timing timing) {
  CudaEvent event = nullptr;
  std::vector<CudaEvent>& idle = idle_events_[static_cast<int>(timing)];
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!idle.empty()) {
      event = idle.back();
      idle.pop_back();
    }
  }
  const unsigned flags = timing == Timing::kTimed ? kEventDefault : kEventDisableTiming;
  if (event == nullptr) Check(cuda_->event_create(&event, flags), "cuEventCreate");
  if (event == nullptr) return nullptr;
  Check(cuda_->event_record(event, stream), "cuEventRecord");
  return EventRef(event, [this, &idle](CudaEvent unused) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle.push_back(unused);
  });
}

void Device::WaitFor(const EventRef& event, CudaStream stream) {
  if (event != nullptr) Check(cuda_->stream_wait_event(stream, event.get(), 0), "cuStreamWaitEvent");
}

double Device::MillisecondsBetween(const EventRef& from, const EventRef& to) const {
  float milliseconds = 0;
  return cuda_->event_elapsed_time(&milliseconds, from.get(), to.get()) == kCudaSuccess ? milliseconds : 0;
}

void Device::Order(CudaStream stream, CudaStream other) {
  // A wait keeps to the record that was the last when it was enqueued, so the event may be recorded again at once.
  WaitFor(Mark(other), stream);
}

bool Device::Capturing(CudaStream stream) {
  int status = kCaptureNone;
  Check(cuda_->stream_is_capturing(stream, &status), "cuStreamIsCapturing");
  return status != kCaptureNone;
}

Device::Progress Device::Query(const EventRef& event) const {
  const int result = cuda_->event_query(event.get());
  if (result == kCudaSuccess) return Progress::kDone;
  return result == kCudaNotReady ? Progress::kRunning : Progress::kFailed;
}

Device::Progress Device::QueryAll(const std::vector<EventRef>& events) const {
  Progress all = Progress::kDone;
  for (const EventRef& event : events) {
    const Progress one = Query(event);
    if (one == Progress::kFailed) return one;
    if (one == Progress::kRunning) all = one;
  }
  return all;
}

uint64_t* Device::AllocateHostWords(size_t count) {
  void* memory = nullptr;
  Check(cuda_->mem_host_alloc(&memory, count * sizeof(uint64_t), kHostAllocPortable | kHostAllocDeviceMap),
        "cuMemHostAlloc");
  if (memory != nullptr) std::fill_n(static_cast<uint64_t*>(memory), count, 0);
  return static_cast<uint64_t*>(memory);
}

void Device::PrepareReads() {
  read_stream_ = CreateStream();
  landing_ = AllocateHostWords(kMaxReadWords);
}

std::vector<uint64_t> Device::ReadWords(const uint64_t* words, size_t count, std::chrono::milliseconds time) {
  if (landing_ == nullptr) return {};
  if (unfinished_read_ != nullptr && Query(unfinished_read_) == Progress::kRunning) return {};
  unfinished_read_.reset();
  count = std::min(count, kMaxReadWords);
  if (cuda_->memcpy_async(AddressOf(landing_), AddressOf(words), count * sizeof(*landing_), read_stream_) !=
      kCudaSuccess) {
    return {};
  }
  unfinished_read_ = Mark(read_stream_);
  const auto give_up = std::chrono::steady_clock::now() + time;
  while (Query(unfinished_read_) == Progress::kRunning) {
    if (std::chrono::steady_clock::now() > give_up) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (Query(unfinished_read_) != Progress::kDone) return {};
  const volatile uint64_t* const landed = landing_;
  return {landed, landed + count};
}

void Device::Trap(CudaStream stream) {
  const ScopedContext context(*this);
  Launch("trap", 1, 1, nullptr, stream);
}

bool BatchedStream::CopiesSignal(const uint64_t* word, int pe) const {
  return device_->signals_ == Signals::kCopies && device_->PeerAddress(word, pe) != word;
}

void BatchedStream::Put(void* dest, const void* source, size_t bytes, int pe) {
  if (!by_nvshmem()) return Copy(device_->PeerAddress(dest, pe), source, bytes);
  Flush();
  if (bytes != 0 && !device_->failed()) device_->shmem_->putmem_on_stream(dest, source, bytes, pe, stream_);
}

void BatchedStream::PutSignal(void* dest, const void* source, size_t bytes, uint64_t* word, uint64_t value, int pe) {
  if (by_nvshmem()) {
    if (device_->failed()) return;
    device_->shmem_->putmem_signal_on_stream(dest, source, bytes, word, value, kSignalSet, pe, stream_);
  } else if (CopiesSignal(word, pe)) {
    Write(word, value);
    Put(dest, source, bytes, pe);
    Put(word, word, sizeof(*word), pe);
  } else {
    Put(dest, source, bytes, pe);
    Signal(word, value, pe);
  }
}

void BatchedStream::Signal(uint64_t* word, uint64_t value, int pe) {
  if (by_nvshmem()) {
    if (!device_->failed()) device_->shmem_->signal_op_on_stream(word, value, kSignalSet, pe, stream_);
  } else if (CopiesSignal(word, pe)) {
    Write(word, value);
    Put(word, word, sizeof(*word), pe);
  } else {
    Write(device_->PeerAddress(word, pe), value);
  }
}

// Without flags: the v2 calls have no others (cuda.h on CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER).
void BatchedStream::Write(void* word, uint64_t value) {
  operations_.push_back({kBatchWrite64, AddressOf(word), value, 0, 0, 0});
}

void BatchedStream::Wait(uint64_t* word, uint64_t value, unsigned flags) {
  if (!by_nvshmem()) {
    operations_.push_back({kBatchWait64, AddressOf(word), value, flags, 0, 0});
  } else if (!device_->failed()) {
    const int compare = flags == kWaitEqual ? kCmpEq : kCmpGe;
    device_->shmem_->signal_wait_until_on_stream(word, compare, value, stream_);
  }
}

void BatchedStream::Copy(void* destination, const void* source, size_t bytes) {
  Flush();
  device_->Copy(destination, source, bytes, stream_);
}

void BatchedStream::Fill(void* destination, unsigned char value, size_t bytes) {
  Flush();
  device_->Fill(destination, value, bytes, stream_);
}

void BatchedStream::Flush() {
  std::vector<BatchedOperation> batch = std::exchange(operations_, {});
  const CudaDriver& cuda = *device_->cuda_;
  if (batch.size() > 1 && cuda.stream_batch_mem_op != nullptr) {
    if (device_->failed()) return;
    const int result = cuda.stream_batch_mem_op(stream_, static_cast<unsigned>(batch.size()), batch.data(), 0);
    return device_->Check(result, "cuStreamBatchMemOp");
  }
  for (const BatchedOperation& one : batch) {
    if (device_->failed()) return;
    if (one.operation == kBatchWrite64) {
      device_->Check(cuda.stream_write_value64(stream_, one.address, one.value, one.flags), "cuStreamWriteValue64");
    } else {
      device_->Check(cuda.stream_wait_value64(stream_, one.address, one.value, one.flags), "cuStreamWaitValue64");
    }
  }
}

}  // namespace xla_shmem::gpu
