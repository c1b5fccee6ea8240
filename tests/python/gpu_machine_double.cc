// A stand-in for the libraries of a GPU machine, to run the sections of benchmarks/gpu where there is none: the CUDA
// driver, NVSHMEM's host library and NVRTC, all in this one file, which the test copies under their three names.
//
// Commands run where they are enqueued, in the calling thread, or go into a graph while their stream is captured; a
// wait polls. "Device" memory is the process's own, symmetric memory POSIX shared memory. Kernels are those of
// kernels.cu for the CPU; any other kernel does nothing. So it shows that the sections are right about their calls and
// values, and nothing about order: that is what tests/nvshmem/gpu/cuda_double.h is for.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/nvshmem/gpu/kernels_on_cpu.cc"

namespace {

using Clock = std::chrono::steady_clock;
using Commands = std::vector<std::function<void()>>;

struct Stream {
  std::unique_ptr<Commands> captured;
};

void Run(void* stream, std::function<void()> command) {
  auto* target = static_cast<Stream*>(stream);
  if (target != nullptr && target->captured != nullptr) {
    target->captured->push_back(std::move(command));
  } else {
    command();
  }
}

void Poll(uint64_t address, const std::function<bool(uint64_t)>& reached) {
  auto* word = reinterpret_cast<std::atomic<uint64_t>*>(address);
  const auto give_up = Clock::now() + std::chrono::seconds(10);
  while (!reached(word->load())) {
    if (Clock::now() > give_up) {
      fprintf(stderr, "double: a stream wait has not been reached in 10 s\n");
      abort();
    }
    std::this_thread::yield();
  }
}

bool Reached(uint64_t now, uint64_t value, bool at_least) {
  return at_least ? static_cast<int64_t>(now - value) >= 0 : now == value;
}

void Store(void* address, uint64_t value) { static_cast<std::atomic<uint64_t>*>(address)->store(value); }

}  // namespace

extern "C" {

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  return *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 2, 0;
}
int cuDeviceGetPCIBusId(char* text, int bytes, int) { return snprintf(text, bytes, "0000:01:00.0"), 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = reinterpret_cast<void*>(1), 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void** context) { return *context = nullptr, 0; }
int cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = *greatest = 0, 0; }
int cuStreamCreate(void** stream, unsigned) { return *stream = new Stream, 0; }
int cuStreamCreateWithPriority(void** stream, unsigned, int) { return *stream = new Stream, 0; }
int cuStreamDestroy_v2(void*) { return 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuStreamWaitEvent(void*, void*, unsigned) { return 0; }
int cuStreamIsCapturing(void* stream, int* status) {
  return *status = static_cast<Stream*>(stream)->captured != nullptr, 0;
}
int cuStreamWaitValue64_v2(void* stream, uint64_t address, uint64_t value, unsigned flags) {
  Run(stream, [=] { Poll(address, [=](uint64_t now) { return Reached(now, value, flags == 0); }); });
  return 0;
}
int cuStreamWriteValue64_v2(void* stream, uint64_t address, uint64_t value, unsigned) {
  Run(stream, [=] { Store(reinterpret_cast<void*>(address), value); });
  return 0;
}
int cuStreamBeginCapture_v2(void* stream, int) {
  static_cast<Stream*>(stream)->captured = std::make_unique<Commands>();
  return 0;
}
int cuStreamEndCapture(void* stream, void** graph) {
  return *graph = static_cast<Stream*>(stream)->captured.release(), 0;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) { return *executable = graph, 0; }
int cuGraphLaunch(void* executable, void* stream) {
  Run(stream, [executable] {
    for (const auto& command : *static_cast<Commands*>(executable)) command();
  });
  return 0;
}
int cuEventCreate(void** event, unsigned) { return *event = new Clock::time_point, 0; }
int cuEventDestroy_v2(void*) { return 0; }
int cuEventRecord(void* event, void* stream) {
  Run(stream, [event] { *static_cast<Clock::time_point*>(event) = Clock::now(); });
  return 0;
}
int cuEventQuery(void*) { return 0; }
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const std::chrono::duration<float, std::milli> time =
      *static_cast<Clock::time_point*>(end) - *static_cast<Clock::time_point*>(begin);
  return *milliseconds = time.count() + 1e-3f, 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  return *address = reinterpret_cast<uint64_t>(aligned_alloc(256, (bytes + 255) / 256 * 256)), 0;
}
int cuMemcpyHtoD_v2(uint64_t destination, const void* source, size_t bytes) {
  return memcpy(reinterpret_cast<void*>(destination), source, bytes), 0;
}
int cuMemcpyDtoH_v2(void* destination, uint64_t source, size_t bytes) {
  return memcpy(destination, reinterpret_cast<void*>(source), bytes), 0;
}
int cuMemcpyAsync(uint64_t destination, uint64_t source, size_t bytes, void* stream) {
  Run(stream, [=] { memmove(reinterpret_cast<void*>(destination), reinterpret_cast<void*>(source), bytes); });
  return 0;
}
int cuMemsetD8Async(uint64_t destination, unsigned char value, size_t bytes, void* stream) {
  Run(stream, [=] { memset(reinterpret_cast<void*>(destination), value, bytes); });
  return 0;
}
int cuModuleLoadData(void** module, const void*) { return *module = reinterpret_cast<void*>(1), 0; }
int cuModuleGetFunction(void** function, void*, const char* name) {
  return *function = reinterpret_cast<void*>(xla_shmem::testing::FindKernel(name)), 0;
}
int cuLaunchKernel(void* function, unsigned grid, unsigned, unsigned, unsigned block, unsigned, unsigned, unsigned,
                   void* stream, void** parameters, void**) {
  if (function == nullptr) return 0;
  std::string arguments(static_cast<const char*>(parameters[0]), sizeof(xla_shmem::testing::ReduceArguments));
  Run(stream,
      [=]() mutable { reinterpret_cast<xla_shmem::testing::KernelFunction>(function)(arguments.data(), grid, block); });
  return 0;
}
int cuGetErrorName(int, const char** name) { return *name = "an error of the double", 0; }

int nvrtcGetNumSupportedArchs(int* count) { return *count = 1, 0; }
int nvrtcGetSupportedArchs(int* architectures) { return *architectures = 90, 0; }
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*, const char* const*) {
  return *program = nullptr, 0;
}
int nvrtcCompileProgram(void*, int, const char* const*) { return 0; }
int nvrtcGetCUBINSize(void*, size_t* size) { return *size = 1, 0; }
int nvrtcGetCUBIN(void*, char* image) { return *image = 0, 0; }
int nvrtcDestroyProgram(void**) { return 0; }

}  // extern "C"

namespace {

// One symmetric allocation: what follows the first page, in every PE's segment.
struct Allocation {
  static constexpr size_t kPage = 4096;
  std::vector<char*> base;  // by PE
  size_t bytes;
};

int g_pe, g_pes;
std::string g_world;
std::vector<Allocation> g_allocations;

char* Map(const std::string& name, size_t bytes, bool create) {
  int descriptor = -1;
  struct stat state{};
  for (int tries = 0; descriptor < 0 || state.st_size < static_cast<off_t>(bytes); ++tries) {
    if (tries == 10000) abort();
    if (descriptor >= 0) close(descriptor);
    descriptor = shm_open(name.c_str(), O_RDWR | (create ? O_CREAT : 0), 0600);
    if (create && ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) abort();
    if (descriptor >= 0) fstat(descriptor, &state);
    if (!create) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  return static_cast<char*>(memory);
}

}  // namespace

extern "C" {

void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) { *major = 3, *minor = 8, *patch = 0; }
int nvshmemx_get_uniqueid(void* id) {
  snprintf(static_cast<char*>(id) + 4, 100, "/gpu-machine-double-%d", getpid());
  return 0;
}
int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const void* id, void*) {
  g_pe = rank, g_pes = ranks, g_world = static_cast<const char*>(id) + 4;
  return 0;
}
int nvshmemx_hostlib_init_attr(unsigned, void*) { return 0; }
void nvshmemx_hostlib_finalize() {}
int nvshmem_my_pe() { return g_pe; }
int nvshmem_n_pes() { return g_pes; }
void* nvshmem_malloc(size_t bytes) {
  Allocation allocation{{}, bytes};
  const auto name = [&](int pe) {
    return g_world + "-" + std::to_string(g_allocations.size()) + "-" + std::to_string(pe);
  };
  Map(name(g_pe), bytes + Allocation::kPage, /*create=*/true);
  for (int pe = 0; pe < g_pes; ++pe) {
    allocation.base.push_back(Map(name(pe), bytes + Allocation::kPage, /*create=*/false));
    // The last one to map a segment takes its name away.
    auto* mapped = reinterpret_cast<std::atomic<int>*>(allocation.base.back());
    if (mapped->fetch_add(1) + 1 == g_pes) shm_unlink(name(pe).c_str());
  }
  g_allocations.push_back(allocation);
  return allocation.base[g_pe] + Allocation::kPage;
}
void nvshmem_free(void*) {}
void* nvshmem_ptr(const void* address, int pe) {
  for (const Allocation& allocation : g_allocations) {
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - allocation.base[g_pe]);
    if (offset < allocation.bytes + Allocation::kPage) return allocation.base[pe] + offset;
  }
  return nullptr;
}
void nvshmemx_putmem_on_stream(void* destination, const void* source, size_t bytes, int pe, void* stream) {
  Run(stream, [=] { memcpy(nvshmem_ptr(destination, pe), source, bytes); });
}
void nvshmemx_signal_op_on_stream(uint64_t* word, uint64_t value, int, int pe, void* stream) {
  Run(stream, [=] { Store(nvshmem_ptr(word, pe), value); });
}
void nvshmemx_putmem_signal_on_stream(void* destination, const void* source, size_t bytes, uint64_t* word,
                                      uint64_t value, int, int pe, void* stream) {
  nvshmemx_putmem_on_stream(destination, source, bytes, pe, stream);
  nvshmemx_signal_op_on_stream(word, value, 0, pe, stream);
}
void nvshmemx_signal_wait_until_on_stream(uint64_t* word, int compare, uint64_t value, void* stream) {
  cuStreamWaitValue64_v2(stream, reinterpret_cast<uint64_t>(word), value, compare == 5 ? 0 : 1);
}
// In the table, not called by transfers.
void nvshmemx_quiet_on_stream() {}
void nvshmemx_barrier_on_stream() {}
void nvshmem_team_my_pe() {}
void nvshmem_team_n_pes() {}
void nvshmem_team_translate_pe() {}
void nvshmem_team_split_strided() {}
void nvshmem_team_split_2d() {}
void nvshmem_team_destroy() {}

}  // extern "C"
