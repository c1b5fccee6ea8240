#include "tests/nvshmem/gpu/cuda_double.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <tuple>
#include <vector>

#include "tests/doubles/cuda_stream.h"
#include "tests/doubles/nvshmem_host_api.h"
#include "tests/nvshmem/gpu/cuda_double_device.h"
#include "tests/nvshmem/gpu/cuda_errors.h"
#include "tests/nvshmem/gpu/memory_double.h"

namespace xla_shmem::testing {
namespace {

using gpu::CudaContext;
using gpu::CudaEvent;
using gpu::CudaFunction;
using gpu::CudaModule;
using gpu::CudaStream;
using gpu::DeviceAddress;
using nvshmem_double::Command;

thread_local std::vector<CudaContext> current;

}  // namespace

// The calls of the table. Streams and events find their device by themselves, as they do on a GPU.
struct DoubleCalls {
  using Device = CudaDouble::Device;

  static Device& Current() { return *static_cast<Device*>(current.back()); }
  static Device::Stream& StreamOf(CudaStream stream) {
    if (stream == nullptr) {
      fprintf(stderr, "cuda double: a call on the null stream, which XLA never uses\n");
      abort();
    }
    return *static_cast<Device::Stream*>(static_cast<nvshmem_double::Stream*>(stream));
  }

  static int Enqueue(CudaStream handle, const Command& command) {
    Device::Stream& stream = StreamOf(handle);
    if (current.empty()) return kInvalidContext;
    std::lock_guard<std::mutex> lock(stream.device->mutex);
    if (stream.device->trapped) return kLaunchFailed;
    stream.Append(command);
    ++stream.device->commands;
    if (stream.device->one_queue && !stream.capturing) stream.device->queue.push_back(&stream);
    return 0;
  }

  // A call of NVSHMEM, whose last argument is the stream.
  template <auto call, typename... Arguments>
  static void ByNvshmem(Arguments... arguments) {
    const StreamHandle handle = std::get<sizeof...(Arguments) - 1>(std::tuple(arguments...));
    Device::Stream& stream = StreamOf(handle);
    std::lock_guard<std::mutex> lock(stream.device->mutex);
    const size_t before = stream.Left();
    (nvshmem_double::Api().shmem.*call)(arguments...);
    if (stream.device->one_queue)
      stream.device->queue.insert(stream.device->queue.end(), stream.Left() - before, &stream);
  }

  static int PushCurrent(CudaContext context) {
    current.push_back(context);
    return 0;
  }
  static int PopCurrent(CudaContext* context) {
    *context = current.back();
    current.pop_back();
    return 0;
  }
  static int PriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return 0;
  }
  static int StreamCreate(CudaStream* stream, unsigned, int) {
    if (current.empty()) return kInvalidContext;
    Device& device = Current();
    std::lock_guard<std::mutex> lock(device.mutex);
    *stream = static_cast<nvshmem_double::Stream*>(&device.streams.emplace_back(&device));
    return device.trapped ? kLaunchFailed : 0;
  }
  static int IsCapturing(CudaStream handle, int* status) {
    *status = StreamOf(handle).capturing ? 1 : 0;
    return 0;
  }
  static int WaitEvent(CudaStream stream, CudaEvent handle, unsigned) {
    Command command{Command::Kind::kWait, kCmpGe};
    command.word = __atomic_load_n(&static_cast<DoubleEvent*>(handle)->reached, __ATOMIC_ACQUIRE);
    command.value = 1;
    return Enqueue(stream, command);
  }
  static int WaitValue(CudaStream stream, DeviceAddress address, uint64_t value, unsigned flags) {
    if (flags > gpu::kWaitEqual || address % 8 != 0) return kInvalidValue;
    Command command{Command::Kind::kWait, static_cast<uint8_t>(flags == gpu::kWaitEqual ? kCmpEq : kCmpGe)};
    command.word = reinterpret_cast<uint64_t*>(address);
    command.value = value;
    return Enqueue(stream, command);
  }
  static int WriteValue(CudaStream stream, DeviceAddress address, uint64_t value, unsigned flags) {
    if (flags != 0 || address % 8 != 0) return kInvalidValue;
    Command command{Command::Kind::kSignal, kSignalSet};
    command.word = reinterpret_cast<uint64_t*>(address);
    command.value = value;
    return Enqueue(stream, command);
  }
  // Counts as one command. Others may run between its operations.
  static int BatchMemOp(CudaStream stream, unsigned count, gpu::BatchedOperation* operations, unsigned flags) {
    if (count == 0 || count > 255 || flags != 0) return kInvalidValue;
    for (unsigned i = 0; i < count; ++i) {
      const bool waits = operations[i].operation == gpu::kBatchWait64;
      if (!waits && operations[i].operation != gpu::kBatchWrite64) return kInvalidValue;
      if (operations[i].flags > (waits ? gpu::kWaitEqual : 0) || operations[i].address % 8 != 0) return kInvalidValue;
    }
    for (unsigned i = 0; i < count; ++i) {
      const auto& [operation, address, value, compare, alias, unused] = operations[i];
      const int result = operation == gpu::kBatchWait64 ? WaitValue(stream, address, value, compare)
                                                        : WriteValue(stream, address, value, compare);
      if (result != 0) return result;
    }
    Device& device = *StreamOf(stream).device;
    std::lock_guard<std::mutex> lock(device.mutex);
    device.commands -= count - 1;
    return 0;
  }
  static int EventCreate(CudaEvent* event, unsigned flags) {
    if (current.empty()) return kInvalidContext;
    Device& device = Current();
    std::lock_guard<std::mutex> lock(device.mutex);
    DoubleEvent& created = device.events.emplace_back();
    created.timed = (flags & gpu::kEventDisableTiming) == 0;
    *event = &created;
    return 0;
  }
  static int EventRecord(CudaEvent handle, CudaStream stream) {
    Command command{Command::Kind::kHostFunc};
    uint64_t* word = nullptr;
    {
      Device* device = StreamOf(stream).device;
      std::lock_guard<std::mutex> lock(device->mutex);
      word = &device->records.emplace_back(0);
    }
    command.destination = word;
    command.function = [](void* reached) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
      __atomic_store_n(static_cast<uint64_t*>(reached), static_cast<uint64_t>(ns), __ATOMIC_RELEASE);
    };
    __atomic_store_n(&static_cast<DoubleEvent*>(handle)->reached, word, __ATOMIC_RELEASE);
    return Enqueue(stream, command);
  }
  static int EventQuery(CudaEvent handle) {
    const auto* event = static_cast<DoubleEvent*>(handle);
    if (current.empty()) return kInvalidContext;
    Device& device = Current();
    {
      std::lock_guard<std::mutex> lock(device.mutex);
      if (device.trapped) return kLaunchFailed;
    }
    return TimeOf(event) != 0 ? 0 : gpu::kCudaNotReady;
  }
  static uint64_t TimeOf(const DoubleEvent* event) {
    return nvshmem_double::LoadSignal(__atomic_load_n(&event->reached, __ATOMIC_ACQUIRE));
  }
  static int EventElapsedTime(float* milliseconds, CudaEvent from, CudaEvent to) {
    const auto* const begin = static_cast<DoubleEvent*>(from);
    const auto* const end = static_cast<DoubleEvent*>(to);
    if (!begin->timed || !end->timed) return kInvalidHandle;
    if (TimeOf(begin) == 0 || TimeOf(end) == 0) return gpu::kCudaNotReady;
    *milliseconds = static_cast<float>(TimeOf(end) - TimeOf(begin)) / 1e6F;
    return 0;
  }
  static int HostAlloc(void** memory, size_t bytes, unsigned) {
    if (current.empty()) return kInvalidContext;
    // Pinned memory lives as long as the process: the product frees none, because a late copy may still write to it.
    static std::mutex mutex;
    static auto* pinned = new std::vector<std::unique_ptr<char[]>>;
    const std::lock_guard<std::mutex> lock(mutex);
    pinned->push_back(std::make_unique<char[]>(bytes));
    *memory = pinned->back().get();
    return 0;
  }
  static int Memcpy(DeviceAddress destination, DeviceAddress source, size_t bytes, CudaStream stream) {
    Command command{Command::Kind::kCopy};
    command.destination = reinterpret_cast<void*>(destination);
    command.source = reinterpret_cast<const void*>(source);
    command.bytes = bytes;
    return Enqueue(stream, command);
  }
  static int Memset(DeviceAddress destination, unsigned char value, size_t bytes, CudaStream stream) {
    Command command{Command::Kind::kFill, value};
    command.destination = reinterpret_cast<void*>(destination);
    command.bytes = bytes;
    return Enqueue(stream, command);
  }
  static int ModuleLoad(CudaModule* module, const void* image) {
    *module = const_cast<void*>(image);
    if (current.empty()) return kInvalidContext;
    return image == nullptr ? kInvalidValue : 0;
  }
  static int GetFunction(CudaFunction* function, CudaModule, const char* name) {
    *function = const_cast<Kernel*>(FindKernel(name));
    return *function == nullptr ? kNotFound : 0;
  }
  static int Launch(CudaFunction function, unsigned grid, unsigned, unsigned, unsigned block, unsigned, unsigned,
                    unsigned, CudaStream handle, void** parameters, void**) {
    const auto* kernel = static_cast<const Kernel*>(function);
    if (grid == 0 || block == 0 || block > 1024) return kInvalidValue;
    Device* device = StreamOf(handle).device;
    Command command{Command::Kind::kTask};
    command.poll = [](void* launch) { return static_cast<DoubleLaunch*>(launch)->Poll(); };
    {
      std::lock_guard<std::mutex> lock(device->mutex);
      const void* const argument = kernel->argument_bytes == 0 ? nullptr : parameters[0];
      command.destination = &device->launches.emplace_back(kernel, argument, grid, &device->trapped);
    }
    return Enqueue(handle, command);
  }
  static int ErrorName(int error, const char** name) {
    *name = CudaErrorName(error);
    return 0;
  }
};

CudaDouble::CudaDouble(unsigned seed, bool one_queue) : device_(std::make_unique<Device>(seed, one_queue)) {}

CudaDouble::~CudaDouble() {
  {
    std::lock_guard<std::mutex> lock(device_->mutex);
    device_->stop = true;
  }
  device_->thread.join();
}

const gpu::CudaDriver& CudaDouble::Driver() {
  static const gpu::CudaDriver driver = [] {
    gpu::CudaDriver table{};
    table.ctx_push_current = DoubleCalls::PushCurrent;
    table.ctx_pop_current = DoubleCalls::PopCurrent;
    table.ctx_get_stream_priority_range = DoubleCalls::PriorityRange;
    table.stream_create_with_priority = DoubleCalls::StreamCreate;
    table.stream_is_capturing = DoubleCalls::IsCapturing;
    table.stream_wait_event = DoubleCalls::WaitEvent;
    table.stream_wait_value64 = DoubleCalls::WaitValue;
    table.stream_write_value64 = DoubleCalls::WriteValue;
    table.stream_batch_mem_op = DoubleCalls::BatchMemOp;
    table.event_create = DoubleCalls::EventCreate;
    table.event_record = DoubleCalls::EventRecord;
    table.event_query = DoubleCalls::EventQuery;
    table.event_elapsed_time = DoubleCalls::EventElapsedTime;
    table.mem_host_alloc = DoubleCalls::HostAlloc;
    table.memcpy_async = DoubleCalls::Memcpy;
    table.memset_d8_async = DoubleCalls::Memset;
    table.module_load_data = DoubleCalls::ModuleLoad;
    table.module_get_function = DoubleCalls::GetFunction;
    table.launch_kernel = DoubleCalls::Launch;
    table.get_error_name = DoubleCalls::ErrorName;
    AddVirtualMemory(&table);
    return table;
  }();
  return driver;
}

const NvshmemApi& CudaDouble::Shmem() {
  // Streams of a double are host streams that another thread runs, so each call takes its lock.
  static const NvshmemApi api = [] {
    NvshmemApi table = nvshmem_double::Api().shmem;
    table.putmem_on_stream = DoubleCalls::ByNvshmem<&NvshmemApi::putmem_on_stream>;
    table.putmem_signal_on_stream = DoubleCalls::ByNvshmem<&NvshmemApi::putmem_signal_on_stream>;
    table.signal_op_on_stream = DoubleCalls::ByNvshmem<&NvshmemApi::signal_op_on_stream>;
    table.signal_wait_until_on_stream = DoubleCalls::ByNvshmem<&NvshmemApi::signal_wait_until_on_stream>;
    return table;
  }();
  return api;
}

std::unique_lock<std::mutex> CudaDouble::Lock(gpu::CudaStream stream) {
  return std::unique_lock<std::mutex>(DoubleCalls::StreamOf(stream).device->mutex);
}

gpu::CudaContext CudaDouble::context() const { return device_.get(); }

gpu::CudaStream CudaDouble::CreateStream() {
  std::lock_guard<std::mutex> lock(device_->mutex);
  return static_cast<nvshmem_double::Stream*>(&device_->streams.emplace_back(device_.get()));
}

void CudaDouble::BeginCapture(gpu::CudaStream handle) {
  Device::Stream& stream = DoubleCalls::StreamOf(handle);
  const auto lock = Lock(handle);
  stream.capturing = true;
  stream.BeginCapture();
}

void CudaDouble::EndCapture(gpu::CudaStream handle) {
  Device::Stream& stream = DoubleCalls::StreamOf(handle);
  const auto lock = Lock(handle);
  stream.capturing = false;
  stream.graph = stream.EndCapture();
}

void CudaDouble::LaunchGraph(gpu::CudaStream handle) {
  Device::Stream& stream = DoubleCalls::StreamOf(handle);
  const auto lock = Lock(handle);
  stream.Launch(stream.graph);
  if (stream.device->one_queue) stream.device->queue.insert(stream.device->queue.end(), stream.graph.size(), &stream);
}

bool CudaDouble::Synchronize(double seconds) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(device_->mutex);
      bool idle = true;
      for (const Device::Stream& stream : device_->streams) idle &= stream.Idle();
      if (idle) return true;
    }
    if (std::chrono::steady_clock::now() > give_up) return false;
    usleep(50);
  }
}

std::string CudaDouble::Blocked() const {
  std::lock_guard<std::mutex> lock(device_->mutex);
  std::ostringstream text;
  for (size_t i = 0; i < device_->streams.size(); ++i) {
    const Command* command = device_->streams[i].BlockedOn();
    if (command == nullptr) continue;
    text << " stream " << i << ": kind " << static_cast<int>(command->kind);
    if (command->kind != Command::Kind::kWait) continue;
    text << " word " << static_cast<void*>(command->word) << " has " << nvshmem_double::LoadSignal(command->word)
         << ", compare " << static_cast<int>(command->compare_or_op) << " with " << command->value << ";";
  }
  return text.str();
}

size_t CudaDouble::commands() const {
  std::lock_guard<std::mutex> lock(device_->mutex);
  return device_->commands;
}

size_t CudaDouble::launches(const std::string& kernel) const {
  std::lock_guard<std::mutex> lock(device_->mutex);
  const Kernel* const wanted = FindKernel(kernel.c_str());
  return std::count_if(device_->launches.begin(), device_->launches.end(),
                       [&](const DoubleLaunch& launch) { return launch.kernel() == wanted; });
}

bool CudaDouble::trapped() const {
  std::lock_guard<std::mutex> lock(device_->mutex);
  return device_->trapped;
}

void CudaDouble::Pause(bool paused) {
  std::lock_guard<std::mutex> lock(device_->mutex);
  device_->paused = paused;
}

}  // namespace xla_shmem::testing
