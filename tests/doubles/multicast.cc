#include "tests/doubles/multicast.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace xla_shmem::nvshmem_double {
namespace {

// Addresses without memory, so that ordinary accesses fault.
constexpr size_t kWindowBytes = size_t{1} << 34;

shm::Heap* heap = nullptr;
std::atomic<size_t> loads{0}, stores{0};
char* window = nullptr;
struct sigaction previous;

bool InWindow(const void* address) {
  const auto* const at = static_cast<const char*>(address);
  return at >= window && at < window + kWindowBytes;
}

void OnFault(int number, siginfo_t* information, void* context) {
  if (InWindow(information->si_addr)) {
    constexpr char kWords[] =
        "nvshmem double: an ordinary load or store at a multicast address, which only multimem instructions may use\n";
    if (write(STDERR_FILENO, kWords, sizeof(kWords) - 1) < 0) _exit(1);
    signal(SIGABRT, SIG_DFL);
    abort();
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(number, information, context);
  signal(SIGSEGV, SIG_DFL);  // the access is tried again
}

char* Window() {
  static char* const made = [] {
    void* const memory = mmap(nullptr, kWindowBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) abort();
    window = static_cast<char*>(memory);
    return window;
  }();
  return made;
}

// The test framework has a handler of its own in each test case.
void InstallHandler() {
  struct sigaction action{};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  struct sigaction replaced{};
  sigaction(SIGSEGV, &action, &replaced);
  if (replaced.sa_sigaction != OnFault) previous = replaced;
}

}  // namespace

void SetMulticastHeap(shm::Heap* new_heap) {
  heap = new_heap;
  if (heap != nullptr) InstallHandler();
}

char* MulticastAddress(size_t offset) { return Window() + offset; }

std::vector<char*> MemberAddresses(const char* multicast, size_t bytes) {
  const auto offset = static_cast<size_t>(multicast - Window());
  if (!InWindow(multicast) || heap == nullptr || offset + bytes > heap->bytes() ||
      reinterpret_cast<uintptr_t>(multicast) % bytes != 0) {
    fprintf(stderr, "nvshmem double: a multimem instruction of %zu bytes at %p, which is no multicast address for it\n",
            bytes, static_cast<const void*>(multicast));
    abort();
  }
  std::vector<char*> members;
  members.reserve(heap->n_pes());
  for (int pe = 0; pe < heap->n_pes(); ++pe) members.push_back(heap->base(pe) + offset);
  return members;
}

MulticastCounts CountsOfMulticast() { return {loads.load(), stores.load()}; }

void CountMulticast(bool store) { (store ? stores : loads).fetch_add(1, std::memory_order_relaxed); }

}  // namespace xla_shmem::nvshmem_double
